//! The limits of a pool, and what a request needs of it.

use crate::choice::Choice;
use crate::circuit::CircuitOptions;

/// The limits of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Number of workers that share the pool, at least 1. A larger number of a worker counts as the last one.
    pub workers: usize,
    /// Maximum number of waiting requests, over all workers.
    pub queue: usize,
    /// Maximum number of requests per member; `None` for no limit.
    pub requests_per_member: Option<u64>,
    /// How the member for a request is chosen.
    pub choice: Choice,
    /// When members are ejected.
    pub circuit: CircuitOptions,
}

/// What a request needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CheckoutOptions<'a> {
    /// Which connections it accepts.
    pub preference: Preference,
    /// The [hash](crate::hash) of its key, for [`Choice::Hash`].
    pub key: Option<u64>,
    /// The id of the member that gets the request if it is up and below its limit, whatever the [choice](Choice) is.
    pub preferred: Option<u64>,
    /// The ids of the members that have failed to serve it: others are chosen, if any is up.
    pub tried: &'a [u64],
}

/// A request without a key, for any member.
impl From<Preference> for CheckoutOptions<'_> {
    fn from(preference: Preference) -> Self {
        Self { preference, key: None, preferred: None, tried: &[] }
    }
}

/// Which connections a checkout accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Preference {
    /// An idle connection, or else a new one.
    Any,
    /// A new connection, which replaces an idle one at the limit. For a retry after an idle connection turned out to be
    /// closed. A checkout that has to wait may still get a reused connection.
    New,
}
