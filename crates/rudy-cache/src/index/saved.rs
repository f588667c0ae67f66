//! The objects of an index as bytes, so that the next process knows which ones are used often.

use super::buckets::NONE;
use super::queue::{Queue, State};
use super::{Index, MOVES_MAX, ObjectId};

/// The length of an object in the output of [`Index::save`]: its id, and its size and uses.
pub const SAVED_BYTES: usize = 20;

/// Where [`Index::save`] continues.
#[derive(Debug, Clone, Copy)]
pub struct Position(u32);

impl Index {
    /// Appends some objects, the oldest first, with [`SAVED_BYTES`] for each. Begins `from` the result of the last call.
    ///
    /// Returns `None` after the last object. No object may be inserted, evicted or removed between two calls.
    pub fn save(&self, from: Option<Position>, out: &mut Vec<u8>) -> Option<Position> {
        let mut at = match from {
            Some(Position(at)) => at,
            None => self.first_of([Queue::Small, Queue::Main])?,
        };
        for _ in 0..MOVES_MAX {
            let slot = self.queues.get(at);
            out.extend_from_slice(&slot.id.to_bytes());
            out.extend_from_slice(&slot.state.saved().to_le_bytes());
            let is_small = slot.state.queue() == Queue::Small;
            at = match self.queues.newer(at) {
                NONE if is_small => self.first_of([Queue::Main])?,
                NONE => return None,
                newer => newer,
            };
        }
        Some(Position(at))
    }

    /// Returns the oldest object of the first queue that has one.
    fn first_of<const N: usize>(&self, queues: [Queue; N]) -> Option<u32> {
        queues.map(|queue| self.queues.oldest(queue)).into_iter().find(|at| *at != NONE)
    }

    /// Adds an object that was saved, unless it is in the store already. It is unconfirmed until [`Index::confirm`] or an insertion.
    /// Others may have to leave then: call [`Index::evict`].
    pub fn restore(&mut self, saved: &[u8; SAVED_BYTES]) {
        let (Some(id), Some(state)) = (saved.first_chunk(), saved.last_chunk()) else { return };
        let (id, state) = (ObjectId::from_bytes(*id), State::restored(u32::from_le_bytes(*state)));
        if !self.contains(id) && u64::from(state.blocks()) <= self.space && self.objects > 0 {
            self.queues.add(id, state);
        }
    }

    /// Notes that an object exists. Returns whether it is in the index.
    pub fn confirm(&mut self, id: ObjectId) -> bool {
        let found = self.queues.find(id);
        if let Some(at) = found {
            self.queues.state_mut(at).confirm();
        }
        found.is_some()
    }

    /// Removes unconfirmed objects among some of the index. Begins `from` the result of the last call.
    ///
    /// Returns `None` when there are no more.
    pub fn remove_unconfirmed(&mut self, from: Option<Position>) -> Option<Position> {
        let from = from.map_or(0, |Position(at)| at);
        let end = self.queues.slots().min(from + MOVES_MAX);
        for at in from..end {
            if !self.queues.get(at).state.is_confirmed() {
                self.queues.remove(at);
            }
        }
        self.trim_ghosts();
        (end < self.queues.slots()).then_some(Position(end))
    }
}
