//! From what an app sends to the response for the client.

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

/// The head of a response, of which the body follows.
pub(super) struct Begun {
    pub(super) head: Head,
    exchange: Box<Exchange>,
}

impl Begun {
    pub(super) fn new(head: Head, exchange: Box<Exchange>) -> Self {
        Self { head, exchange }
    }

    /// Passes over the body, which is not sent.
    pub(super) fn discard(self) -> Head {
        self.exchange.skip();
        self.head
    }

    /// Passes over the body, `most` bytes of it, to the end that the app itself has to set, with the application status of
    /// success.
    pub(super) async fn end(mut self, most: usize) -> Result<(), Failure> {
        let mut passed = 0;
        while passed <= most {
            match poll_fn(|cx| self.exchange.poll_piece(cx)).await {
                Some(piece) => passed += piece?.len(),
                None => {
                    return match self.exchange.app_status() {
                        Some(0) => Ok(()),
                        Some(app_status) => Err(Failure::AppStatus(app_status)),
                        None => Err(Failure::Unended),
                    };
                }
            }
        }
        Err(Failure::Verbose(most))
    }

    /// The response for a client. What the client takes more slowly than the app sends it goes to `buffers`, up to `limit` bytes
    /// of it in a file.
    ///
    /// # Errors
    ///
    /// The app has failed before a byte of the body was there.
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
        let is_off =
            head.has_instructions && fields.remove(&ACCEL_BUFFERING).is_some_and(|value| is_no(&value));
        if head.content_length.is_some() {
            // Says how many bytes come; the connection sends it again.
            fields.remove(header::CONTENT_LENGTH);
        }
        let mut response = Response::new(status);
        *response.headers_mut() = fields;
        // Of such a response only the head is sent (RFC 9110 §9.3.2, §15.3.5, §15.4.5).
        if *method == Method::HEAD || matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED) {
            // A live one does not end soon.
            if !is_off && !is_of_events(response.headers()) {
                exchange.skip();
            }
            response.body = Body::Stream(Box::new(Unsent { length: head.content_length }));
            return Ok(response);
        }
        response.body = body(exchange, head.content_length, || {
            let is_live = is_off || is_of_events(response.headers());
            Buffer::new(buffers, Some(if is_live { 0 } else { limit }))
        })?;
        Ok(response)
    }
}

/// The body of `length` bytes, if the app has said how many. What has come already may be all there is, or why there is no
/// more: then nothing of it is sent.
fn body(
    mut exchange: Box<Exchange>,
    length: Option<u64>,
    buffer: impl FnOnce() -> Buffer,
) -> Result<Body, Failure> {
    let first = match exchange.poll_piece(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(Some(piece)) => piece?,
        Poll::Ready(None) | Poll::Pending => Bytes::new(),
    };
    if !exchange.is_over() || length.is_some_and(|length| length != first.len() as u64) {
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

/// By which an app says whether its response is stored, as nginx has it. It is not passed on.
static ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

fn is_no(value: &HeaderValue) -> bool {
    value.as_bytes().eq_ignore_ascii_case(b"no")
}

/// Whether a response is made of events, which its client waits for.
fn is_of_events(fields: &HeaderMap) -> bool {
    let events = b"text/event-stream";
    let start = fields.get(header::CONTENT_TYPE).and_then(|value| value.as_bytes().get(..events.len()));
    start.is_some_and(|start| start.eq_ignore_ascii_case(events))
}

/// A body that is not sent, and whose length may be told.
struct Unsent {
    length: Option<u64>,
}

impl BodyStream for Unsent {
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

/// The body of a response, as it comes.
struct ResponseBody {
    /// What came with the head.
    first: Bytes,
    /// What was read ahead.
    buffer: Buffer,
    exchange: Box<Exchange>,
    state: State,
    /// What is still to come, where the app has said how much.
    left: Option<u64>,
    length: Option<u64>,
}

/// Whether more of a body comes from the app.
enum State {
    Open,
    /// The app has failed behind what is in the buffer.
    Failed(Failure),
    /// All of it has come.
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
        let may_go_on = matches!(piece, Poll::Pending | Poll::Ready(Some(Ok(_))));
        self.state = if may_go_on && !self.exchange.is_over() { State::Open } else { State::Over };
        piece
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Failure>>> {
        let piece = ready!(self.poll_source(cx));
        Poll::Ready(match (piece, &mut self.left) {
            (Some(Ok(mut piece)), Some(left)) => {
                if piece.len() as u64 > *left {
                    let said = self.length.unwrap_or(0);
                    self.exchange
                        .info()
                        .log_failure(&Failure::Length { said, came: said + piece.len() as u64 - *left });
                    // Not more than the piece is long, which is a `usize`.
                    piece.truncate(usize::try_from(*left).unwrap_or(usize::MAX));
                }
                *left -= piece.len() as u64;
                Some(Ok(piece)).filter(|piece| piece.as_ref().is_ok_and(|piece| !piece.is_empty()))
            }
            // What was promised has come, so that nothing is cut.
            (Some(Err(failure)), Some(0)) => {
                self.exchange.info().log_failure(&failure);
                None
            }
            (None, Some(left)) if *left > 0 => {
                let said = self.length.unwrap_or(0);
                Some(Err(Failure::Length { said, came: said - *left }))
            }
            (piece, _) => piece,
        })
    }

    /// Reads from the app as long as there is room for it. A failure waits behind what came before it.
    fn read_ahead(&mut self, cx: &mut Context<'_>) {
        while matches!(self.state, State::Open) {
            match self.buffer.poll_room(cx) {
                Poll::Ready(Ok(())) => {}
                // Beyond the limit the app waits for the client.
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
        // What is over the bound goes to the file, though nothing more comes.
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

    #[expect(clippy::misnamed_getters, reason = "the length of what is still to come")]
    fn length(&self) -> Option<u64> {
        self.left
    }
}
