//! The state of an idle connection, without its state machine.

use std::time::Instant;

use rudy_message::Framing;
use rudy_message::text::HeadLines;

use super::{CurrentRequest, Receiving, Sending, ServerConnection};
use crate::Limits;

/// The state of a connection that waits for a request, or for the next piece of a response of unknown length. It occupies 32
/// bytes, a quarter of a [`ServerConnection`], because a server has thousands of idle connections.
#[derive(Debug, Clone, Copy)]
pub struct SuspendedConnection {
    requests: u64,
    wait_started: Instant,
    request: CurrentRequest,
    waits_for: WaitsFor,
}

#[derive(Debug, Clone, Copy)]
enum WaitsFor {
    Request,
    /// The next chunk; `true` if the last chunk has not ended.
    Chunk(bool),
    /// The next piece of a response that ends with the connection.
    Bytes,
}

impl SuspendedConnection {
    /// Creates the state of a connection that was accepted at `now`.
    #[must_use]
    pub fn new(now: Instant) -> Self {
        let ServerConnection { requests, wait_started, request, .. } = ServerConnection::new(now);
        Self { requests, wait_started, request, waits_for: WaitsFor::Request }
    }

    /// Restores the state machine.
    #[must_use]
    pub fn resume(self) -> ServerConnection {
        let Self { requests, wait_started, request, waits_for } = self;
        let (sending, receiving) = match waits_for {
            WaitsFor::Request => (Sending::Idle, Receiving::Head(HeadLines::default())),
            WaitsFor::Chunk(_) => (Sending::Body(Framing::Chunked), Receiving::Done),
            WaitsFor::Bytes => (Sending::Body(Framing::UntilClose), Receiving::Done),
        };
        let is_chunk_open = matches!(waits_for, WaitsFor::Chunk(true));
        ServerConnection {
            receiving,
            sending,
            is_chunk_open,
            request,
            requests,
            ..ServerConnection::new(wait_started)
        }
    }

    /// Returns the time limit for the first or the next request.
    #[must_use]
    pub fn deadline(&self, limits: &Limits) -> Option<Instant> {
        self.resume().deadline(limits)
    }
}

impl ServerConnection {
    /// Returns the state of the connection if it fits a [`SuspendedConnection`].
    #[must_use]
    pub fn suspend(&self) -> Option<SuspendedConnection> {
        let waits_for = match (&self.sending, &self.receiving) {
            (Sending::Idle, Receiving::Head(lines)) if lines.is_new() => WaitsFor::Request,
            (Sending::Body(Framing::Chunked), Receiving::Done) => WaitsFor::Chunk(self.is_chunk_open),
            (Sending::Body(Framing::UntilClose), Receiving::Done) => WaitsFor::Bytes,
            _ => return None,
        };
        let Self { requests, wait_started, request, .. } = *self;
        let is_all = self.buffer.is_empty() && !self.closing && !self.input_ended;
        is_all.then_some(SuspendedConnection { requests, wait_started, request, waits_for })
    }
}
