//! Converts the response of an app to the response for the client.

use std::future::poll_fn;
use std::task::{Context, Poll, Waker, ready};
use std::time::Instant;

use bytes::Bytes;
use http::{Method, StatusCode};
use rudy_fastcgi::cgi::{Head, ResponseKind};
use rudy_net::{Body, BodyError, BodyPiece, BodyStream, Response};

use super::exchange::Exchange;
use super::failure::{AppCause, Cause, Failure};
use crate::buffer::{Buffer, BufferError, Buffers};
use crate::upstream::{HeadOnlyBody, PieceSource, ReadAhead, has_no_body, is_of_events, take_unbuffered};

/// The response of an app: its head, and the exchange that receives the body.
pub(super) struct AppResponse {
    pub(super) head: Head,
    exchange: Box<Exchange>,
}

impl AppResponse {
    pub(super) fn new(head: Head, exchange: Box<Exchange>) -> Self {
        Self { head, exchange }
    }

    /// Discards the body, and returns the head.
    pub(super) fn discard(self) -> Head {
        self.exchange.discard();
        self.head
    }

    /// Discards a body of at most `max` bytes, and checks that the app ends the request with application
    /// status 0.
    pub(super) async fn expect_end(mut self, max: usize) -> Result<(), Failure> {
        let mut discarded = 0;
        while discarded <= max {
            match poll_fn(|cx| self.exchange.poll_piece(cx)).await {
                Some(piece) => discarded += piece?.len(),
                None => {
                    return match self.exchange.app_status() {
                        Some(0) => Ok(()),
                        Some(app_status) => Err(AppCause::AppStatus(app_status).into()),
                        None => Err(AppCause::NoEndOfRequest.into()),
                    };
                }
            }
        }
        Err(AppCause::BodyTooLong(max).into())
    }

    /// Creates the response for the client. If the client is slower than the app, `buffers` store up to
    /// `limit` bytes of the body in a file.
    ///
    /// # Errors
    ///
    /// The app failed before any byte of the body was received.
    pub(super) fn into_response(
        self,
        method: &Method,
        buffers: &Buffers,
        limit: u64,
    ) -> Result<Response, Failure> {
        let Self { head, exchange } = self;
        let status = match head.kind {
            ResponseKind::Document(status) => status,
            ResponseKind::LocalRedirect(_) => StatusCode::FOUND,
        };
        let mut response = Response::with_head(rudy_net::Head::Received(head.fields.with_status(status)));
        let is_unbuffered = head.has_instructions && take_unbuffered(&mut response);
        if has_no_body(method, status) {
            // A live stream does not end soon.
            if !is_unbuffered && !is_of_events(&response) {
                exchange.discard();
            }
            response.body = Body::Stream(Box::new(HeadOnlyBody { length: head.content_length }));
            return Ok(response);
        }
        response.body = body(exchange, head.content_length, || {
            let is_live = is_unbuffered || is_of_events(&response);
            Buffer::new(buffers, Some(if is_live { 0 } else { limit }))
        })?;
        Ok(response)
    }
}

/// Creates the body; `length` is its size if the app has declared one. If the whole body was received
/// already, it is sent from memory; if the app has failed already, nothing is sent.
fn body(
    mut exchange: Box<Exchange>,
    length: Option<u64>,
    buffer: impl FnOnce() -> Buffer,
) -> Result<Body, Failure> {
    let first = match exchange.poll_piece(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(Some(piece)) => piece?,
        Poll::Ready(None) | Poll::Pending => Bytes::new(),
    };
    if !exchange.is_done() || length.is_some_and(|length| length != first.len() as u64) {
        let body = ReadAhead::new(first, buffer(), exchange);
        return Ok(Body::Stream(Box::new(ResponseBody { body, left: length, length })));
    }
    Ok(if first.is_empty() { Body::Empty } else { Body::Bytes(first) })
}

/// A body that is passed on as it is received.
struct ResponseBody {
    body: ReadAhead<Box<Exchange>>,
    /// Bytes that are missing, if the app has declared a length.
    left: Option<u64>,
    length: Option<u64>,
}

impl PieceSource for Box<Exchange> {
    type Failure = Failure;

    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Failure>>> {
        Exchange::poll_piece(self, cx).map_err(Failure::from)
    }

    fn is_done(&self) -> bool {
        Exchange::is_done(self)
    }

    fn buffer_failed(&mut self, error: BufferError) {
        self.info().log_failure(&Failure::from(Cause::Buffer(error)));
    }
}

impl ResponseBody {
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Failure>>> {
        let piece = ready!(self.body.poll_piece(cx));
        Poll::Ready(match (piece, &mut self.left) {
            (Some(Ok(mut piece)), Some(left)) => {
                if piece.len() as u64 > *left {
                    let expected = self.length.unwrap_or(0);
                    self.body.source().info().log_failure(&Failure::from(AppCause::Length {
                        expected,
                        received: expected + piece.len() as u64 - *left,
                    }));
                    // At most the length of the piece, which is a `usize`.
                    piece.truncate(usize::try_from(*left).unwrap_or(usize::MAX));
                }
                *left -= piece.len() as u64;
                Some(Ok(piece)).filter(|piece| piece.as_ref().is_ok_and(|piece| !piece.is_empty()))
            }
            // The declared length was received, so the response is complete.
            (Some(Err(failure)), Some(0)) => {
                self.body.source().info().log_failure(&failure);
                None
            }
            (None, Some(left)) if *left > 0 => {
                let expected = self.length.unwrap_or(0);
                Some(Err(AppCause::Length { expected, received: expected - *left }.into()))
            }
            (piece, _) => piece,
        })
    }
}

impl BodyStream for ResponseBody {
    fn poll_piece(
        &mut self,
        cx: &mut Context<'_>,
        _now: Instant,
        _max: u64,
    ) -> Poll<Option<Result<BodyPiece, BodyError>>> {
        let piece = ready!(self.poll_next(cx));
        if let Some(Err(failure)) = &piece {
            self.body.source().info().log_failure(failure);
        }
        Poll::Ready(piece.map(|piece| piece.map(BodyPiece::Data).map_err(Into::into)))
    }

    fn poll_blocked(&mut self, cx: &mut Context<'_>, _now: Instant) -> Poll<()> {
        self.body.poll_blocked(cx);
        Poll::Pending
    }

    #[expect(clippy::misnamed_getters, reason = "the length of the rest of the body")]
    fn length(&self) -> Option<u64> {
        self.left
    }
}
