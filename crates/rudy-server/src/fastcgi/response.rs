//! Converts the response of an app to the response for the client.

use std::future::poll_fn;
use std::task::{Context, Poll, Waker, ready};
use std::time::Instant;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use rudy_fastcgi::cgi::{Head, ResponseKind};
use rudy_net::{Body, BodyError, BodyPiece, BodyStream, Response};

use super::exchange::Exchange;
use super::failure::Failure;
use crate::buffer::{Buffer, BufferError, Buffers};

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
                        Some(app_status) => Err(Failure::AppStatus(app_status)),
                        None => Err(Failure::NoEndOfRequest),
                    };
                }
            }
        }
        Err(Failure::BodyTooLong(max))
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
        let mut fields = head.fields;
        let is_unbuffered =
            head.has_instructions && fields.remove(&ACCEL_BUFFERING).is_some_and(|value| is_no(&value));
        if head.content_length.is_some() {
            // The length of the body stream sets this field again.
            fields.remove(header::CONTENT_LENGTH);
        }
        let mut response = Response::new(status);
        *response.headers_mut() = fields;
        // These responses have no body (RFC 9110 §9.3.2, §15.3.5, §15.4.5).
        if *method == Method::HEAD || matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED) {
            // A live stream does not end soon.
            if !is_unbuffered && !is_of_events(response.headers()) {
                exchange.discard();
            }
            response.body = Body::Stream(Box::new(HeadOnlyBody { length: head.content_length }));
            return Ok(response);
        }
        response.body = body(exchange, head.content_length, || {
            let is_live = is_unbuffered || is_of_events(response.headers());
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
        let (buffer, state) = (buffer(), State::Open);
        return Ok(Body::Stream(Box::new(ResponseBody {
            first,
            buffer,
            exchange,
            state,
            left: length,
            length,
        })));
    }
    Ok(if first.is_empty() { Body::Empty } else { Body::Bytes(first) })
}

/// The field that switches response buffering off, as in nginx. It is not passed on.
static ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

fn is_no(value: &HeaderValue) -> bool {
    value.as_bytes().eq_ignore_ascii_case(b"no")
}

/// Returns whether a response is an event stream, which must not be delayed.
fn is_of_events(fields: &HeaderMap) -> bool {
    let events = b"text/event-stream";
    let start = fields.get(header::CONTENT_TYPE).and_then(|value| value.as_bytes().get(..events.len()));
    start.is_some_and(|start| start.eq_ignore_ascii_case(events))
}

/// The body of a response of which only the head is sent. It may have a length.
struct HeadOnlyBody {
    length: Option<u64>,
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

/// A body that is passed on as it is received.
struct ResponseBody {
    /// The part that was received with the head.
    first: Bytes,
    /// The part that was read ahead.
    buffer: Buffer,
    exchange: Box<Exchange>,
    state: State,
    /// Bytes that are missing, if the app has declared a length.
    left: Option<u64>,
    length: Option<u64>,
}

/// Whether the app sends more of the body.
enum State {
    Open,
    /// The app has failed after the bytes in the buffer.
    Failed(Failure),
    /// The whole body was received.
    Over,
}

impl ResponseBody {
    fn poll_source(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Failure>>> {
        if !self.first.is_empty() {
            return Poll::Ready(Some(Ok(std::mem::take(&mut self.first))));
        }
        if let Some(piece) = ready!(self.buffer.poll_piece(cx)) {
            return Poll::Ready(Some(piece.map_err(Failure::from_disk)));
        }
        match std::mem::replace(&mut self.state, State::Over) {
            State::Open => self.poll_exchange(cx),
            State::Failed(failure) => Poll::Ready(Some(Err(failure))),
            State::Over => Poll::Ready(None),
        }
    }

    fn poll_exchange(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Failure>>> {
        let piece = self.exchange.poll_piece(cx);
        let may_continue = matches!(piece, Poll::Pending | Poll::Ready(Some(Ok(_))));
        self.state = if may_continue && !self.exchange.is_done() { State::Open } else { State::Over };
        piece
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Failure>>> {
        let piece = ready!(self.poll_source(cx));
        Poll::Ready(match (piece, &mut self.left) {
            (Some(Ok(mut piece)), Some(left)) => {
                if piece.len() as u64 > *left {
                    let expected = self.length.unwrap_or(0);
                    self.exchange.info().log_failure(&Failure::Length {
                        expected,
                        received: expected + piece.len() as u64 - *left,
                    });
                    // At most the length of the piece, which is a `usize`.
                    piece.truncate(usize::try_from(*left).unwrap_or(usize::MAX));
                }
                *left -= piece.len() as u64;
                Some(Ok(piece)).filter(|piece| piece.as_ref().is_ok_and(|piece| !piece.is_empty()))
            }
            // The declared length was received, so the response is complete.
            (Some(Err(failure)), Some(0)) => {
                self.exchange.info().log_failure(&failure);
                None
            }
            (None, Some(left)) if *left > 0 => {
                let expected = self.length.unwrap_or(0);
                Some(Err(Failure::Length { expected, received: expected - *left }))
            }
            (piece, _) => piece,
        })
    }

    /// Reads from the app while the buffer has room. A failure is reported after the bytes before it.
    fn read_ahead(&mut self, cx: &mut Context<'_>) {
        while matches!(self.state, State::Open) {
            match self.buffer.poll_room(cx) {
                Poll::Ready(Ok(())) => {}
                // Over the limit, the app waits for the client.
                Poll::Pending | Poll::Ready(Err(BufferError::Limit(_))) => return,
                Poll::Ready(Err(error)) => {
                    return self.exchange.info().log_failure(&Failure::Buffer(error));
                }
            }
            match self.poll_exchange(cx) {
                Poll::Pending => return,
                Poll::Ready(Some(Ok(piece))) => self.buffer.push(piece),
                Poll::Ready(Some(Err(failure))) => self.state = State::Failed(failure),
                Poll::Ready(None) => {}
            }
        }
        // Move bytes over the memory limit to the file, even if no more are received.
        let _ = self.buffer.poll_room(cx);
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
            self.exchange.info().log_failure(failure);
        }
        Poll::Ready(piece.map(|piece| piece.map(BodyPiece::Data).map_err(Into::into)))
    }

    fn poll_blocked(&mut self, cx: &mut Context<'_>, _now: Instant) -> Poll<()> {
        self.read_ahead(cx);
        Poll::Pending
    }

    #[expect(clippy::misnamed_getters, reason = "the length of the rest of the body")]
    fn length(&self) -> Option<u64> {
        self.left
    }
}
