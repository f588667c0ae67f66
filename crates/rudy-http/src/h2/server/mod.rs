//! The server side of an HTTP/2 connection.

mod event;
mod receive;
mod request;
mod respond;
#[cfg(test)]
mod tests;

use std::time::Instant;

use bytes::BytesMut;

pub use self::event::Event;

use super::core::Core;
use super::frame::{put_go_away, put_ping};
use super::settings::OwnSettings;
use super::{ConnectionError, ErrorCode};
use crate::Limits;

/// The payload of the PING that measures a round trip before the end of the connection.
const SHUTDOWN_PING: [u8; 8] = *b"rudy end";

/// The largest number of a stream.
const STREAM_MAX: u32 = 0x7fff_ffff;

/// The state machine for the server side of one connection.
///
/// An idle connection holds its settings, its counters, and the table of the header compression, which grows with its use.
#[derive(Debug)]
pub struct ServerConnection {
    core: Core,
    /// The number of bytes of the preface that have arrived.
    preface: u8,
    /// The newest stream of the client.
    last_stream: u32,
    requests: u64,
    shutdown: Shutdown,
    /// Whether the client may request tunnels.
    accepts_tunnels: bool,
    /// Whether a frame was completed since the last call of [`Self::take_completed`].
    has_completed: bool,
    /// When the incomplete frame or header block began.
    partial_since: Option<Instant>,
    /// When the connection became idle.
    idle_since: Instant,
}

/// The graceful end of a connection (RFC 9113 §6.8).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shutdown {
    Open,
    /// The client knows that the end is near. Requests in transit are still served, until the acknowledgement of a PING.
    Announced,
    /// Later streams than the last one are ignored: the client repeats them on another connection.
    Final,
}

impl ServerConnection {
    /// Creates the state of a connection, and appends its first frames. `accepts_tunnels` allows extended CONNECT (RFC 8441): such
    /// requests have the method CONNECT, a path, and their protocol in the field Upgrade.
    #[must_use]
    pub fn new(now: Instant, accepts_tunnels: bool, limits: &Limits, out: &mut BytesMut) -> Self {
        let own = OwnSettings {
            concurrent_streams: limits.http2.streams,
            header_list_bytes: u32::try_from(limits.head_bytes).unwrap_or(u32::MAX),
            initial_window: limits.http2.stream_window_bytes,
            accepts_tunnels,
            is_client: false,
        };
        let mut core = Core::new(now);
        core.start(own, &limits.http2, out);
        Self {
            core,
            preface: 0,
            last_stream: 0,
            requests: 0,
            shutdown: Shutdown::Open,
            accepts_tunnels,
            has_completed: false,
            partial_since: None,
            idle_since: now,
        }
    }

    /// Returns the number of requests received so far.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.requests
    }

    /// Whether no stream is open.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.core.streams.is_empty()
    }

    /// Whether the connection ends, and no response is due: send what is encoded, then close the connection.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.shutdown == Shutdown::Final && self.core.streams.is_empty()
    }

    /// Returns the deadline for the next bytes of the client: of a frame or a header block, of a request whose response is complete
    /// ([`Self::expire`]), or of an idle connection. `None` while other streams are open: then the caller measures transfer rates
    /// with [`Pace`](crate::Pace).
    #[must_use]
    pub fn deadline(&self, limits: &Limits) -> Option<Instant> {
        let (since, wait) = match self.partial_since {
            Some(since) => (since, limits.head_timeout),
            None if !self.is_idle() => {
                let draining = self.core.streams.draining();
                return draining.map(|(_, draining)| draining.since + limits.head_timeout).min();
            }
            None if self.requests == 0 => (self.idle_since, limits.first_request_timeout),
            None => (self.idle_since, limits.idle_timeout),
        };
        since.checked_add(wait)
    }

    /// Returns the error for a [deadline](Self::deadline) that has passed. `None` for an idle connection, whose end is no error.
    #[must_use]
    pub fn timeout(&self) -> Option<ConnectionError> {
        let reason = "a frame or a header block was not complete in time";
        self.partial_since.map(|_| ConnectionError::new(ErrorCode::ENHANCE_YOUR_CALM, reason))
    }

    /// Announces that the connection ends, without losing requests in transit. Continue to handle input until
    /// [`Self::is_over`]; call [`Self::stop_accepting`] if the client does not acknowledge it in time.
    pub fn shut_down(&mut self, out: &mut BytesMut) {
        if self.shutdown == Shutdown::Open {
            self.shutdown = Shutdown::Announced;
            put_go_away(STREAM_MAX, ErrorCode::NO_ERROR, "", out);
            put_ping(0, SHUTDOWN_PING, out);
        }
    }

    /// Whether the connection accepts no further streams, or will soon.
    #[must_use]
    pub fn is_shutting_down(&self) -> bool {
        self.shutdown != Shutdown::Open
    }

    /// Accepts no further streams. Open ones get their responses.
    pub fn stop_accepting(&mut self, out: &mut BytesMut) {
        if self.shutdown != Shutdown::Final {
            self.shutdown = Shutdown::Final;
            put_go_away(self.last_stream, ErrorCode::NO_ERROR, "", out);
        }
    }

    /// Appends GOAWAY for an error, after which the connection must be closed.
    pub fn fail(&mut self, error: ConnectionError, out: &mut BytesMut) {
        put_go_away(self.last_stream, error.code, error.reason, out);
    }

    /// Returns how many bytes of request bodies are stored: received, and not [passed on](Self::pass_on).
    #[must_use]
    pub fn stored_bytes(&self) -> u64 {
        self.core.stored_bytes()
    }

    /// Whether a frame was completed since the last call.
    pub fn take_completed(&mut self) -> bool {
        std::mem::take(&mut self.has_completed)
    }

    /// Counts a read of the caller that completed no frame, and had only a few bytes. Each wakes the connection, whose work depends
    /// on its streams.
    ///
    /// # Errors
    ///
    /// There were too many ([`Limits::control_frames`](crate::h2::Limits::control_frames)).
    pub fn count_partial_read(&mut self, limits: &Limits, now: Instant) -> Result<(), ConnectionError> {
        Ok(self.core.allowances.count_partial_read(&limits.http2, now)?)
    }

    /// Counts a read of a number of bytes that completed a frame, or had many bytes. It permits some that do not.
    pub fn count_whole_read(&mut self, bytes: usize) {
        self.core.allowances.count_whole_read(bytes);
    }

    /// Sets whether the receive windows may grow.
    pub fn set_may_grow(&mut self, may_grow: bool) {
        self.core.set_may_grow(may_grow);
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
