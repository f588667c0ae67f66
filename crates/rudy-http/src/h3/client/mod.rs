//! The client side of an HTTP/3 connection.

mod event;
mod receive;
mod send;
#[cfg(test)]
mod tests;

use std::time::Instant;

use bytes::BytesMut;

pub use self::event::Event;
pub use crate::field_section::HeadBuffers;
pub use crate::sent_request::Request;

use super::core::{Core, Side};
use super::frame::put_go_away;
use super::settings::{OwnSettings, PeerSettings};
use super::{Own, StreamEnd};
use crate::Limits;

/// The state machine for the client side of one connection.
///
/// Requests are streams that the caller opens. It keeps what belongs to a stream, and passes its number with each call. Calls append
/// bytes to the streams of this side ([`Self::output`]), and leave to the caller what happens to other streams ([`Self::take_end`]): look
/// at both after each call. Timeouts are those of the caller.
///
/// ```
/// use http::{HeaderMap, HeaderValue, Method, Version, header};
/// use rudy_http::Limits;
/// use rudy_message::BodyLength;
/// use rudy_message::client::RequestHead;
/// use rudy_http::h3::client::{ClientConnection, Request};
/// use rudy_http::h3::StreamEnd;
///
/// let mut fields = HeaderMap::new();
/// fields.insert(header::HOST, HeaderValue::from_static("a.example"));
/// let head = RequestHead {
///     method: &Method::GET,
///     target: "/",
///     version: Version::HTTP_11,
///     fields: (&fields).into(),
///     body: BodyLength::Known(0),
/// };
/// let mut connection = ClientConnection::new(std::time::Instant::now(), &Limits::for_responses());
/// let mut out = bytes::BytesMut::new();
/// assert!(connection.request(0, &Request::new(&head, "https")?, &mut out));
/// assert_eq!(connection.take_end(), Some((0, StreamEnd::Finish)));
/// # Ok::<(), rudy_message::client::RequestError>(())
/// ```
#[derive(Debug)]
pub struct ClientConnection {
    core: Core,
    /// The first stream that has had no request.
    next_stream: u64,
    /// The settings of the server, when they have arrived.
    peer: Option<PeerSettings>,
    /// The first stream that the server does not process, after its GOAWAY.
    rejected_from: Option<u64>,
    /// Whether this side has announced the end.
    is_shut_down: bool,
}

impl ClientConnection {
    /// Creates the state of a connection, and appends the first bytes of the streams of this side.
    #[must_use]
    pub fn new(now: Instant, limits: &Limits) -> Self {
        let settings = OwnSettings { field_section_bytes: limits.head_bytes as u64, accepts_tunnels: false };
        Self {
            core: Core::new(now, Side::Client, settings),
            next_stream: 0,
            peer: None,
            rejected_from: None,
            is_shut_down: false,
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

    /// Whether the settings of the server have arrived. A request need not wait for them (RFC 9114 §7.2.4.2).
    #[must_use]
    pub fn has_settings(&self) -> bool {
        self.peer.is_some()
    }

    /// Whether the server accepts [requests for tunnels](Request::tunnel) (RFC 9220 §3). Known after its settings.
    #[must_use]
    pub fn accepts_tunnels(&self) -> bool {
        self.peer.is_some_and(|peer| peer.accepts_tunnels)
    }

    /// Returns the number of open streams.
    #[must_use]
    pub fn open_streams(&self) -> usize {
        self.core.streams.len()
    }

    /// Whether no stream of a request is open.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.core.streams.is_empty()
    }

    /// Whether the current DATA frame of a stream is incomplete. A server often sends the data that is available as one frame, so that a
    /// client can measure when that data has arrived.
    #[must_use]
    pub fn is_within_frame(&self, stream: u64) -> bool {
        self.core.streams.get(stream).is_some_and(|stream| !stream.reader.is_between_frames())
    }

    /// Whether no further requests can be sent, because one side has announced the end of the connection. Close the connection when it
    /// [is idle](Self::is_idle).
    #[must_use]
    pub fn is_going_away(&self) -> bool {
        self.rejected_from.is_some() || self.is_shut_down
    }

    /// Announces the end of the connection. Open streams still get their responses.
    pub fn shut_down(&mut self) {
        if !self.is_shut_down {
            self.is_shut_down = true;
            // No push is wanted.
            put_go_away(0, self.output(Own::Control));
        }
    }

    /// Frees memory that an idle connection does not need.
    pub fn free(&mut self) {
        self.core.free();
    }
}
