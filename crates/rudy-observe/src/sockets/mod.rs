//! The sockets of a process: those with a descriptor, and those that the kernel still holds after a close.

mod find;
mod group;
mod owner;
mod state;
mod table;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Instant;

pub(crate) use self::find::Remotes;
pub use self::group::{By, Group};
pub use self::owner::Owner;
pub(crate) use self::owner::{has_any, listening_inodes};
pub use self::state::State;
use crate::Descriptors;

/// A sample of the sockets of a process.
#[derive(Debug, Clone)]
pub struct Sockets {
    /// When it was taken.
    pub at: Instant,
    /// The number of its descriptors, and their limit.
    pub descriptors: Descriptors,
    /// TCP sockets with a descriptor.
    pub with_descriptor: Vec<Socket>,
    /// TCP connections without a descriptor in any process that probably belong to this one: at a port where
    /// it listens (closed, or not yet accepted), or to a remote address to which it has or had a connection
    /// (closed). `lsof` misses them, because it lists descriptors. Processes that share a port or a remote
    /// address share these connections, because the kernel does not record their owner.
    pub without_descriptor: Vec<Socket>,
    /// UDP sockets with a descriptor.
    pub udp: usize,
    /// Unix sockets with a descriptor.
    pub unix: usize,
    /// Descriptors of sockets that are in none of the tables, by protocol: closed by the kernel after both
    /// sides have closed or one has reset, never connected or bound (`lsof`: "can't identify protocol"), of
    /// another kind, such as netlink, or of another network namespace. A leak if they grow.
    pub in_no_table: BTreeMap<String, usize>,
}

/// A TCP socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Socket {
    /// Its state.
    pub state: State,
    /// The local address.
    pub local: SocketAddr,
    /// The peer's address.
    pub remote: SocketAddr,
    /// Received bytes that the process has not read.
    pub unread_bytes: u32,
    /// Sent bytes that the peer has not acknowledged.
    pub unsent_bytes: u32,
    /// For a listening socket: connections that wait to be accepted.
    pub not_accepted: u32,
}

/// The sockets of one state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// Their number.
    pub sockets: usize,
    /// Received bytes that the process has not read.
    pub unread_bytes: u64,
    /// Sent bytes that the peers have not acknowledged.
    pub unsent_bytes: u64,
}

impl Sockets {
    /// The number of sockets that are in none of the tables.
    #[must_use]
    pub fn in_no_table(&self) -> usize {
        self.in_no_table.values().sum()
    }

    /// All sockets with a descriptor.
    #[must_use]
    pub fn total(&self) -> usize {
        self.with_descriptor.len() + self.udp + self.unix + self.in_no_table()
    }
}

/// The sockets by state.
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
