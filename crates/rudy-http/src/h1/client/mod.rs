//! The client side of an HTTP/1.1 connection: decodes responses without copying them.

mod fault;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod round_trip;
mod scan;
#[cfg(test)]
mod tests;

pub use self::fault::Fault;
pub use super::encode::{encode_chunk, encode_last_chunk};

use http::HeaderMap;
use rudy_message::client::{RequestInfo, ResponseHead};
use rudy_message::syntax::Excerpt;
use rudy_message::{FieldLine, Framing};

use self::scan::HeadScan;
use super::chunked::{Chunked, Decoded};
use super::length::split_up_to;
use crate::Limits;

/// The state machine for the client side of one connection.
///
/// It has no buffer, occupies at most 64 bytes and allocates memory only for trailers, so that a load generator can use 10,000
/// connections and decode 100,000 responses a second. The caller keeps the bytes that [`Self::decode`] does not use, and
/// passes them again with more input.
///
/// It decodes one response at a time, from [`Self::expect_response`] to [`ResponseEvent::End`]. A client that pipelines
/// requests then calls `expect_response` for the next one.
///
/// ```
/// use rudy_http::Limits;
/// use rudy_http::h1::client::{ResponseEvent, ClientConnection};
/// use rudy_message::client::RequestInfo;
///
/// let limits = Limits::for_responses();
/// let mut connection = ClientConnection::new();
/// connection.expect_response(RequestInfo::default());
/// let mut input = &b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"[..];
/// let mut body = Vec::new();
/// loop {
///     let (used, event) = connection.decode(input, &limits)?;
///     input = &input[used..];
///     match event {
///         ResponseEvent::Informational(_) => {}
///         ResponseEvent::Head(head) => assert_eq!((head.status(), head.get("content-length")), (200, Some(&b"2"[..]))),
///         ResponseEvent::Data(data) => body.extend_from_slice(data),
///         ResponseEvent::End(_) => break,
///         ResponseEvent::NeedData => unreachable!("the response is complete"),
///     }
/// }
/// assert_eq!(body, b"hi");
/// assert!(connection.can_be_reused());
/// # Ok::<(), rudy_http::h1::client::Fault>(())
/// ```
#[derive(Debug)]
pub struct ClientConnection {
    state: State,
    request: RequestInfo,
    /// Neither side has announced that it will close the connection (RFC 9112 §9.3).
    persists: bool,
    /// The connection switches to another protocol after the response.
    switches: bool,
}

/// A decoded part of a response.
#[derive(Debug)]
pub enum ResponseEvent<'a> {
    /// An interim response: 1xx except 101. The final response follows (RFC 9110 §15.2).
    Informational(ResponseHead<'a>),
    /// The head of the response. Data and the end follow.
    Head(ResponseHead<'a>),
    /// A piece of the body, never empty.
    Data(&'a [u8]),
    /// The response is complete. A chunked one may have trailers.
    End(Option<HeaderMap>),
    /// The next event needs more input.
    NeedData,
}

/// The state of the connection at the end of the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InputEnd {
    /// No response was expected.
    BetweenResponses,
    /// The end of the connection ended the response, which is complete.
    ResponseComplete,
}

#[derive(Debug)]
enum State {
    /// No response is expected.
    Idle,
    Head(HeadScan),
    Length {
        remaining: u64,
        total: u64,
    },
    Chunked(Chunked),
    UntilClose {
        /// The number of bytes left below the limit.
        room: u64,
    },
    /// The response is complete, and the caller has not received [`ResponseEvent::End`].
    Ended,
    /// The connection uses another protocol, after a 101 or a 2xx to CONNECT.
    Switched,
    /// The input has ended, or a fault has made the start of the next response unknown.
    Closed,
}

impl ClientConnection {
    /// Creates the state of a new connection.
    #[must_use]
    pub fn new() -> Self {
        Self { state: State::Idle, request: RequestInfo::default(), persists: true, switches: false }
    }

    /// Expects the response to `request` next. Call it before sending the request, or after the previous
    /// [`ResponseEvent::End`].
    pub fn expect_response(&mut self, request: RequestInfo) {
        debug_assert!(self.is_idle(), "the previous response is complete");
        self.request = request;
        self.state = State::Head(HeadScan::default());
    }

    /// Decodes the next event in `bytes`. Returns the number of used bytes and the event. Pass the unused bytes again, with
    /// more input. Call it until it returns [`ResponseEvent::NeedData`], because [`ResponseEvent::End`] may use no bytes.
    ///
    /// It checks the limits of heads, bodies and chunk extensions; see [`Limits::for_responses`].
    ///
    /// # Errors
    ///
    /// The server violated the protocol or a limit. The connection must be closed; nothing is decoded after a fault.
    pub fn decode<'a>(
        &mut self,
        bytes: &'a [u8],
        limits: &Limits,
    ) -> Result<(usize, ResponseEvent<'a>), Fault> {
        self.decode_with(bytes, limits, |_| {})
    }

    /// As [`Self::decode`], and passes each field of a head to `on_field`, as soon as its line is complete: in this call or in an earlier
    /// one than that which returns the event of the head.
    ///
    /// # Errors
    ///
    /// Those of [`Self::decode`].
    pub fn decode_with<'a>(
        &mut self,
        bytes: &'a [u8],
        limits: &Limits,
        mut on_field: impl FnMut(&FieldLine<'_>),
    ) -> Result<(usize, ResponseEvent<'a>), Fault> {
        let decoded = self.advance(bytes, limits, &mut on_field);
        if decoded.is_err() {
            self.state = State::Closed;
        }
        decoded
    }

    /// Records that the server has closed the connection. Call it after decoding all input.
    ///
    /// # Errors
    ///
    /// The connection was closed before the response was complete.
    pub fn end_of_input(&mut self) -> Result<InputEnd, Fault> {
        match std::mem::replace(&mut self.state, State::Closed) {
            State::Idle | State::Switched | State::Closed => Ok(InputEnd::BetweenResponses),
            State::UntilClose { .. } | State::Ended | State::Length { remaining: 0, .. } => {
                Ok(InputEnd::ResponseComplete)
            }
            State::Head(scan) if scan.received() == 0 => Err(Fault::ClosedBeforeResponse),
            State::Head(scan) => Err(Fault::ClosedInHead { received: scan.received() }),
            State::Length { remaining, total } => {
                Err(Fault::ClosedInBody { received: total - remaining, expected: Some(total) })
            }
            State::Chunked(chunked) => {
                Err(Fault::ClosedInBody { received: chunked.received(), expected: None })
            }
        }
    }

    /// Whether another request can be sent: the last response is complete and valid, and neither side has announced that
    /// it will close the connection (RFC 9112 §9.3).
    #[must_use]
    pub fn can_be_reused(&self) -> bool {
        self.is_idle() && self.persists
    }

    /// Whether no response is expected.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        matches!(self.state, State::Idle)
    }

    /// Whether the current chunk is incomplete (RFC 9112 §7.1). A server encodes the data that is available as one chunk, so
    /// a client can measure when that data has arrived.
    #[must_use]
    pub fn is_within_chunk(&self) -> bool {
        matches!(&self.state, State::Chunked(chunked) if chunked.is_within_chunk())
    }

    /// Whether the connection uses another protocol, after a 101 or a 2xx to CONNECT (RFC 9110 §7.8, §9.3.6). The bytes that
    /// [`Self::decode`] has not used belong to that protocol.
    #[must_use]
    pub fn has_switched(&self) -> bool {
        matches!(self.state, State::Switched)
    }

    /// Returns how many bytes of a body with a length were received, and how many are missing. `None` for other bodies, and between
    /// responses.
    #[must_use]
    pub fn body_progress(&self) -> Option<(u64, u64)> {
        match self.state {
            State::Length { remaining, total } => Some((total - remaining, remaining)),
            _ => None,
        }
    }

    /// Counts bytes of a body with a length that [`Self::decode`] does not see, because the kernel passes them on. They must be fewer than
    /// are missing: the last one goes to `decode`, which finds the end.
    pub fn bypass(&mut self, bytes: u64) {
        if let State::Length { remaining, .. } = &mut self.state {
            debug_assert!(bytes < *remaining, "the last byte is decoded");
            *remaining = remaining.saturating_sub(bytes);
        }
    }

    fn advance<'a>(
        &mut self,
        bytes: &'a [u8],
        limits: &Limits,
        on_field: &mut impl FnMut(&FieldLine<'_>),
    ) -> Result<(usize, ResponseEvent<'a>), Fault> {
        match &mut self.state {
            State::Head(scan) => match scan.find_end(bytes, limits, on_field)? {
                Some(length) => {
                    let scan = std::mem::take(scan);
                    Ok((length, self.finish_head(&scan, &bytes[..length], limits)?))
                }
                None => Ok((0, ResponseEvent::NeedData)),
            },
            State::Length { remaining: 0, .. } | State::Ended => {
                self.state = if self.switches { State::Switched } else { State::Idle };
                Ok((0, ResponseEvent::End(None)))
            }
            State::Switched | State::Closed => Ok((0, ResponseEvent::NeedData)),
            _ if bytes.is_empty() => Ok((0, ResponseEvent::NeedData)),
            State::Idle => Err(Fault::Unsolicited(Excerpt::of(bytes))),
            State::UntilClose { room: 0 } => Err(Fault::BodyTooLarge { limit: limits.body_bytes }),
            State::Length { remaining: room, .. } | State::UntilClose { room } => {
                let data = split_up_to(room, bytes);
                Ok((data.len(), ResponseEvent::Data(data)))
            }
            State::Chunked(chunked) => {
                let decoded = chunked.decode(bytes, limits);
                let (used, decoded) =
                    decoded.map_err(|malformed| Fault::in_body(malformed, bytes, limits))?;
                let event = match decoded {
                    Decoded::Data(data) => ResponseEvent::Data(data),
                    Decoded::NeedData => ResponseEvent::NeedData,
                    Decoded::End(trailers) => {
                        self.state = State::Idle;
                        ResponseEvent::End(trailers)
                    }
                };
                Ok((used, event))
            }
        }
    }

    /// Handles a complete response head.
    fn finish_head<'a>(
        &mut self,
        scan: &HeadScan,
        raw: &'a [u8],
        limits: &Limits,
    ) -> Result<ResponseEvent<'a>, Fault> {
        let framing = scan.framing(self.request, raw)?;
        let head = scan.view(raw, framing);
        if matches!(head.status(), 100 | 102..=199) {
            // `advance` has reset the scan, so the next head can begin.
            return Ok(ResponseEvent::Informational(head));
        }
        self.switches = match head.status() {
            101 if !self.request.offers_upgrade => return Err(Fault::UnsolicitedUpgrade),
            101 => true,
            status => self.request.is_connect && (200..=299).contains(&status),
        };
        self.persists &= !self.request.is_last && scan.keep_alive();
        self.state = match framing {
            Framing::None => State::Ended,
            Framing::Length(length) if length > limits.body_bytes => {
                return Err(Fault::BodyTooLarge { limit: limits.body_bytes });
            }
            Framing::Length(length) => State::Length { remaining: length, total: length },
            Framing::Chunked => State::Chunked(Chunked::new()),
            Framing::UntilClose => State::UntilClose { room: limits.body_bytes },
        };
        Ok(ResponseEvent::Head(head))
    }
}

impl Default for ClientConnection {
    fn default() -> Self {
        Self::new()
    }
}
