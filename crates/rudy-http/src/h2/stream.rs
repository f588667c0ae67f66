//! The state of a stream (RFC 9113 §5.1).

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
    /// The client waits for `100 Continue`.
    pub(super) expects_continue: bool,
}

/// What this side receives on a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Receiving {
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
pub(super) struct Streams(Vec<Stream>);

impl Streams {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn push(&mut self, stream: Stream) {
        self.0.push(stream);
    }

    fn position(&self, id: u32) -> Option<usize> {
        // Mostly, it is the newest.
        self.0.iter().rposition(|stream| stream.id == id)
    }

    pub(super) fn get(&self, id: u32) -> Option<&Stream> {
        self.position(id).map(|at| &self.0[at])
    }

    pub(super) fn get_mut(&mut self, id: u32) -> Option<&mut Stream> {
        self.position(id).map(|at| &mut self.0[at])
    }

    pub(super) fn remove(&mut self, id: u32) -> Option<Stream> {
        self.position(id).map(|at| self.0.remove(at))
    }

    #[cfg(test)]
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
            self.0 = Vec::new();
        }
    }
}
