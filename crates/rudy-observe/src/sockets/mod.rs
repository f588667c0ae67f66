//! The sockets of a process: those it has a descriptor for, and what the kernel keeps of those it has closed.

mod group;
mod look;
mod owner;
mod state;
mod table;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Instant;

pub use self::group::{By, Group};
pub(crate) use self::look::Remotes;
pub use self::owner::Owner;
pub use self::state::State;
use crate::Descriptors;

/// The sockets of a process at one moment.
#[derive(Debug, Clone)]
pub struct Sockets {
    /// When they were looked at.
    pub at: Instant,
    /// All of its descriptors, and how many it may have.
    pub descriptors: Descriptors,
    /// TCP sockets for which it has a descriptor.
    pub held: Vec<Socket>,
    /// TCP connections that belong to no descriptor, here or in another process, and that are most likely of this one: at
    /// a port where it listens (closed by it, or not yet accepted), or to a remote to which it has or had a connection
    /// (closed by it). `lsof`, which goes by descriptors, misses them. What two processes that share a port, or talk
    /// to the same remote, have left is in the account of both: nothing in the kernel says whose it was.
    pub unheld: Vec<Socket>,
    /// UDP sockets for which it has a descriptor.
    pub udp: usize,
    /// Unix sockets for which it has a descriptor.
    pub unix: usize,
    /// Descriptors of sockets that are in none of the tables: never connected or bound (`lsof`: "can't identify
    /// protocol", a way to leak), or of another kind, such as netlink.
    pub other: usize,
}

/// A TCP socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Socket {
    /// How far it is.
    pub state: State,
    /// Its own address.
    pub local: SocketAddr,
    /// The peer's.
    pub remote: SocketAddr,
    /// Bytes that came and were not read by the process.
    pub unread_bytes: u32,
    /// Bytes that the process has written and the peer has not acknowledged.
    pub unsent_bytes: u32,
    /// Where it listens: connections that wait to be accepted.
    pub not_accepted: u32,
}

/// Sockets of one state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// How many.
    pub sockets: usize,
    /// Bytes that came and were not read by the process.
    pub unread_bytes: u64,
    /// Bytes that the process has written and the peers have not acknowledged.
    pub unsent_bytes: u64,
}

impl Sockets {
    /// All sockets for which it has a descriptor.
    #[must_use]
    pub fn total(&self) -> usize {
        self.held.len() + self.udp + self.unix + self.other
    }
}

/// How many sockets there are in each state.
#[must_use]
pub fn by_state(sockets: &[Socket]) -> BTreeMap<State, Tally> {
    let mut tallies: BTreeMap<State, Tally> = BTreeMap::new();
    for socket in sockets {
        let tally = tallies.entry(socket.state).or_default();
        tally.sockets += 1;
        tally.unread_bytes += u64::from(socket.unread_bytes);
        tally.unsent_bytes += u64::from(socket.unsent_bytes);
    }
    tallies
}

#[cfg(test)]
mod tests;
