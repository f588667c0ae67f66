//! What a run has shown, for people and for programs. Both are made of a [`Run`], so that neither says what the other does not
//! know.

mod config;
mod table;
pub(super) mod text;
pub(super) mod units;
mod verdict;

pub(super) use self::config::Config;
use super::run::Outcome;

use rudy_stats::Nines;

/// A run that is over.
#[derive(Debug, Clone)]
pub(super) struct Run {
    /// What was done.
    pub(super) config: Config,
    /// What came of it.
    pub(super) outcome: Outcome,
}

impl Run {
    /// Of all requests that have ended, those whose answer was right.
    pub(super) fn nines(&self) -> Nines {
        Nines::new(self.outcome.seen.right, self.outcome.seen.requests())
    }
}
