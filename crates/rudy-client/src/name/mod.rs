//! Host names of upstreams.
//!
//! 1. [`lookup`] resolves the names of an upstream every 30 s or by their TTL, and when no address accepts a connection.
//! 2. [`Alternatives`] has the addresses of the last successful lookup, and the order in which they are
//!    tried.
//! 3. [`race`] connects to the first address that accepts a connection.

mod alternatives;
mod answer;
mod check;
mod lookup;
mod race;
#[cfg(test)]
mod tests;

use std::fmt;
use std::net::SocketAddr;

use rudy_runtime::watch;

use self::alternatives::Alternatives;
pub use self::answer::{list as list_addresses, unresolved_line};
pub use self::check::look_up_all;
pub use self::lookup::background_runtime;
use self::lookup::{LookupState, LookupTiming};
use super::Resolver;

/// A host name and a port, with the results of its lookups.
pub struct Name {
    host: String,
    port: u16,
    alternatives: Alternatives,
    /// The state of its lookups. Only the lookup task starts and ends them.
    state: watch::Sender<LookupState>,
    resolver: Resolver,
    timing: LookupTiming,
}

impl Name {
    /// Creates a name that was not looked up yet.
    #[must_use]
    pub fn new(host: &str, port: u16, resolver: Resolver) -> Self {
        Self::with(host, port, resolver, LookupTiming::default())
    }

    fn with(host: &str, port: u16, resolver: Resolver, timing: LookupTiming) -> Self {
        let (host, state) = (host.to_owned(), watch::Sender::default());
        Self { host, port, alternatives: Alternatives::default(), state, resolver, timing }
    }

    /// Returns the addresses of the last successful lookup.
    pub(super) fn addresses(&self) -> Vec<SocketAddr> {
        self.alternatives.addresses()
    }

    /// Returns whether the last successful lookup has this address.
    pub(super) fn has(&self, address: SocketAddr) -> bool {
        self.alternatives.has(address)
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Hosts of SRV records end in a dot.
        write!(f, "{}:{}", self.host.trim_end_matches('.'), self.port)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Name")
            .field("host", &self.host)
            .field("port", &self.port)
            .field("alternatives", &self.alternatives)
            .field("rounds", &self.state)
            .finish_non_exhaustive()
    }
}
