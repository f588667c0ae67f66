//! The state of a stream (RFC 9113 §5.1).

use std::collections::VecDeque;
use std::time::Instant;

use super::window::{ReceiveWindow, SendWindow};

/// A stream that is not closed.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) id: u32,
    pub(super) send_window: SendWindow,
    pub(super) receive_window: ReceiveWindow,
    pub(super) receiving: Receiving,
    pub(super) sending: Sending,
    /// What is left of the length that the received head states.
    pub(super) expected: Option<u64>,
    /// The size of the received body so far.
    pub(super) received: u64,
    /// The request has the method HEAD.
    pub(super) is_head: bool,
    /// The stream is a tunnel, whose length has no limit.
    pub(super) is_tunnel: bool,
    /// The client waits for `100 Continue`.
    pub(super) expects_continue: bool,
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

/// What this side receives on a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Receiving {
    /// The head of a response is due.
    Head,
    Body,
    Ended,
}

/// What this side sends on a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sending {
    /// The head is due.
    Head,
    /// The body, with what is left of its stated length.
    Body(Option<u64>),
    Ended,
}

/// The open streams of a connection, in the order of their numbers.
#[derive(Debug, Default)]
pub(super) struct Streams(VecDeque<Stream>);

impl Streams {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn push(&mut self, stream: Stream) {
        self.0.push_back(stream);
    }

    fn position(&self, id: u32) -> Option<usize> {
        // Mostly, it is the newest.
        let last = self.0.len().checked_sub(1)?;
        if self.0[last].id == id {
            return Some(last);
        }
        self.0.binary_search_by_key(&id, |stream| stream.id).ok()
    }

    /// Removes the newest stream if its number is larger than `last`.
    pub(super) fn pop_after(&mut self, last: u32) -> Option<u32> {
        self.0.pop_back_if(|stream| stream.id > last).map(|stream| stream.id)
    }

    pub(super) fn get(&self, id: u32) -> Option<&Stream> {
        self.position(id).map(|at| &self.0[at])
    }

    pub(super) fn get_mut(&mut self, id: u32) -> Option<&mut Stream> {
        self.position(id).map(|at| &mut self.0[at])
    }

    pub(super) fn remove(&mut self, id: u32) -> Option<Stream> {
        self.position(id).and_then(|at| self.0.remove(at))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Stream> {
        self.0.iter()
    }

    /// Returns the heap memory in bytes.
    #[cfg(test)]
    pub(super) fn heap_bytes(&self) -> usize {
        self.0.capacity() * size_of::<Stream>()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Stream> {
        self.0.iter_mut()
    }

    /// Frees the memory of an idle connection.
    pub(super) fn free(&mut self) {
        if self.0.is_empty() {
            self.0 = VecDeque::new();
        }
    }
}
