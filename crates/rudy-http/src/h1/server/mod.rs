//! The server's side of one HTTP/1.1 connection, from its first byte to its last.

mod body;
mod date;
mod event;
mod field_scan;
mod head_lines;
mod pending;
mod prepared;
#[cfg(test)]
mod properties;
mod receive;
mod rejection;
mod request_head;
mod request_line;
mod response;
mod response_head;
mod suspended;
#[cfg(test)]
mod tests;

use std::time::Instant;

use bytes::Bytes;
use http::Version;

pub use self::date::DateLine;
pub use self::event::{Event, LengthError, Phase, Timeout};
pub use self::prepared::PreparedHead;
pub use self::rejection::Rejection;
pub use self::request_head::{FieldValue, RequestHead};
pub use self::response_head::ResponseHead;
pub use self::suspended::SuspendedConnection;

use self::body::BodyDecoder;
use self::head_lines::HeadLines;
use self::pending::Pending;
use super::Framing;
use crate::Limits;

/// The server's side of one connection.
///
/// One request is under way at a time; what a client pipelines behind it waits in the order in which it came. An idle
/// connection holds no buffer.
///
/// ```
/// use std::time::{Instant, SystemTime};
/// use rudy_http::Limits;
/// use rudy_http::h1::{ResponseHead, DateLine, Event, ServerConnection};
/// # #[allow(clippy::disallowed_methods)] let now = Instant::now();
/// # let date = DateLine::new(SystemTime::UNIX_EPOCH);
///
/// let limits = Limits::default();
/// let mut connection = ServerConnection::new(now);
/// let event = connection.receive(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", now, &limits)?;
/// assert!(matches!(event, Some(Event::Request(head)) if head.path() == b"/"));
///
/// let mut out = bytes::BytesMut::new();
/// let head = ResponseHead::Fields(http::StatusCode::OK, &http::HeaderMap::new());
/// connection.begin(head, Some(2), &limits, &date, &mut out);
/// connection.piece(b"hi", &mut out)?;
/// connection.finish(None, now, &mut out)?;
/// assert!(out.ends_with(b"\r\n\r\nhi"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct ServerConnection {
    /// Received, and not yet consumed. Empty while nothing is left over.
    pending: Pending,
    receiving: Receiving,
    sending: Sending,
    /// A chunk's size has been encoded, and what goes behind its data has not.
    is_chunk_open: bool,
    request: RequestFacts,
    /// The answer under way, or the next one, is the last.
    closing: bool,
    /// The peer will send nothing more.
    input_ended: bool,
    /// Requests handed out so far.
    requests: u64,
    /// When the present wait began: for the next request, for the rest of a head, for the rest of an unwanted body.
    since: Instant,
}

/// What the request under way says about its answer.
#[derive(Debug, Clone, Copy)]
struct RequestFacts {
    version: Version,
    is_head: bool,
    keep_alive: bool,
    /// `100 Continue` is awaited and has not been sent.
    expects_continue: bool,
    /// The service will not read (the rest of) the body.
    body_is_unwanted: bool,
}

#[derive(Debug)]
enum Receiving {
    Head(HeadLines),
    Body(BodyDecoder),
    /// Nobody wants the body; bytes thrown away so far.
    Drain(BodyDecoder, u64),
    /// The whole request is there.
    Done,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sending {
    /// No request is waiting for an answer.
    Nothing,
    /// A request is, and has none of it yet.
    Due,
    Body(Framing),
    /// The connection ends once what is encoded has been sent.
    Close,
    Upgrade,
}

impl ServerConnection {
    /// A connection that was accepted just now.
    #[must_use]
    pub fn new(now: Instant) -> Self {
        Self {
            pending: Pending::default(),
            receiving: Receiving::Head(HeadLines::default()),
            sending: Sending::Nothing,
            is_chunk_open: false,
            request: RequestFacts {
                version: Version::HTTP_11,
                is_head: false,
                keep_alive: true,
                expects_continue: false,
                body_is_unwanted: false,
            },
            closing: false,
            input_ended: false,
            requests: 0,
            since: now,
        }
    }

    /// How many bytes the driver may read next, in every phase: what is known to be of a body, and as much behind it as a head
    /// may have, less what is kept already. What is received behind a request is kept until its answer is finished, so a driver
    /// that keeps to this holds [`Limits::head_bytes`] of it at most, however far ahead a client sends.
    #[must_use]
    pub fn input_room(&self, limits: &Limits) -> usize {
        if self.input_ended {
            return 0;
        }
        let of_body = match &self.receiving {
            Receiving::Body(decoder) | Receiving::Drain(decoder, _) => decoder.remaining(),
            Receiving::Head(_) | Receiving::Done => 0,
        };
        let room = usize::try_from(of_body).unwrap_or(usize::MAX).saturating_add(limits.head_bytes);
        room.saturating_sub(self.pending.len())
    }

    /// Whether any are.
    #[must_use]
    pub fn wants_input(&self, limits: &Limits) -> bool {
        self.input_room(limits) > 0
    }

    /// Whether the request under way can make the connection change its protocol: not from HTTP/1.0, and not before all of
    /// it is there (RFC 9110 §7.8).
    #[must_use]
    pub fn can_upgrade(&self) -> bool {
        matches!(self.receiving, Receiving::Done) && self.request.version == Version::HTTP_11
    }

    /// Requests received so far, the one under way included.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.requests
    }

    /// Since when it has waited for what it is waiting for.
    #[must_use]
    pub fn waiting_since(&self) -> Instant {
        self.since
    }

    /// Whether the whole request is there and its answer is not finished: what comes now belongs to later requests, and is
    /// only kept.
    #[must_use]
    pub fn awaits_response_only(&self) -> bool {
        matches!(self.receiving, Receiving::Done) && matches!(self.sending, Sending::Due | Sending::Body(_))
    }

    /// The peer will send nothing more; call it when [`Self::receive`] finds no event in what is there. True if that is in
    /// order: between requests, or with a whole request waiting for its answer. That request and those whole ones behind it
    /// are answered, then the connection is closed.
    pub fn end_of_input(&mut self) -> bool {
        self.input_ended = true;
        match (&self.receiving, self.sending) {
            (Receiving::Body(_), _) => false,
            (Receiving::Head(_) | Receiving::Drain(..), Sending::Nothing) => {
                self.sending = Sending::Close;
                // What is left over is a part of a head, or nothing.
                self.pending.is_empty()
            }
            _ => true,
        }
    }

    /// What the connection is at.
    #[must_use]
    pub fn phase(&self) -> Phase {
        match (&self.sending, &self.receiving) {
            (Sending::Close, _) => Phase::Close,
            (Sending::Upgrade, _) => Phase::Upgrade,
            (Sending::Due | Sending::Body(_), _) => Phase::Exchange,
            (Sending::Nothing, Receiving::Head(_)) if self.pending.is_empty() => Phase::Idle,
            (Sending::Nothing, Receiving::Head(_)) => Phase::Head,
            (Sending::Nothing, _) => Phase::Drain,
        }
    }

    /// Until when to wait for the peer's next bytes. `None` during an exchange, whose pace the caller measures with
    /// [`super::Pace`], because only the caller knows who is waiting for whom.
    #[must_use]
    pub fn deadline(&self, limits: &Limits) -> Option<Instant> {
        let wait = match self.phase() {
            Phase::Idle if self.requests == 0 => limits.first_request_timeout,
            Phase::Idle => limits.idle_timeout,
            Phase::Head | Phase::Drain => limits.head_timeout,
            Phase::Exchange | Phase::Close | Phase::Upgrade => return None,
        };
        self.since.checked_add(wait)
    }

    /// What to do about the deadline, at this time.
    #[must_use]
    pub fn timeout(&self, now: Instant, limits: &Limits) -> Timeout {
        if self.deadline(limits).is_none_or(|deadline| now < deadline) {
            return Timeout::NotYet;
        }
        match self.phase() {
            Phase::Head => Timeout::Reject(Rejection::HeadTooSlow),
            _ => Timeout::Close,
        }
    }

    /// The connection ends after the answer under way or, if a part of a head has come, after the answer to that; at once
    /// if there is neither.
    pub fn close_after_response(&mut self) {
        self.closing = true;
        self.request.keep_alive = false;
        if matches!(self.phase(), Phase::Idle | Phase::Drain) {
            self.sending = Sending::Close;
        }
    }

    /// What the peer had sent beyond the request that made it switch protocols.
    #[must_use]
    pub fn into_unread(self) -> Bytes {
        self.pending.into_vec().into()
    }
}
