//! A name of an upstream: which addresses it has, and which of them a new connection tries first.
//!
//! 1. [`lookup`]: a task of each upstream looks its names up, every 30 s and when no address takes a connection.
//! 2. [`Alternatives`]: the addresses of the last good answer, and the order in which they are tried.
//! 3. [`race`]: a connection to the first of them that accepts one.

mod alternatives;
mod answer;
mod check;
mod lookup;
mod race;
#[cfg(test)]
mod tests;

use std::fmt;
use std::net::SocketAddr;

use tokio::sync::watch;

use self::alternatives::Alternatives;
pub(crate) use self::check::unresolved;
pub(super) use self::lookup::runtime;
use self::lookup::{LookUp, Pace, Round};

/// A name and a port, with what is known of it.
pub(crate) struct Name {
    host: String,
    port: u16,
    alternatives: Alternatives,
    /// Its lookups. Only the task that looks it up begins and ends them.
    rounds: watch::Sender<Round>,
    look_up: LookUp,
    pace: Pace,
}

impl Name {
    /// A name that the system looks up; nothing is known of it yet.
    pub(super) fn new(host: &str, port: u16) -> Self {
        Self::with(host, port, Box::new(lookup::ask_system), Pace::default())
    }

    fn with(host: &str, port: u16, look_up: LookUp, pace: Pace) -> Self {
        let (host, rounds) = (host.to_owned(), watch::Sender::default());
        Self { host, port, alternatives: Alternatives::default(), rounds, look_up, pace }
    }

    /// Whether the last good answer has this address.
    pub(super) fn has(&self, address: SocketAddr) -> bool {
        self.alternatives.has(address)
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Name")
            .field("host", &self.host)
            .field("port", &self.port)
            .field("alternatives", &self.alternatives)
            .field("rounds", &self.rounds)
            .finish_non_exhaustive()
    }
}
