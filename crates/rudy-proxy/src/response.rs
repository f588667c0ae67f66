//! Converts the response of an upstream to the response for the client.

use std::future::poll_fn;

use http::{Method, StatusCode, header};
use rudy_client::buffer::{Buffer, Buffers};
use rudy_client::{HeadOnlyBody, RequestInfo, body, has_no_body, is_of_events};
use rudy_service::{Body, RequestBody, Response};

use super::exchange::{Exchange, Switched};
use super::failure::{Failure, HttpCause};
use super::received::Head;
use super::tunnel::{Tunnel, TunnelBody, TunnelLimits};
use super::upgrade::Offer;

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
    if has_no_body(method, response.status()) {
        exchange.discard();
        response.body = Body::Stream(Box::new(HeadOnlyBody { length }));
        return Ok(response);
    }
    let buffer = || {
        let is_live = is_of_events(&response);
        (Buffer::new(buffers, Some(if is_live { 0 } else { limit })), is_live)
    };
    response.body = body(exchange, length, buffer, info)?;
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
    let Some(mut switched) = Switched::of(exchange) else {
        return Err(HttpCause::Upgrade("and closed the connection").into());
    };
    switched.checkout.begin_tunnel();
    let status = if offer.is_connect { StatusCode::OK } else { StatusCode::SWITCHING_PROTOCOLS };
    let mut response = Response::new(status);
    *response.headers_mut() = fields;
    if offer.is_connect {
        response.headers_mut().remove(header::SEC_WEBSOCKET_ACCEPT);
        let tunnel = TunnelBody::new(client, switched, limits);
        response.body = Body::Stream(Box::new(tunnel));
        return Ok(response);
    }
    response.headers_mut().insert(header::UPGRADE, token);
    response.upgrade = Some(Box::new(move |upgraded| {
        let mut tunnel = Tunnel::new(upgraded, switched, limits);
        Box::pin(async move {
            poll_fn(|cx| tunnel.poll(cx)).await;
        })
    }));
    Ok(response)
}
