//! The slots of the connections of one thread, and which of them wait for a request.

use std::collections::VecDeque;
use std::ops::{Index, IndexMut};

use rudy_request::Connection;

use super::exchange::Exchange;

/// The slot of one connection.
#[derive(Debug, Default)]
pub(super) struct Slot {
    pub(super) connection: Option<Connection>,
    /// The number of connections that this slot has had, so that events of earlier ones can be ignored.
    pub(super) generation: u32,
    pub(super) exchange: Exchange,
    /// The number of requests sent on this connection.
    pub(super) sent: u32,
    /// HTTP/2: the number of streams opened on this connection.
    pub(super) opened_streams: u32,
    /// HTTP/2: the number of concurrent streams that the server allows, also on the next connection.
    pub(super) allowed_streams: Option<u32>,
    /// The number of consecutive failed connection attempts.
    pub(super) failed_attempts: u32,
    /// Whether the slot waits for a request.
    is_idle: bool,
}

/// All slots, by index.
#[derive(Debug)]
pub(super) struct Slots {
    all: Vec<Slot>,
    /// The number up to which slots are added.
    max: u32,
    /// Those that wait for a request, the one that has waited longest first.
    idle: VecDeque<u32>,
    /// Those of them that were found to have no connection.
    unconnected: VecDeque<u32>,
}

impl Slots {
    pub(super) fn new(count: u32, max: u32) -> Self {
        let all = (0..count).map(|_| Slot::default()).collect();
        Self { all, max, idle: VecDeque::new(), unconnected: VecDeque::new() }
    }

    /// The number of slots.
    pub(super) fn count(&self) -> u32 {
        u32::try_from(self.all.len()).unwrap_or(u32::MAX)
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Slot> {
        self.all.iter_mut()
    }

    /// Whether every connection is open or has failed.
    pub(super) fn all_connected_or_failed(&self) -> bool {
        self.all.iter().all(|slot| match &slot.connection {
            Some(connection) => connection.is_ready(),
            // An idle slot has been connected, and the server has ended the connection since.
            None => slot.failed_attempts > 0 || slot.is_idle,
        })
    }

    pub(super) fn mark_idle(&mut self, index: u32) {
        let slot = &mut self[index];
        if !slot.is_idle {
            slot.is_idle = true;
            self.idle.push_back(index);
        }
    }

    /// Whether a request need not wait.
    pub(super) fn has_idle(&self) -> bool {
        !self.idle.is_empty() || !self.unconnected.is_empty() || self.count() < self.max
    }

    /// Takes the slot for the next request. One with a connection comes first: a server that accepts no further ones still serves
    /// those that it has. If all are busy, another one is added, as the next user would come: with a fixed number, the rate would be
    /// at most this number divided by the latency, whatever the server can do.
    pub(super) fn take_idle(&mut self) -> Option<u32> {
        let index = self.connected().or_else(|| self.unconnected.pop_front()).or_else(|| self.add())?;
        self[index].is_idle = false;
        Some(index)
    }

    fn connected(&mut self) -> Option<u32> {
        while let Some(index) = self.idle.pop_front() {
            if self[index].connection.is_some() {
                return Some(index);
            }
            self.unconnected.push_back(index);
        }
        None
    }

    fn add(&mut self) -> Option<u32> {
        let index = self.count();
        (index < self.max).then(|| {
            self.all.push(Slot::default());
            index
        })
    }
}

impl Index<u32> for Slots {
    type Output = Slot;

    fn index(&self, index: u32) -> &Slot {
        &self.all[index as usize]
    }
}

impl IndexMut<u32> for Slots {
    fn index_mut(&mut self, index: u32) -> &mut Slot {
        &mut self.all[index as usize]
    }
}
