//! The lifecycle of one request: the handler runs, and its response is sent.

use std::any::Any;
use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode, header};
use http_body::Body as _;
use rudy_fastcgi::record::{Kind, encode_stream, encode_stream_end};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::context::{AbortSignal, Log};
use crate::shared::{RequestKey, Shared};
use crate::{Body, Handler};

/// A request that waits for a permit to run.
pub(super) struct Exchange {
    pub(super) connection: Arc<Shared>,
    pub(super) key: RequestKey,
    pub(super) request: http::Request<Body>,
    pub(super) aborted: AbortSignal,
    pub(super) log: Log,
}

/// The outcome of a request.
enum Outcome {
    /// The whole response was sent.
    Complete,
    /// The response ended early.
    Truncated,
    /// The web server cancelled the request.
    Aborted,
}

/// Size of the output that is gathered before a write, so that a small response needs a single write.
const WRITE_BYTES: usize = 32 * 1024;

/// The exit status of a failed CGI program.
const FAILED: u32 = 1;

impl Exchange {
    /// Waits for a permit. Returns `None` if the request is cancelled first.
    pub(super) async fn wait(&mut self, permits: Arc<Semaphore>) -> Option<OwnedSemaphorePermit> {
        let mut aborted = self.aborted.clone();
        tokio::select! {
            biased;
            () = aborted.wait() => None,
            // The semaphore is never closed.
            permit = permits.acquire_owned() => permit.ok(),
        }
    }

    /// Marks the request as running.
    pub(super) fn begin(&self) {
        self.connection.begin(&self.key);
    }

    /// Runs the handler and sends its response. Drops the handler if the request is cancelled. A write in progress is
    /// still completed, because half a record would corrupt the connection.
    pub(super) async fn run<H: Handler>(self, handler: &H) {
        let Self { connection, key, request, aborted, log } = self;
        let is_head = request.method() == Method::HEAD;
        let mut sender =
            Sender { connection: &connection, key, aborted, log, out: BytesMut::new(), has_log: false };
        // Call the handler inside the future, where panics are caught.
        let outcome = match sender.drive(pin!(async { handler.call(request).await })).await {
            Some(Ok(response)) => sender.send_response(response, is_head).await,
            Some(Err(panic)) => {
                sender.write_log(&format!("the handler panicked: {}", message(&*panic)));
                sender.send_response(internal_error(), is_head).await
            }
            None => Outcome::Aborted,
        };
        sender.end(outcome).await;
    }

    /// Ends a request that was cancelled before it got a permit.
    pub(super) async fn abort(self) {
        let Self { connection, key, aborted, log, .. } = self;
        let mut sender =
            Sender { connection: &connection, key, aborted, log, out: BytesMut::new(), has_log: false };
        sender.end(Outcome::Aborted).await;
    }

    /// Responds with 400 to a request with invalid parameters.
    pub(super) async fn reject(self, why: &str) {
        let Self { connection, key, aborted, log, .. } = self;
        let mut sender =
            Sender { connection: &connection, key, aborted, log, out: BytesMut::new(), has_log: false };
        sender.write_log(why);
        let mut response = Response::new(Body::from(format!("{why}\n")));
        *response.status_mut() = StatusCode::BAD_REQUEST;
        let outcome = sender.send_response(response, false).await;
        sender.end(outcome).await;
    }
}

/// The sending side of one request.
struct Sender<'a> {
    connection: &'a Shared,
    key: RequestKey,
    aborted: AbortSignal,
    log: Log,
    /// Complete records that are not written yet.
    out: BytesMut,
    /// Whether log output was sent, whose stream then has to be ended.
    has_log: bool,
}

type Panic = Box<dyn Any + Send>;

impl Sender<'_> {
    /// Polls `future` to completion while sending its log output. Returns `None` if the request is cancelled.
    async fn drive<F: Future>(&mut self, mut future: Pin<&mut F>) -> Option<Result<F::Output, Panic>> {
        loop {
            let (mut aborted, log) = (self.aborted.clone(), self.log.clone());
            tokio::select! {
                biased;
                () = aborted.wait() => return None,
                output = std::future::poll_fn(|context| poll_caught(future.as_mut(), context)) => return Some(output),
                () = log.wait_for_output() => {}
            }
            self.flush().await;
        }
    }

    async fn send_response<B>(&mut self, response: Response<B>, is_head: bool) -> Outcome
    where
        B: http_body::Body<Error: std::fmt::Display>,
    {
        let (mut head, body) = response.into_parts();
        let mut body = pin!(body);
        let has_none = matches!(head.status.as_u16(), 100..=199 | 204 | 304);
        if let Some(length) = body.size_hint().exact().filter(|_| !has_none) {
            head.headers.entry(header::CONTENT_LENGTH).or_insert_with(|| HeaderValue::from(length));
        }
        let id = self.key.id();
        encode_stream(Kind::Stdout, id, &encode_head(head.status, &head.headers), &mut self.out);
        if is_head || has_none {
            return Outcome::Complete;
        }
        loop {
            // Gather frames that are ready into one write.
            let ready = std::future::poll_fn(|context| {
                let next = std::future::poll_fn(|context| body.as_mut().poll_frame(context));
                Poll::Ready(poll_caught(pin!(next), context))
            });
            let frame = match ready.await {
                Poll::Ready(frame) => frame,
                Poll::Pending => {
                    self.flush().await;
                    let next = std::future::poll_fn(|context| body.as_mut().poll_frame(context));
                    match self.drive(pin!(next)).await {
                        Some(frame) => frame,
                        None => return Outcome::Aborted,
                    }
                }
            };
            match frame {
                Ok(None) => return Outcome::Complete,
                // Ignore trailers, which CGI does not have.
                Ok(Some(Ok(frame))) => {
                    if let Ok(mut data) = frame.into_data() {
                        self.push(&mut data).await;
                    }
                }
                Ok(Some(Err(error))) => {
                    self.write_log(&format!("the response was truncated: {error}"));
                    return Outcome::Truncated;
                }
                Err(panic) => {
                    self.write_log(&format!("the response was truncated by a panic: {}", message(&*panic)));
                    return Outcome::Truncated;
                }
            }
            if self.aborted.is_set() {
                return Outcome::Aborted;
            }
        }
    }

    /// Sends a piece of the response, in portions between which other requests can write.
    async fn push(&mut self, data: &mut impl Buf) {
        while data.has_remaining() {
            let portion = data.chunk();
            let portion = &portion[..portion.len().min(WRITE_BYTES)];
            encode_stream(Kind::Stdout, self.key.id(), portion, &mut self.out);
            let length = portion.len();
            data.advance(length);
            if self.out.len() >= WRITE_BYTES {
                self.flush().await;
            }
        }
    }

    async fn end(&mut self, outcome: Outcome) {
        let id = self.key.id();
        let app_status = match outcome {
            Outcome::Complete => 0,
            Outcome::Truncated | Outcome::Aborted => FAILED,
        };
        self.take_log();
        if self.has_log {
            encode_stream_end(Kind::Stderr, id, &mut self.out);
        }
        if !matches!(outcome, Outcome::Aborted) {
            encode_stream_end(Kind::Stdout, id, &mut self.out);
        }
        self.connection.end(&self.key, app_status, &mut self.out).await;
    }

    /// Writes a line to the log of the request.
    fn write_log(&mut self, line: &str) {
        // `Log` never fails.
        let _ = writeln!(self.log, "{line}");
    }

    fn take_log(&mut self) {
        let output = self.log.take();
        self.has_log |= !output.is_empty();
        encode_stream(Kind::Stderr, self.key.id(), &output, &mut self.out);
    }

    async fn flush(&mut self) {
        self.take_log();
        self.connection.write(&mut self.out).await;
    }
}

/// Polls a future and catches its panic, so that a panic ends only its own request.
fn poll_caught<F: Future>(future: Pin<&mut F>, context: &mut Context<'_>) -> Poll<Result<F::Output, Panic>> {
    match catch_unwind(AssertUnwindSafe(|| future.poll(context))) {
        Ok(poll) => poll.map(Ok),
        Err(panic) => Poll::Ready(Err(panic)),
    }
}

fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("without a message")
}

fn internal_error() -> Response<Body> {
    let mut response = Response::new(Body::from("Internal Server Error\n"));
    *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
    response
}

/// Encodes the head (RFC 3875 §6.3). Always sends a `Status`, because a `Location` without one implies another status.
fn encode_head(status: StatusCode, fields: &HeaderMap) -> Bytes {
    let mut head =
        format!("Status: {} {}\r\n", status.as_u16(), status.canonical_reason().unwrap_or_default())
            .into_bytes();
    for (name, value) in fields {
        head.extend_from_slice(name.as_str().as_bytes());
        head.extend_from_slice(b": ");
        head.extend_from_slice(value.as_bytes());
        head.extend_from_slice(b"\r\n");
    }
    head.extend_from_slice(b"\r\n");
    head.into()
}
