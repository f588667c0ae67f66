//! The client's side of one HTTP/1.1 connection: what comes back, decoded where it lies.

mod fault;
mod head;
#[cfg(test)]
mod properties;
mod request;
#[cfg(test)]
mod round_trip;
mod scan;
#[cfg(test)]
mod tests;

pub use self::fault::Fault;
pub use self::head::ResponseHead;
pub use self::request::{RequestError, RequestHead};
pub use super::Fields;
pub use super::encode::{encode_chunk, encode_last_chunk};
pub use crate::syntax::Excerpt;

use http::HeaderMap;

use self::scan::HeadScan;
use super::Framing;
use super::chunked::{Chunked, Decoded};
use super::length::split_up_to;
use crate::Limits;

/// The client's side of one connection: it says what the bytes amount to that come back.
///
/// It has no buffer, takes 64 bytes at most and allocates for nothing but trailers: a load generator holds 10,000 of them
/// and decodes 100,000 answers a second. Whoever reads from the connection keeps what [`Self::decode`] leaves, and gives
/// it again with more behind it.
///
/// One answer is under way at a time: [`Self::expect_response`] says what to expect, [`ResponseEvent::End`] ends it, and a driver that
/// pipelines asks for the next one then.
///
/// ```
/// use rudy_http::Limits;
/// use rudy_http::h1::client::{ResponseEvent, RequestInfo, ClientConnection};
///
/// let limits = Limits::for_responses();
/// let mut connection = ClientConnection::new();
/// connection.expect_response(RequestInfo::default());
/// let mut input = &b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"[..];
/// let mut body = Vec::new();
/// loop {
///     let (used, answer) = connection.decode(input, &limits)?;
///     input = &input[used..];
///     match answer {
///         ResponseEvent::Informational(_) => {}
///         ResponseEvent::Head(head) => assert_eq!((head.status(), head.get("content-length")), (200, Some(&b"2"[..]))),
///         ResponseEvent::Data(data) => body.extend_from_slice(data),
///         ResponseEvent::End(_) => break,
///         ResponseEvent::NeedData => unreachable!("the whole answer is there"),
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
    /// So far, both sides want to go on after the answer under way (RFC 9112 §9.3).
    persists: bool,
    /// The end of the answer is the end of HTTP.
    switches: bool,
}

/// What was asked, as far as it decides how the answer is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RequestInfo {
    /// With HEAD: the answer has no body, whatever its fields say.
    pub is_head: bool,
    /// With CONNECT: a 2xx makes the connection a tunnel.
    pub is_connect: bool,
    /// With Upgrade: a 101 may come.
    pub offers_upgrade: bool,
    /// As the last request on the connection: `Connection: close`, or HTTP/1.0 without `keep-alive`.
    pub is_last: bool,
}

/// What bytes amount to.
#[derive(Debug)]
pub enum ResponseEvent<'a> {
    /// A 1xx other than 101: the answer is still to come (RFC 9110 §15.2).
    Informational(ResponseHead<'a>),
    /// The head of the answer. Data and the end follow.
    Head(ResponseHead<'a>),
    /// A piece of the body, never empty.
    Data(&'a [u8]),
    /// The answer is complete; its trailers, if there were chunks to carry them.
    End(Option<HeaderMap>),
    /// Everything was looked at; more has to come.
    NeedData,
}

/// What the end of the input was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InputEnd {
    /// No answer was under way.
    BetweenResponses,
    /// The answer under way had to end so, and is complete.
    ResponseComplete,
}

#[derive(Debug)]
enum State {
    /// Nothing is expected.
    Idle,
    Head(HeadScan),
    Length {
        left: u64,
        whole: u64,
    },
    Chunked(Chunked),
    /// So many bytes are still below the limit.
    UntilClose {
        room: u64,
    },
    /// The answer is complete, and nobody has been told.
    Ended,
    /// Another protocol goes on from here: 101, or 2xx to CONNECT.
    Switched,
    /// Nothing is read any more: the input has ended, or a fault was found and nobody knows where the next answer would begin.
    Closed,
}

impl ClientConnection {
    /// A connection that was just opened.
    #[must_use]
    pub fn new() -> Self {
        Self { state: State::Idle, request: RequestInfo::default(), persists: true, switches: false }
    }

    /// An answer to this is expected next. Call it before the request is sent, or at the [`ResponseEvent::End`] before it.
    pub fn expect_response(&mut self, request: RequestInfo) {
        debug_assert!(self.is_idle(), "one answer is under way at a time");
        self.request = request;
        self.state = State::Head(HeadScan::default());
    }

    /// Says what `bytes` begin with, and how many of them that is. The rest is to be given again, with more behind it; call
    /// it until it answers [`ResponseEvent::NeedData`], because an end needs no bytes of its own.
    ///
    /// Of the limits, those of heads, bodies and chunk extensions hold here; see [`Limits::for_responses`].
    ///
    /// # Errors
    ///
    /// The peer broke the protocol or a limit. The connection has to be closed; nothing is read behind a fault.
    pub fn decode<'a>(
        &mut self,
        bytes: &'a [u8],
        limits: &Limits,
    ) -> Result<(usize, ResponseEvent<'a>), Fault> {
        let decoded = self.advance(bytes, limits);
        if decoded.is_err() {
            self.state = State::Closed;
        }
        decoded
    }

    /// The peer will send nothing more; call it when [`Self::decode`] has been given everything.
    ///
    /// # Errors
    ///
    /// The connection was closed early: the fault says how much had come of how much.
    pub fn end_of_input(&mut self) -> Result<InputEnd, Fault> {
        match std::mem::replace(&mut self.state, State::Closed) {
            State::Idle | State::Switched | State::Closed => Ok(InputEnd::BetweenResponses),
            State::UntilClose { .. } | State::Ended | State::Length { left: 0, .. } => {
                Ok(InputEnd::ResponseComplete)
            }
            State::Head(scan) if scan.received() == 0 => Err(Fault::ClosedBeforeResponse),
            State::Head(scan) => Err(Fault::ClosedInHead { received: scan.received() }),
            State::Length { left, whole } => {
                Err(Fault::ClosedInBody { received: whole - left, expected: Some(whole) })
            }
            State::Chunked(chunked) => {
                Err(Fault::ClosedInBody { received: chunked.received(), expected: None })
            }
        }
    }

    /// Whether another request may be sent: the last answer is complete, nothing was wrong with it, and neither side said that
    /// it was the last (RFC 9112 §9.3).
    #[must_use]
    pub fn can_be_reused(&self) -> bool {
        self.is_idle() && self.persists
    }

    /// Whether no answer is expected.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        matches!(self.state, State::Idle)
    }

    /// Whether the data that was handed out last is not the end of its chunk (RFC 9112 §7.1). A sender makes a chunk of what it
    /// has at once, so that a whole one tells when that was.
    #[must_use]
    pub fn is_within_chunk(&self) -> bool {
        matches!(&self.state, State::Chunked(chunked) if chunked.is_within_chunk())
    }

    /// Whether another protocol goes on from here, because 101 or a 2xx to CONNECT has come (RFC 9110 §7.8, §9.3.6): what
    /// [`Self::decode`] leaves belongs to that.
    #[must_use]
    pub fn has_switched(&self) -> bool {
        matches!(self.state, State::Switched)
    }

    fn advance<'a>(&mut self, bytes: &'a [u8], limits: &Limits) -> Result<(usize, ResponseEvent<'a>), Fault> {
        match &mut self.state {
            State::Head(scan) => match scan.find_end(bytes, limits)? {
                Some(length) => {
                    let scan = std::mem::take(scan);
                    Ok((length, self.finish_head(&scan, &bytes[..length], limits)?))
                }
                None => Ok((0, ResponseEvent::NeedData)),
            },
            State::Length { left: 0, .. } | State::Ended => {
                self.state = if self.switches { State::Switched } else { State::Idle };
                Ok((0, ResponseEvent::End(None)))
            }
            State::Switched | State::Closed => Ok((0, ResponseEvent::NeedData)),
            _ if bytes.is_empty() => Ok((0, ResponseEvent::NeedData)),
            State::Idle => Err(Fault::Unsolicited(Excerpt::of(bytes))),
            State::UntilClose { room: 0 } => Err(Fault::BodyTooLarge { limit: limits.body_bytes }),
            State::Length { left: room, .. } | State::UntilClose { room } => {
                let data = split_up_to(room, bytes);
                Ok((data.len(), ResponseEvent::Data(data)))
            }
            State::Chunked(chunked) => {
                let decoded = chunked.decode(bytes, limits);
                let (used, decoded) = decoded.map_err(|what| Fault::in_body(what, bytes, limits))?;
                let answer = match decoded {
                    Decoded::Data(data) => ResponseEvent::Data(data),
                    Decoded::NeedData => ResponseEvent::NeedData,
                    Decoded::End(trailers) => {
                        self.state = State::Idle;
                        ResponseEvent::End(trailers)
                    }
                };
                Ok((used, answer))
            }
        }
    }

    /// A whole head has come.
    fn finish_head<'a>(
        &mut self,
        scan: &HeadScan,
        raw: &'a [u8],
        limits: &Limits,
    ) -> Result<ResponseEvent<'a>, Fault> {
        let framing = scan.framing(self.request, raw)?;
        let head = scan.view(raw, framing);
        if matches!(head.status(), 100 | 102..=199) {
            // `scan` was taken, so the next head begins anew.
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
            Framing::Length(length) => State::Length { left: length, whole: length },
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
