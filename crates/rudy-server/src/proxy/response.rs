//! Converts the response of an upstream to the response for the client.

use std::future::poll_fn;
use std::task::{Context, Poll, Waker, ready};
use std::time::Instant;

use bytes::Bytes;
use http::{Method, StatusCode, header};
use rudy_net::{Body, BodyError, BodyPiece, BodyStream, Piped, RequestBody, Response};

use super::exchange::Exchange;
use super::failure::{Cause, Failure, HttpCause};
use super::received::Head;
use super::tunnel::{Tunnel, TunnelBody, TunnelLimits};
use super::upgrade::Offer;
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
    info: impl FnOnce() -> RequestInfo,
) -> Result<Response, Failure> {
    let Head { fields, length, .. } = head;
    let mut response = Response::with_head(fields);
    let is_unbuffered = take_unbuffered(&mut response);
    let is_live = is_of_events(&response);
    if has_no_body(method, response.status()) {
        exchange.discard();
        response.body = Body::Stream(Box::new(HeadOnlyBody { length }));
        return Ok(response);
    }
    let limit = if is_unbuffered || is_live { 0 } else { limit };
    let buffer = || Buffer::new(buffers, Some(limit));
    response.body = body(exchange, length, is_live, buffer, info)?;
    Ok(response)
}

/// Creates the response for a client whose connection becomes a tunnel to the upstream.
///
/// # Errors
///
/// The upstream has changed to another protocol than the client has requested, or does not speak it.
pub(super) fn into_tunnel(
    (mut head, exchange): (Head, Box<Exchange>),
    offer: &Offer,
    client: RequestBody,
    limits: TunnelLimits,
) -> Result<Response, Failure> {
    let fields = head.take_fields();
    let checked = head
        .upgrade
        .ok_or("without the field Upgrade")
        .and_then(|token| offer.check(&token, &fields).map(|()| token));
    let token = checked.map_err(|how| exchange.failure(HttpCause::Upgrade(how).into()))?;
    let Some(mut switched) = exchange.into_switched() else {
        return Err(HttpCause::Upgrade("and closed the connection").into());
    };
    switched.checkout.begin_tunnel();
    let status = if offer.is_http2 { StatusCode::OK } else { StatusCode::SWITCHING_PROTOCOLS };
    let mut response = Response::new(status);
    *response.headers_mut() = fields;
    if offer.is_http2 {
        response.headers_mut().remove(header::SEC_WEBSOCKET_ACCEPT);
        let tunnel = TunnelBody::new(client, switched, limits);
        response.body = Body::Stream(Box::new(tunnel));
        return Ok(response);
    }
    response.headers_mut().insert(header::UPGRADE, token);
    response.upgrade = Some(Box::new(move |upgraded| {
        let mut tunnel = Tunnel::new(upgraded, switched, limits);
        Box::pin(async move { poll_fn(|cx| tunnel.poll(cx)).await })
    }));
    Ok(response)
}

/// Creates the body; `length` is its size, if known. If the whole body was received already, it is sent from memory; if the upstream has
/// failed already, nothing is sent.
fn body(
    mut exchange: Box<Exchange>,
    length: Option<u64>,
    is_live: bool,
    buffer: impl FnOnce() -> Buffer,
    info: impl FnOnce() -> RequestInfo,
) -> Result<Body, Failure> {
    let first = match exchange.poll_piece(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(Some(piece)) => piece.map_err(|cause| exchange.failure(cause))?,
        Poll::Ready(None) | Poll::Pending => Bytes::new(),
    };
    if exchange.is_done() && !exchange.has_trailers() {
        return Ok(if first.is_empty() { Body::Empty } else { Body::Bytes(first) });
    }
    let body = ReadAhead::new(first, buffer(), Receiving { exchange, info: info() });
    Ok(Body::Stream(Box::new(ResponseBody { body, left: length, is_live })))
}

/// A response that is being received, and its request for the log.
struct Receiving {
    exchange: Box<Exchange>,
    info: RequestInfo,
}

impl PieceSource for Receiving {
    type Failure = Failure;

    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Failure>>> {
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

    fn take_piped(&mut self, max: u64) -> Option<Piped> {
        let piped = self.body.take_piped(max)?;
        self.left = self.left.map(|left| left.saturating_sub(piped.length()));
        Some(piped)
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
