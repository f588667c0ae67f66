//! The order in which responses are sent (RFC 9218 §10).

use rudy_http::h2::Priority;

use super::multiplex::StreamId;

/// The bodies that may be sent now, the next ones first: the most urgent; among them, responses that are not incremental one after the
/// other, and incremental ones in turn with the first of those.
#[derive(Debug, Default)]
pub(super) struct SendQueue(Vec<Entry>);

/// A body with its place in the order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Entry {
    urgency: u8,
    is_incremental: bool,
    /// Of an incremental body: the turn in which it was served last. Otherwise, its stream.
    order: u64,
    stream: StreamId,
}

impl Entry {
    /// `served` is the turn in which the body was served last.
    pub(super) fn new(stream: StreamId, priority: Priority, served: u64) -> Self {
        let is_incremental = priority.incremental;
        let order = if is_incremental { served } else { stream };
        Self { urgency: priority.urgency, is_incremental, order, stream }
    }
}

impl SendQueue {
    pub(super) fn streams(&self) -> impl Iterator<Item = StreamId> {
        self.0.iter().map(|entry| entry.stream)
    }

    /// Adds a body that is not in the queue.
    pub(super) fn insert(&mut self, entry: Entry) {
        let at = self.0.partition_point(|other| *other < entry);
        self.0.insert(at, entry);
    }

    /// Removes a body, unless it is not in the queue.
    pub(super) fn remove(&mut self, entry: Entry) {
        if let Ok(at) = self.0.binary_search(&entry) {
            self.0.remove(at);
        }
    }

    /// Returns the stream of the body that is sent next. `served` returns the turn in which a body was served last.
    pub(super) fn next(&self, served: impl Fn(StreamId) -> u64) -> Option<StreamId> {
        let first = self.0.first()?;
        let end = (first.urgency, true, 0);
        let incremental = self.0.partition_point(|entry| (entry.urgency, entry.is_incremental, 0) < end);
        let incremental = self.0.get(incremental).filter(|entry| entry.urgency == first.urgency);
        let has_turn = |other: &&Entry| first.is_incremental || other.order < served(first.stream);
        Some(incremental.filter(has_turn).unwrap_or(first).stream)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    /// Serves the bodies a few times. Each has a stream, an urgency, and whether it is incremental.
    fn served(bodies: &[(StreamId, u8, bool)], times: usize) -> Vec<StreamId> {
        let (mut queue, mut turns) = (SendQueue::default(), HashMap::<StreamId, u64>::new());
        let entry = |stream: StreamId, turns: &HashMap<StreamId, u64>| {
            let (_, urgency, incremental) = bodies.iter().find(|body| body.0 == stream).unwrap();
            let priority = Priority { urgency: *urgency, incremental: *incremental };
            Entry::new(stream, priority, turns.get(&stream).copied().unwrap_or(0))
        };
        for (stream, ..) in bodies {
            queue.insert(entry(*stream, &turns));
        }
        let serve = |turn| {
            let stream = queue.next(|stream| turns.get(&stream).copied().unwrap_or(0)).unwrap();
            queue.remove(entry(stream, &turns));
            turns.insert(stream, turn);
            queue.insert(entry(stream, &turns));
            stream
        };
        (1..=times as u64).map(serve).collect()
    }

    #[test]
    fn urgent_bodies_are_first_and_incremental_ones_take_turns() {
        let cases: [(&[_], &[StreamId]); 5] = [
            (&[(1, 3, false), (3, 3, false)], &[1, 1, 1]),
            (&[(1, 3, false), (3, 2, false), (5, 2, true)], &[3, 5, 3, 5]),
            (&[(1, 3, true), (3, 3, true), (5, 3, true)], &[1, 3, 5, 1, 3]),
            (&[(1, 3, true), (3, 3, false), (5, 3, false), (7, 3, true)], &[3, 1, 7, 3, 1, 7]),
            (&[(1, 7, true), (3, 0, false)], &[3, 3]),
        ];
        for (bodies, expected) in cases {
            assert_eq!(served(bodies, expected.len()), expected, "{bodies:?}");
        }
    }
}
