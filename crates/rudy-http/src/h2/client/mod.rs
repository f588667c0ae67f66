//! The client side of an HTTP/2 connection.

#[cfg(test)]
mod corner_tests;
mod event;
#[cfg(test)]
mod limit_tests;
#[cfg(test)]
mod pair_tests;
#[cfg(test)]
mod proxy_tests;
mod receive;
mod send;
#[cfg(test)]
mod tests;

use std::time::Instant;

use bytes::BytesMut;

pub use self::event::Event;
pub use crate::field_section::HeadBuffers;
pub use crate::sent_request::Request;

use super::core::Core;
use super::frame::{PREFACE, put_go_away};
use super::settings::OwnSettings;
use super::{ConnectionError, ErrorCode};
use crate::Limits;
use crate::hpack::Encoder;

/// The largest number of a stream.
const STREAM_MAX: u32 = 0x7fff_ffff;

/// Streams to open at most before the SETTINGS of the server: what RFC 9113 §6.5.2 recommends as a minimum.
const STREAMS_BEFORE_SETTINGS: u32 = 100;

/// The state machine for the client side of one connection.
///
/// Requests are streams with odd numbers. The caller keeps what belongs to a stream, and passes its number with each call. Timeouts
/// are those of the caller.
///
/// ```
/// use http::{HeaderMap, HeaderValue, Method, Version, header};
/// use rudy_http::Limits;
/// use rudy_message::BodyLength;
/// use rudy_message::client::RequestHead;
/// use rudy_http::h2::client::{ClientConnection, Request};
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
/// let (limits, mut out) = (Limits::for_responses(), bytes::BytesMut::new());
/// let mut connection = ClientConnection::new(std::time::Instant::now(), &limits, &mut out);
/// let stream = connection.request(&Request::new(&head, "https")?, &mut out);
/// assert_eq!(stream, Some(1));
/// # Ok::<(), rudy_message::client::RequestError>(())
/// ```
#[derive(Debug)]
pub struct ClientConnection {
    core: Core,
    encoder: Encoder,
    /// The number of the next stream.
    next_stream: u32,
    /// Whether the first SETTINGS of the server have arrived.
    has_settings: bool,
    /// The last stream that the server processes, after its GOAWAY.
    last_stream: Option<u32>,
    /// Whether this side has announced the end.
    is_shut_down: bool,
}

impl ClientConnection {
    /// Creates the state of a connection, and appends its first frames.
    #[must_use]
    pub fn new(now: Instant, limits: &Limits, out: &mut BytesMut) -> Self {
        let own = OwnSettings {
            concurrent_streams: 0,
            header_list_bytes: u32::try_from(limits.head_bytes).unwrap_or(u32::MAX),
            initial_window: limits.http2.stream_window_bytes,
            accepts_tunnels: false,
            is_client: true,
        };
        let mut core = Core::new(now);
        out.extend_from_slice(PREFACE);
        core.start(own, &limits.http2, out);
        Self {
            core,
            encoder: Encoder::default(),
            next_stream: 1,
            has_settings: false,
            last_stream: None,
            is_shut_down: false,
        }
    }

    /// Returns how many requests can be sent now: the concurrent streams that the server allows, without the open ones. Before the
    /// SETTINGS of the server, 100 streams are allowed, of which the server may refuse some.
    #[must_use]
    pub fn available_streams(&self) -> u32 {
        if self.is_going_away() {
            return 0;
        }
        let allowed = self.concurrent_streams().unwrap_or(STREAMS_BEFORE_SETTINGS);
        let open = u32::try_from(self.core.streams.len()).unwrap_or(u32::MAX);
        allowed.saturating_sub(open).min(self.remaining_streams())
    }

    /// Returns the number of concurrent streams that the server allows; `None` before its SETTINGS.
    #[must_use]
    pub fn concurrent_streams(&self) -> Option<u32> {
        self.has_settings.then_some(self.core.peer.concurrent_streams)
    }

    /// Whether the server accepts [requests for tunnels](Request::tunnel) (RFC 8441 §3). Known after its SETTINGS.
    #[must_use]
    pub fn accepts_tunnels(&self) -> bool {
        self.core.peer.extended_connect
    }

    /// Returns the number of open streams.
    #[must_use]
    pub fn open_streams(&self) -> usize {
        self.core.streams.len()
    }

    /// Whether no stream is open.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.core.streams.is_empty()
    }

    /// Whether the current DATA frame is incomplete. A server often sends the data that is available as one frame, so that a client
    /// can measure when that data has arrived.
    #[must_use]
    pub fn is_within_frame(&self) -> bool {
        self.core.reader.is_in_data()
    }

    /// Whether no further requests can be sent, because one side has announced the end of the connection, or all numbers of streams
    /// are used. Close the connection when it [is idle](Self::is_idle).
    #[must_use]
    pub fn is_going_away(&self) -> bool {
        self.last_stream.is_some() || self.is_shut_down || self.remaining_streams() == 0
    }

    /// Announces the end of the connection. Open streams still get their responses.
    pub fn shut_down(&mut self, out: &mut BytesMut) {
        if !self.is_shut_down {
            self.is_shut_down = true;
            // No stream of the server was processed: it cannot open any.
            put_go_away(0, ErrorCode::NO_ERROR, "", out);
        }
    }

    /// Appends GOAWAY for an error, after which the connection must be closed.
    pub fn fail(&mut self, error: ConnectionError, out: &mut BytesMut) {
        self.is_shut_down = true;
        put_go_away(0, error.code, error.reason, out);
    }

    /// Frees memory that an idle connection does not need.
    pub fn free(&mut self) {
        self.core.free();
    }

    fn remaining_streams(&self) -> u32 {
        if self.next_stream > STREAM_MAX { 0 } else { (STREAM_MAX - self.next_stream) / 2 + 1 }
    }
}
