//! Groups of sockets.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use super::find::Listeners;
use super::{Socket, Sockets, State};

/// The key by which sockets are grouped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// The peer's address, without the port for incoming connections, because it varies.
    RemoteAddress,
    /// The local address, without the port for outgoing connections, because it varies.
    LocalAddress,
}

/// A group of sockets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// The address, with the port if it is meaningful.
    pub name: String,
    /// Whether the connections are incoming, or the sockets listen.
    pub is_incoming: bool,
    /// Counts of sockets with a descriptor, by state.
    pub with_descriptor: BTreeMap<State, usize>,
    /// Counts of connections without a descriptor, by state.
    pub without_descriptor: BTreeMap<State, usize>,
}

impl Group {
    /// The total.
    #[must_use]
    pub fn total(&self) -> usize {
        self.with_descriptor.values().chain(self.without_descriptor.values()).sum()
    }
}

impl Sockets {
    /// Groups the TCP sockets, the largest group first. By remote, listening sockets are omitted.
    #[must_use]
    pub fn grouped(&self, by: By) -> Vec<Group> {
        let listeners = Listeners::of(&self.with_descriptor);
        let mut groups: BTreeMap<String, Group> = BTreeMap::new();
        for (sockets, has_descriptor) in [(&self.with_descriptor, true), (&self.without_descriptor, false)] {
            for socket in sockets {
                let is_incoming = socket.state == State::Listen || listeners.accept(socket);
                let Some(name) = name(socket, by, is_incoming) else { continue };
                let group = match groups.entry(name) {
                    Entry::Occupied(group) => group.into_mut(),
                    Entry::Vacant(vacant) => {
                        let name = vacant.key().clone();
                        vacant.insert(Group {
                            name,
                            is_incoming,
                            with_descriptor: BTreeMap::new(),
                            without_descriptor: BTreeMap::new(),
                        })
                    }
                };
                let states =
                    if has_descriptor { &mut group.with_descriptor } else { &mut group.without_descriptor };
                *states.entry(socket.state).or_default() += 1;
            }
        }
        let mut groups: Vec<Group> = groups.into_values().collect();
        // A stable sort, so that equal groups remain ordered by name.
        groups.sort_by_key(|group| std::cmp::Reverse(group.total()));
        groups
    }
}

fn name(socket: &Socket, by: By, is_incoming: bool) -> Option<String> {
    match (by, is_incoming) {
        (By::RemoteAddress, _) if socket.state == State::Listen => None,
        (By::RemoteAddress, true) => Some(socket.remote.ip().to_string()),
        (By::RemoteAddress, false) => Some(socket.remote.to_string()),
        (By::LocalAddress, true) => Some(socket.local.to_string()),
        (By::LocalAddress, false) => Some(socket.local.ip().to_string()),
    }
}
