//! Sockets put together by what they have in common.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use super::look::Listeners;
use super::{Socket, Sockets, State};

/// What sockets are put together by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// The peer: of a connection that came in its address alone, because its port is another one each time.
    Remote,
    /// This side: of a connection that went out its address alone, for the same reason.
    Local,
}

/// Sockets with something in common.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// The address, with its port where that has a meaning.
    pub name: String,
    /// How many with a descriptor, by state.
    pub held: BTreeMap<State, usize>,
    /// How many without, by state.
    pub unheld: BTreeMap<State, usize>,
}

impl Group {
    /// All of them.
    #[must_use]
    pub fn total(&self) -> usize {
        self.held.values().chain(self.unheld.values()).sum()
    }
}

impl Sockets {
    /// The TCP sockets put together, the largest group first. By remote, those that listen are left out: they have none.
    #[must_use]
    pub fn grouped(&self, by: By) -> Vec<Group> {
        let listeners = Listeners::of(&self.held);
        let mut groups: BTreeMap<String, Group> = BTreeMap::new();
        for (sockets, is_held) in [(&self.held, true), (&self.unheld, false)] {
            for socket in sockets {
                let Some(name) = name(socket, by, &listeners) else { continue };
                let group = match groups.entry(name) {
                    Entry::Occupied(group) => group.into_mut(),
                    Entry::Vacant(place) => {
                        let name = place.key().clone();
                        place.insert(Group { name, held: BTreeMap::new(), unheld: BTreeMap::new() })
                    }
                };
                let states = if is_held { &mut group.held } else { &mut group.unheld };
                *states.entry(socket.state).or_default() += 1;
            }
        }
        let mut groups: Vec<Group> = groups.into_values().collect();
        // Stable, so that equal ones stay in the order of their names.
        groups.sort_by_key(|group| std::cmp::Reverse(group.total()));
        groups
    }
}

fn name(socket: &Socket, by: By, listeners: &Listeners) -> Option<String> {
    let came_in = socket.state == State::Listen || listeners.accept(socket);
    match (by, came_in) {
        (By::Remote, _) if socket.state == State::Listen => None,
        (By::Remote, true) => Some(socket.remote.ip().to_string()),
        (By::Remote, false) => Some(socket.remote.to_string()),
        (By::Local, true) => Some(socket.local.to_string()),
        (By::Local, false) => Some(socket.local.ip().to_string()),
    }
}
