//! What the responses of all kinds of upstreams have in common.

use std::task::{Context, Poll, Waker, ready};
use std::time::Instant;

use bytes::Bytes;
use http::{Method, StatusCode, header};
use rudy_service::{Body, BodyError, BodyPiece, BodyStream, Piped, Response};

use super::read_ahead::{PieceSource, ReadAhead};
use super::{Cause, Exchange, Failure, Protocol};
use crate::buffer::{Buffer, BufferError};

/// Returns whether a response is an event stream, which must not be delayed.
pub fn is_of_events(response: &Response) -> bool {
    let events = b"text/event-stream";
    let start = response.header(&header::CONTENT_TYPE).and_then(|value| value.get(..events.len()));
    start.is_some_and(|start| start.eq_ignore_ascii_case(events))
}

/// Returns whether a response has no body, regardless of its fields (RFC 9110 §9.3.2, §15.3.5, §15.4.5).
#[must_use]
pub fn has_no_body(method: &Method, status: StatusCode) -> bool {
    *method == Method::HEAD || matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED)
}

/// The body of a response of which only the head is sent. It may have a length.
pub struct HeadOnlyBody {
    /// The length of the body, if it is known.
    pub length: Option<u64>,
}

impl BodyStream for HeadOnlyBody {
    fn poll_piece(
        &mut self,
        _cx: &mut Context<'_>,
        _now: Instant,
        _max: u64,
    ) -> Poll<Option<Result<BodyPiece, BodyError>>> {
        Poll::Ready(None)
    }

    fn length(&self) -> Option<u64> {
        self.length
    }
}

/// Creates the body of a response; `length` is its size, if known. If the whole body was received already, it is sent from memory; if the
/// upstream has failed already, nothing is sent. `buffer` and `info` are called for a body that is passed on as it is received; the first
/// returns also whether the body is an event stream.
///
/// # Errors
///
/// The upstream failed before any byte of the body was received.
pub fn body<P: Protocol>(
    mut exchange: Box<Exchange<P>>,
    length: Option<u64>,
    buffer: impl FnOnce() -> (Buffer, bool),
    info: impl FnOnce() -> P::Info,
) -> Result<Body, Failure<P::Cause>> {
    let first = match exchange.poll_piece(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(Some(piece)) => piece.map_err(|cause| exchange.failure(cause))?,
        Poll::Ready(None) | Poll::Pending => Bytes::new(),
    };
    let is_whole = !P::MAY_DIFFER_IN_LENGTH || length.is_none_or(|length| length == first.len() as u64);
    if exchange.is_done() && exchange.received.trailers.is_none() && is_whole {
        return Ok(if first.is_empty() { Body::Empty } else { Body::Bytes(first) });
    }
    let (buffer, is_live) = buffer();
    let body = ReadAhead::new(first, buffer, Receiving { exchange, info: info() });
    Ok(Body::Stream(Box::new(ResponseBody { body, left: length, length, is_live })))
}

/// A response that is being received.
struct Receiving<P: Protocol> {
    exchange: Box<Exchange<P>>,
    info: P::Info,
}

/// A body that is passed on as it is received.
struct ResponseBody<P: Protocol> {
    body: ReadAhead<Receiving<P>>,
    /// Bytes that are missing, if the length is known.
    left: Option<u64>,
    length: Option<u64>,
    /// Whether it is an event stream.
    is_live: bool,
}

impl<P: Protocol> Receiving<P> {
    fn log_failure(&self, failure: &Failure<P::Cause>) {
        self.exchange.protocol.log_failure(&self.info, failure);
    }
}

impl<P: Protocol> PieceSource for Receiving<P> {
    type Failure = Failure<P::Cause>;

    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Self::Failure>>> {
        let piece = ready!(self.exchange.poll_piece(cx));
        Poll::Ready(piece.map(|piece| piece.map_err(|cause| self.exchange.failure(cause))))
    }

    fn take_piped(&mut self, max: u64) -> Option<Piped> {
        self.exchange.take_piped(max)
    }

    fn is_done(&self) -> bool {
        self.exchange.is_done()
    }

    fn buffer_failed(&mut self, error: BufferError) {
        self.log_failure(&Failure::from(Cause::Buffer(error)));
    }
}

impl<P: Protocol> ResponseBody<P> {
    /// Returns the next piece; its end is that of the declared length.
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Failure<P::Cause>>>> {
        let piece = ready!(self.body.poll_piece(cx));
        let (Some(left), Some(expected), true) = (self.left, self.length, P::MAY_DIFFER_IN_LENGTH) else {
            return Poll::Ready(piece);
        };
        Poll::Ready(match piece {
            Some(Ok(mut piece)) => {
                if piece.len() as u64 > left {
                    let received = expected + piece.len() as u64 - left;
                    self.body.source().log_failure(&Failure::from(Cause::Length { expected, received }));
                    // At most the length of the piece, which is a `usize`.
                    piece.truncate(usize::try_from(left).unwrap_or(usize::MAX));
                }
                Some(Ok(piece)).filter(|piece| piece.as_ref().is_ok_and(|piece| !piece.is_empty()))
            }
            // The declared length was received, so the response is complete.
            Some(Err(failure)) if left == 0 => {
                self.body.source().log_failure(&failure);
                None
            }
            None if left > 0 => Some(Err(Cause::Length { expected, received: expected - left }.into())),
            piece => piece,
        })
    }

    /// Counts bytes that are passed on.
    fn count(&mut self, bytes: u64) {
        self.left = self.left.map(|left| left.saturating_sub(bytes));
    }
}

impl<P: Protocol> BodyStream for ResponseBody<P> {
    fn poll_piece(
        &mut self,
        cx: &mut Context<'_>,
        _now: Instant,
        _max: u64,
    ) -> Poll<Option<Result<BodyPiece, BodyError>>> {
        Poll::Ready(match ready!(self.poll_next(cx)) {
            Some(Ok(piece)) => {
                self.count(piece.len() as u64);
                Some(Ok(BodyPiece::Data(piece)))
            }
            Some(Err(failure)) => {
                self.body.source().log_failure(&failure);
                Some(Err(failure.into()))
            }
            None => self
                .body
                .source()
                .exchange
                .received
                .trailers
                .take()
                .map(|fields| Ok(BodyPiece::Trailers(*fields))),
        })
    }

    fn take_piped(&mut self, max: u64) -> Option<Piped> {
        let piped = self.body.take_piped(max)?;
        self.count(piped.length());
        Some(piped)
    }

    fn poll_blocked(&mut self, cx: &mut Context<'_>, _now: Instant) -> Poll<()> {
        self.body.poll_blocked(cx);
        Poll::Pending
    }

    #[expect(clippy::misnamed_getters, reason = "the length of the rest of the body")]
    fn length(&self) -> Option<u64> {
        self.left
    }

    fn is_live(&self) -> bool {
        self.is_live
    }
}
