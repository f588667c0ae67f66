//! How a request is sent, over any version of HTTP.

use std::task::{Context, Poll};

use rudy_http::h1::BodyLength;
use rudy_http::h1::client::RequestHead;
use rudy_http::h2::client::Request;

use super::connection::Connection;
use super::failure::{Cause, HttpCause};
use super::http1::BodyEncoder;
use super::http2::{Http2Stream, Http2Upload};
use super::upgrade::Offer;
use crate::upstream::{SendError, Sending as Http1Sending, SocketConnection as _, Upload};

/// A request that is being sent.
#[derive(Debug)]
pub(super) enum Sending {
    Http1(Http1Sending<BodyEncoder>),
    Http2(Http2Upload),
}

/// Begins a request on a connection. What the connection does not accept at once is sent by later polls.
///
/// # Errors
///
/// The head cannot be encoded. Nothing was sent.
pub(super) fn begin(
    connection: &mut Connection,
    head: &RequestHead<'_>,
    upload: Upload,
    offer: Option<&Offer>,
) -> Result<Sending, Cause> {
    match connection {
        Connection::Http1(connection) => {
            let sending = Http1Sending::begin(upload, connection, |connection, out| {
                head.encode(out).map_err(HttpCause::Request)?;
                connection.begin(head.info());
                let is_chunked = head.body == BodyLength::Chunked;
                Ok::<_, Cause>(if is_chunked { BodyEncoder::Chunked } else { BodyEncoder::Plain })
            })?;
            Ok(Sending::Http1(sending))
        }
        Connection::Http2(stream) => begin_http2(stream, head, upload, offer).map(Sending::Http2),
    }
}

fn begin_http2(
    stream: &mut Http2Stream,
    head: &RequestHead<'_>,
    upload: Upload,
    offer: Option<&Offer>,
) -> Result<Http2Upload, Cause> {
    stream.begin(|scheme| {
        let request = match offer {
            Some(offer) => Request::tunnel(head, scheme, offer.protocol()),
            None => Request::new(head, scheme),
        };
        request.map_err(|error| HttpCause::Request(error).into())
    })?;
    Ok(if offer.is_some() { Http2Upload::of_tunnel() } else { Http2Upload::new(upload) })
}

impl Sending {
    /// Sends what the connection accepts. Ready when all was sent.
    pub(super) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        connection: &mut Connection,
    ) -> Poll<Result<(), SendError>> {
        match (self, connection) {
            (Self::Http1(sending), Connection::Http1(connection)) => sending.poll(cx, connection.socket()),
            (Self::Http2(sending), Connection::Http2(stream)) => sending.poll(cx, stream),
            _ => unreachable!("`begin` pairs them"),
        }
    }

    /// Returns the number of bytes that the connection has accepted.
    pub(super) fn sent(&self) -> u64 {
        match self {
            Self::Http1(sending) => sending.sent(),
            Self::Http2(sending) => sending.sent(),
        }
    }

    /// Returns whether the whole request was sent.
    pub(super) fn is_done(&self) -> bool {
        match self {
            Self::Http1(sending) => sending.is_done(),
            Self::Http2(sending) => sending.is_done(),
        }
    }

    /// Returns whether the upstream waits for a part of the body that the client has not sent.
    pub(super) fn waits_for_client(&self) -> bool {
        match self {
            Self::Http1(sending) => sending.waits_for_client(),
            Self::Http2(sending) => sending.waits_for_client(),
        }
    }

    /// Returns the body for another attempt, if it can be read again.
    pub(super) fn take_upload(&mut self) -> Option<Upload> {
        match self {
            Self::Http1(sending) => sending.take_upload(),
            Self::Http2(sending) => sending.take_upload(),
        }
    }
}
