//! The state of a stream (RFC 9113 §5.1).

use std::collections::VecDeque;
use std::time::Instant;

use super::window::{ReceiveWindow, SendWindow};
use crate::progress::Progress;

/// A stream that is not closed.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) id: u32,
    pub(super) send_window: SendWindow,
    pub(super) receive_window: ReceiveWindow,
    pub(super) progress: Progress,
    /// The response is complete, and the rest of the request is discarded.
    pub(super) draining: Option<Draining>,
}

/// A request whose rest is discarded.
#[derive(Debug, Clone, Copy)]
pub(super) struct Draining {
    pub(super) since: Instant,
    /// The size of the body when the response was complete.
    pub(super) from: u64,
}

/// The open streams of a connection.
#[derive(Debug, Default)]
pub(super) struct Streams {
    /// In the order of their numbers.
    all: VecDeque<Stream>,
    /// The number of those with a request whose rest is discarded.
    draining: usize,
}

impl Streams {
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(super) fn push(&mut self, stream: Stream) {
        self.all.push_back(stream);
    }

    #[inline]
    fn position(&self, id: u32) -> Option<usize> {
        // Mostly, it is the newest.
        let last = self.all.len().checked_sub(1)?;
        if self.all[last].id == id {
            return Some(last);
        }
        self.all.binary_search_by_key(&id, |stream| stream.id).ok()
    }

    /// Removes the newest stream if its number is larger than `last`.
    pub(super) fn pop_after(&mut self, last: u32) -> Option<u32> {
        self.all.pop_back_if(|stream| stream.id > last).map(|stream| stream.id)
    }

    pub(super) fn get(&self, id: u32) -> Option<&Stream> {
        self.position(id).map(|at| &self.all[at])
    }

    pub(super) fn get_mut(&mut self, id: u32) -> Option<&mut Stream> {
        self.position(id).map(|at| &mut self.all[at])
    }

    #[inline]
    pub(super) fn remove(&mut self, id: u32) -> Option<Stream> {
        let removed = self.position(id).and_then(|at| self.all.remove(at))?;
        self.draining -= usize::from(removed.draining.is_some());
        Some(removed)
    }

    #[cfg(test)]
    pub(super) fn iter(&self) -> impl Iterator<Item = &Stream> {
        self.all.iter()
    }

    /// Discards the rest of a request.
    pub(super) fn drain(&mut self, id: u32, now: Instant) {
        if let Some(at) = self.position(id) {
            let stream = &mut self.all[at];
            let draining = Draining { since: now, from: stream.progress.received };
            self.draining += usize::from(stream.draining.replace(draining).is_none());
        }
    }

    /// Returns the streams with a request whose rest is discarded.
    pub(super) fn draining(&self) -> impl Iterator<Item = (u32, Draining)> {
        let all = if self.draining > 0 { Some(self.all.iter()) } else { None };
        all.into_iter().flatten().filter_map(|stream| Some((stream.id, stream.draining?)))
    }

    /// Returns the heap memory in bytes.
    #[cfg(test)]
    pub(super) fn heap_bytes(&self) -> usize {
        self.all.capacity() * size_of::<Stream>()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Stream> {
        self.all.iter_mut()
    }

    /// Frees the memory of an idle connection.
    pub(super) fn free(&mut self) {
        if self.all.is_empty() {
            self.all = VecDeque::new();
        }
    }
}
