//! The server side of an HTTP/3 connection.

mod event;
mod receive;
mod request;
mod respond;
#[cfg(test)]
mod tests;

use std::time::Instant;

use bytes::BytesMut;

pub use self::event::Event;

use super::core::{Core, Side};
use super::frame::put_go_away;
use super::settings::OwnSettings;
use super::{ErrorCode, Own, StreamEnd};
use crate::Limits;

/// The largest number of a stream that a client opens for a request.
const STREAM_MAX: u64 = (1 << 62) - 4;

/// The state machine for the server side of one connection.
///
/// Calls append bytes to the streams of this side ([`Self::output`]), and leave to the caller what happens to other streams
/// ([`Self::take_end`]): look at both after each call.
#[derive(Debug)]
pub struct ServerConnection {
    core: Core,
    /// The first stream of the client for a request that has not been seen.
    next_stream: u64,
    requests: u64,
    shutdown: Shutdown,
    /// Whether the client may request tunnels.
    accepts_tunnels: bool,
    /// When the connection became idle.
    idle_since: Instant,
}

/// The graceful end of a connection (RFC 9114 §5.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shutdown {
    Open,
    /// The client knows that the end is near. Requests in transit are still served.
    Announced,
    /// Streams from this one on are rejected: the client repeats their requests on another connection.
    Final(u64),
}

impl ServerConnection {
    /// Creates the state of a connection, and appends the first bytes of the streams of this side. `accepts_tunnels` allows extended
    /// CONNECT (RFC 9220): such requests have the method CONNECT, a path, and their protocol in the field Upgrade.
    #[must_use]
    pub fn new(now: Instant, accepts_tunnels: bool, limits: &Limits) -> Self {
        let settings = OwnSettings { field_section_bytes: limits.head_bytes as u64, accepts_tunnels };
        Self {
            core: Core::new(now, Side::Server, settings),
            next_stream: 0,
            requests: 0,
            shutdown: Shutdown::Open,
            accepts_tunnels,
            idle_since: now,
        }
    }

    /// Returns the bytes to send on a stream of this side. Take all of them.
    pub fn output(&mut self, own: Own) -> &mut BytesMut {
        self.core.output(own)
    }

    /// Returns the next stream to which something happens, after the bytes that were appended for it.
    pub fn take_end(&mut self) -> Option<(u64, StreamEnd)> {
        self.core.ends.pop_front()
    }

    /// Returns the number of requests received so far.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.requests
    }

    /// Whether no stream of a request is open.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.core.streams.is_empty()
    }

    /// Whether the connection ends, and no response is due: send what is encoded, then close the connection.
    #[must_use]
    pub fn is_over(&self) -> bool {
        matches!(self.shutdown, Shutdown::Final(_)) && self.core.streams.is_empty()
    }

    /// Returns the deadline for the next bytes of the client: of the head of a request ([`Self::expire`]), or of an idle connection,
    /// whose end is no error. `None` while other streams are open: then the caller measures transfer rates with [`Pace`](crate::Pace).
    #[must_use]
    pub fn deadline(&self, limits: &Limits) -> Option<Instant> {
        let (since, wait) = match self.core.streams.waiting().filter_map(|stream| stream.since).min() {
            Some(since) => (since, limits.head_timeout),
            None if !self.is_idle() => return None,
            None if self.requests == 0 => (self.idle_since, limits.first_request_timeout),
            None => (self.idle_since, limits.idle_timeout),
        };
        since.checked_add(wait)
    }

    /// Resets the streams whose heads were not complete in time.
    pub fn expire(&mut self, now: Instant, limits: &Limits) {
        let is_late = |since: Instant| since + limits.head_timeout <= now;
        let late = self.core.streams.waiting().filter(|stream| stream.since.is_some_and(is_late));
        for id in late.map(|stream| stream.id).collect::<Vec<_>>() {
            self.reset(id, ErrorCode::REQUEST_REJECTED, now);
        }
    }

    /// Announces that the connection ends, without losing requests in transit. Continue to handle input, and call
    /// [`Self::stop_accepting`] when those requests must have arrived.
    pub fn shut_down(&mut self) {
        if self.shutdown == Shutdown::Open {
            self.shutdown = Shutdown::Announced;
            put_go_away(STREAM_MAX, self.output(Own::Control));
        }
    }

    /// Whether the connection accepts no further streams, or will soon.
    #[must_use]
    pub fn is_shutting_down(&self) -> bool {
        self.shutdown != Shutdown::Open
    }

    /// Accepts no further streams. Open ones get their responses.
    pub fn stop_accepting(&mut self) {
        if !matches!(self.shutdown, Shutdown::Final(_)) {
            self.shutdown = Shutdown::Final(self.next_stream);
            put_go_away(self.next_stream, self.output(Own::Control));
        }
    }

    /// Notes when the connection became idle.
    fn note_idle(&mut self, now: Instant) {
        if self.is_idle() {
            self.idle_since = now;
        }
    }

    /// Frees memory that an idle connection does not need.
    pub fn free(&mut self) {
        self.core.free();
    }
}
