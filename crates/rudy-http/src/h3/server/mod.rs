//! The server side of an HTTP/3 connection.

mod event;
mod receive;
mod request;
mod respond;
#[cfg(test)]
mod tests;
mod unidirectional;

use std::collections::VecDeque;
use std::time::Instant;

use bytes::{BufMut, BytesMut};

pub use self::event::Event;
pub use self::unidirectional::UNIDIRECTIONAL_STREAMS;

use self::unidirectional::{Unidirectional, stream_kind};
use super::ErrorCode;
use super::frame::put_go_away;
use super::settings::OwnSettings;
use super::stream::Streams;
use crate::Limits;
use crate::allowance::Allowances;
use crate::qpack::Decoder;

/// The largest number of a stream that a client opens for a request.
const STREAM_MAX: u64 = (1 << 62) - 4;

/// The difference of the numbers of streams of the same kind (RFC 9000 §2.1).
const STREAM_STEP: u64 = 4;

/// The state machine for the server side of one connection.
///
/// Calls append bytes to the streams of this side ([`Self::output`]), and leave to the caller what happens to other streams
/// ([`Self::take_end`]): look at both after each call.
#[derive(Debug)]
pub struct ServerConnection {
    streams: Streams,
    /// The first stream of the client for a request that has not been seen.
    next_stream: u64,
    unidirectional: Unidirectional,
    decoder: Decoder,
    allowances: Allowances,
    ends: VecDeque<(u64, StreamEnd)>,
    own: [BytesMut; 3],
    requests: u64,
    shutdown: Shutdown,
    /// Whether the client may request tunnels.
    accepts_tunnels: bool,
    /// When the connection became idle.
    idle_since: Instant,
}

/// A stream that this side opens, each for its whole life (RFC 9114 §6.2.1, RFC 9204 §4.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Own {
    /// The control stream.
    Control,
    /// The encoder stream of QPACK.
    Encoder,
    /// The decoder stream of QPACK.
    Decoder,
}

/// What happens to a stream of the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamEnd {
    /// The response is complete: the stream ends after the bytes that were appended for it.
    Finish,
    /// Bytes that were not sent yet are dropped, and both directions end with the code, as far as they have not ended: `RESET_STREAM`
    /// and `STOP_SENDING`.
    Reset(ErrorCode),
    /// The rest of what the client sends is not wanted: `STOP_SENDING`.
    Stop(ErrorCode),
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
        let mut own = [stream_kind::CONTROL, stream_kind::ENCODER, stream_kind::DECODER].map(|kind| {
            let mut out = BytesMut::new();
            out.put_u8(kind);
            out
        });
        let settings = OwnSettings { field_section_bytes: limits.head_bytes as u64, accepts_tunnels };
        settings.encode(&mut own[Own::Control as usize]);
        Self {
            streams: Streams::default(),
            next_stream: 0,
            unidirectional: Unidirectional::default(),
            decoder: Decoder::default(),
            allowances: Allowances::new(now),
            ends: VecDeque::new(),
            own,
            requests: 0,
            shutdown: Shutdown::Open,
            accepts_tunnels,
            idle_since: now,
        }
    }

    /// Returns the bytes to send on a stream of this side. Take all of them.
    pub fn output(&mut self, own: Own) -> &mut BytesMut {
        &mut self.own[own as usize]
    }

    /// Returns the next stream to which something happens, after the bytes that were appended for it.
    pub fn take_end(&mut self) -> Option<(u64, StreamEnd)> {
        self.ends.pop_front()
    }

    /// Returns the number of requests received so far.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.requests
    }

    /// Whether no stream of a request is open.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.streams.is_empty()
    }

    /// Whether the connection ends, and no response is due: send what is encoded, then close the connection.
    #[must_use]
    pub fn is_over(&self) -> bool {
        matches!(self.shutdown, Shutdown::Final(_)) && self.streams.is_empty()
    }

    /// Returns the deadline for the next bytes of the client: of the head of a request ([`Self::expire`]), or of an idle connection,
    /// whose end is no error. `None` while other streams are open: then the caller measures transfer rates with [`Pace`](crate::Pace).
    #[must_use]
    pub fn deadline(&self, limits: &Limits) -> Option<Instant> {
        let (since, wait) = match self.streams.waiting().map(|stream| stream.since).min() {
            Some(since) => (since, limits.head_timeout),
            None if !self.is_idle() => return None,
            None if self.requests == 0 => (self.idle_since, limits.first_request_timeout),
            None => (self.idle_since, limits.idle_timeout),
        };
        since.checked_add(wait)
    }

    /// Resets the streams whose heads were not complete in time.
    pub fn expire(&mut self, now: Instant, limits: &Limits) {
        let late = self.streams.waiting().filter(|stream| stream.since + limits.head_timeout <= now);
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
        self.streams.free();
        self.unidirectional.free();
        if self.ends.is_empty() {
            self.ends = VecDeque::new();
        }
        for out in self.own.iter_mut().filter(|out| out.is_empty()) {
            *out = BytesMut::new();
        }
    }

    /// Returns the heap memory in bytes, without that of [`Self::output`].
    #[cfg(test)]
    fn heap_bytes(&self) -> usize {
        let ends = self.ends.capacity() * size_of::<(u64, StreamEnd)>();
        self.streams.heap_bytes() + self.unidirectional.heap_bytes() + ends
    }
}
