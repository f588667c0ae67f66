//! Converts the response of an upstream to the response for the client.

use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Instant;

use bytes::Bytes;
use http::Method;
use rudy_net::{Body, BodyError, BodyPiece, BodyStream, Response};

use super::exchange::{Exchange, Head};
use super::failure::{Cause, Failure};
use crate::buffer::{Buffer, BufferError, Buffers};
use crate::upstream::{
    HeadOnlyBody, PieceSource, ReadAhead, RequestInfo, has_no_body, is_of_events, take_unbuffered,
};

/// Creates the response for the client. If the client is slower than the upstream, `buffers` store up to `limit` bytes of the body in a
/// file.
///
/// # Errors
///
/// The upstream failed before any byte of the body was received.
pub(super) fn into_response(
    (head, exchange): (Head, Box<Exchange>),
    method: &Method,
    buffers: &Buffers,
    limit: u64,
    info: &Arc<RequestInfo>,
) -> Result<Response, Failure> {
    let Head { status, mut fields, length } = head;
    let is_unbuffered = take_unbuffered(&mut fields);
    let is_live = is_of_events(&fields);
    let mut response = Response::new(status);
    *response.headers_mut() = fields;
    if has_no_body(method, status) {
        exchange.discard();
        response.body = Body::Stream(Box::new(HeadOnlyBody { length }));
        return Ok(response);
    }
    let limit = if is_unbuffered || is_live { 0 } else { limit };
    let buffer = || Buffer::new(buffers, Some(limit));
    response.body = body(Receiving { exchange, info: info.clone() }, length, is_live, buffer)?;
    Ok(response)
}

/// Creates the body; `length` is its size, if known. If the whole body was received already, it is sent from memory; if the upstream has
/// failed already, nothing is sent.
fn body(
    mut receiving: Receiving,
    length: Option<u64>,
    is_live: bool,
    buffer: impl FnOnce() -> Buffer,
) -> Result<Body, Failure> {
    let first = match receiving.poll_piece(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(Some(piece)) => piece?,
        Poll::Ready(None) | Poll::Pending => Bytes::new(),
    };
    if receiving.is_done() && !receiving.exchange.has_trailers() {
        return Ok(if first.is_empty() { Body::Empty } else { Body::Bytes(first) });
    }
    let body = ReadAhead::new(first, buffer(), receiving);
    Ok(Body::Stream(Box::new(ResponseBody { body, left: length, is_live })))
}

/// A response that is being received, and its request for the log.
struct Receiving {
    exchange: Box<Exchange>,
    info: Arc<RequestInfo>,
}

impl PieceSource for Receiving {
    type Failure = Failure;

    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Failure>>> {
        let piece = ready!(self.exchange.poll_piece(cx));
        Poll::Ready(piece.map(|piece| piece.map_err(|cause| self.exchange.failure(cause))))
    }

    fn is_done(&self) -> bool {
        self.exchange.is_done()
    }

    fn buffer_failed(&mut self, error: BufferError) {
        self.info.log_failure(&Failure::from(Cause::Buffer(error)));
    }
}

/// A body that is passed on as it is received.
struct ResponseBody {
    body: ReadAhead<Receiving>,
    /// Bytes that are missing, if the length is known.
    left: Option<u64>,
    /// Whether it is an event stream.
    is_live: bool,
}

impl BodyStream for ResponseBody {
    fn poll_piece(
        &mut self,
        cx: &mut Context<'_>,
        _now: Instant,
        _max: u64,
    ) -> Poll<Option<Result<BodyPiece, BodyError>>> {
        Poll::Ready(match ready!(self.body.poll_piece(cx)) {
            Some(Ok(piece)) => {
                self.left = self.left.map(|left| left.saturating_sub(piece.len() as u64));
                Some(Ok(BodyPiece::Data(piece)))
            }
            Some(Err(failure)) => {
                self.body.source().info.log_failure(&failure);
                Some(Err(failure.into()))
            }
            None => self.body.source().exchange.take_trailers().map(|fields| Ok(BodyPiece::Trailers(fields))),
        })
    }

    fn poll_blocked(&mut self, cx: &mut Context<'_>, _now: Instant) -> Poll<()> {
        self.body.poll_blocked(cx);
        Poll::Pending
    }

    fn length(&self) -> Option<u64> {
        self.left
    }

    fn is_live(&self) -> bool {
        self.is_live
    }
}
