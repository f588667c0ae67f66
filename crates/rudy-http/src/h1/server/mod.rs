//! The server side of an HTTP/1.1 connection.

mod body;
mod event;
mod head_end;
#[cfg(test)]
mod properties;
mod receive;
mod receive_buffer;
mod response;
mod suspended;
#[cfg(test)]
mod tests;

use std::time::Instant;

use bytes::Bytes;
use http::Version;
use rudy_message::text::{HeadLines, is_blank};
use rudy_message::{Framing, Rejection};

pub use self::event::{Event, Phase, Timeout};
pub use self::suspended::SuspendedConnection;

use self::body::BodyDecoder;
use self::receive_buffer::ReceiveBuffer;
use crate::Limits;

/// The state machine for the server side of one connection.
///
/// It handles one request at a time and buffers pipelined requests in order. An idle connection has no buffer.
///
/// ```
/// use std::time::{Instant, SystemTime};
/// use rudy_http::Limits;
/// use rudy_http::h1::{Event, ServerConnection};
/// use rudy_message::{DateLine, ResponseHead};
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
/// connection.encode_piece(b"hi", &mut out)?;
/// connection.finish(None, now, &mut out)?;
/// assert!(out.ends_with(b"\r\n\r\nhi"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct ServerConnection {
    /// Received bytes that are not consumed yet.
    buffer: ReceiveBuffer,
    receiving: Receiving,
    sending: Sending,
    /// The size of a chunk is encoded, but not yet the CRLF after its data.
    is_chunk_open: bool,
    request: CurrentRequest,
    /// The current or the next response is the last.
    closing: bool,
    /// The client has closed its sending side.
    input_ended: bool,
    /// The number of requests received so far.
    requests: u64,
    /// When the current wait began: for a request, for the rest of a head, or for the rest of a discarded body.
    wait_started: Instant,
}

/// The properties of the current request that determine its response.
#[derive(Debug, Clone, Copy)]
struct CurrentRequest {
    version: Version,
    is_head: bool,
    keep_alive: bool,
    /// The client waits for `100 Continue`.
    expects_continue: bool,
    /// The service does not read the rest of the body.
    body_is_unwanted: bool,
}

#[derive(Debug)]
enum Receiving {
    Head(HeadLines),
    Body(BodyDecoder),
    /// The body is discarded. The number counts the discarded bytes.
    Drain(BodyDecoder, u64),
    /// The request is complete.
    Done,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sending {
    /// No request is waiting for a response.
    Idle,
    /// A request is waiting for its response, which has not begun.
    ResponseDue,
    Body(Framing),
    /// The connection closes after the encoded bytes.
    Close,
    Upgrade,
}

impl ServerConnection {
    /// Creates the state of a connection that was accepted at `now`.
    #[must_use]
    pub fn new(now: Instant) -> Self {
        Self {
            buffer: ReceiveBuffer::default(),
            receiving: Receiving::Head(HeadLines::default()),
            sending: Sending::Idle,
            is_chunk_open: false,
            request: CurrentRequest {
                version: Version::HTTP_11,
                is_head: false,
                keep_alive: true,
                expects_continue: false,
                body_is_unwanted: false,
            },
            closing: false,
            input_ended: false,
            requests: 0,
            wait_started: now,
        }
    }

    /// Returns how many bytes the caller may read next: the rest of a body and one head, minus the buffered bytes.
    ///
    /// Bytes after a request are buffered until its response is finished. A caller that respects this value buffers at most
    /// [`Limits::head_bytes`] of them, regardless of the number of pipelined requests.
    #[must_use]
    pub fn input_room(&self, limits: &Limits) -> usize {
        if self.input_ended {
            return 0;
        }
        let body_bytes = match &self.receiving {
            Receiving::Body(decoder) | Receiving::Drain(decoder, _) => decoder.remaining(),
            Receiving::Head(_) | Receiving::Done => 0,
        };
        let room = usize::try_from(body_bytes).unwrap_or(usize::MAX).saturating_add(limits.head_bytes);
        room.saturating_sub(self.buffer.len())
    }

    /// Whether [`Self::input_room`] is not 0.
    #[must_use]
    pub fn wants_input(&self, limits: &Limits) -> bool {
        self.input_room(limits) > 0
    }

    /// Whether the current request can upgrade the connection: it is complete and not HTTP/1.0 (RFC 9110 §7.8).
    #[must_use]
    pub fn can_upgrade(&self) -> bool {
        matches!(self.receiving, Receiving::Done) && self.request.version == Version::HTTP_11
    }

    /// Returns the number of requests received so far, including the current one.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.requests
    }

    /// Returns when the current wait began.
    #[must_use]
    pub fn waiting_since(&self) -> Instant {
        self.wait_started
    }

    /// Whether the request is complete and its response is not finished. Input now belongs to later requests and is only
    /// buffered.
    #[must_use]
    pub fn awaits_response_only(&self) -> bool {
        matches!(self.receiving, Receiving::Done)
            && matches!(self.sending, Sending::ResponseDue | Sending::Body(_))
    }

    /// Records that the client has closed its sending side. Call it when [`Self::receive`] finds no more events.
    ///
    /// Returns whether all received requests are complete. They still get their responses, then the connection closes.
    pub fn end_of_input(&mut self) -> bool {
        self.input_ended = true;
        match (&self.receiving, self.sending) {
            (Receiving::Body(_), _) => false,
            (Receiving::Head(_) | Receiving::Drain(..), Sending::Idle) => {
                self.sending = Sending::Close;
                // Remaining bytes are an incomplete head.
                self.buffer.is_empty()
            }
            _ => true,
        }
    }

    /// Returns the phase of the connection.
    #[must_use]
    pub fn phase(&self) -> Phase {
        match (&self.sending, &self.receiving) {
            (Sending::Close, _) => Phase::Close,
            (Sending::Upgrade, _) => Phase::Upgrade,
            (Sending::ResponseDue | Sending::Body(_), _) => Phase::Exchange,
            (Sending::Idle, Receiving::Head(_)) if is_blank(self.buffer.as_slice()) => Phase::Idle,
            (Sending::Idle, Receiving::Head(_)) => Phase::Head,
            (Sending::Idle, _) => Phase::Drain,
        }
    }

    /// Returns the deadline for the next bytes from the client. `None` during an exchange: then the caller measures the
    /// transfer rate with [`Pace`](crate::Pace), because the state machine cannot see which side waits.
    #[must_use]
    pub fn deadline(&self, limits: &Limits) -> Option<Instant> {
        let wait = match self.phase() {
            Phase::Idle if self.requests == 0 => limits.first_request_timeout,
            Phase::Idle => limits.idle_timeout,
            Phase::Head | Phase::Drain => limits.head_timeout,
            Phase::Exchange | Phase::Close | Phase::Upgrade => return None,
        };
        self.wait_started.checked_add(wait)
    }

    /// Returns the action that the deadline requires at `now`.
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

    /// Closes the connection after the current response, or after the response to a request whose head has begun to arrive.
    /// Without either, closes the connection at once.
    pub fn close_after_response(&mut self) {
        self.closing = true;
        self.request.keep_alive = false;
        if matches!(self.phase(), Phase::Idle | Phase::Drain) {
            self.sending = Sending::Close;
        }
    }

    /// Returns the bytes that the client sent after an upgrade request.
    #[must_use]
    pub fn into_unread(self) -> Bytes {
        self.buffer.into_vec().into()
    }
}
