//! One request, from its parameters to its end: the handler runs, and what it answers is sent.

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

use crate::connection::{Shared, Ticket};
use crate::context::{AbortSignal, Log};
use crate::{Body, Handler};

/// A request that waits for its turn.
pub(super) struct Exchange {
    pub(super) connection: Arc<Shared>,
    pub(super) ticket: Ticket,
    pub(super) request: http::Request<Body>,
    pub(super) aborted: AbortSignal,
    pub(super) log: Log,
}

/// What a request has come to.
enum Outcome {
    /// The whole answer was sent.
    Answered,
    /// What was sent of an answer is not whole.
    Cut,
    /// Nobody wants it any more.
    Aborted,
}

/// What is gathered before it is written: a small answer goes out at once.
const WRITE_BYTES: usize = 32 * 1024;

/// What a CGI program exits with that has failed.
const FAILED: u32 = 1;

impl Exchange {
    /// Waits for its turn, unless the request is given up before.
    pub(super) async fn wait(&mut self, turns: Arc<Semaphore>) -> Option<OwnedSemaphorePermit> {
        let mut aborted = self.aborted.clone();
        tokio::select! {
            biased;
            () = aborted.wait() => None,
            // Nobody closes it.
            turn = turns.acquire_owned() => turn.ok(),
        }
    }

    /// It has its turn.
    pub(super) fn begin(&self) {
        self.connection.begin(&self.ticket);
    }

    /// Has the handler answer. The handler is dropped where the request is given up; what is being written then is written to
    /// its end, because half a record would spoil the connection.
    pub(super) async fn run<H: Handler>(self, handler: &H) {
        let Self { connection, ticket, request, aborted, log } = self;
        let is_head = request.method() == Method::HEAD;
        let mut sender =
            Sender { connection: &connection, ticket, aborted, log, out: BytesMut::new(), said: false };
        // The handler is called where its panic is caught.
        let outcome = match sender.drive(pin!(async { handler.call(request).await })).await {
            Some(Ok(response)) => sender.answer(response, is_head).await,
            Some(Err(panic)) => {
                sender.tell(&format!("the handler panicked: {}", message(&*panic)));
                sender.answer(failure(), is_head).await
            }
            None => Outcome::Aborted,
        };
        sender.end(outcome).await;
    }

    /// Ends a request that was given up before its turn.
    pub(super) async fn give_up(self) {
        let Self { connection, ticket, aborted, log, .. } = self;
        let mut sender =
            Sender { connection: &connection, ticket, aborted, log, out: BytesMut::new(), said: false };
        sender.end(Outcome::Aborted).await;
    }

    /// Answers a request that none could be made of.
    pub(super) async fn refuse(self, why: &str) {
        let Self { connection, ticket, aborted, log, .. } = self;
        let mut sender =
            Sender { connection: &connection, ticket, aborted, log, out: BytesMut::new(), said: false };
        sender.tell(why);
        let mut response = Response::new(Body::from(format!("{why}\n")));
        *response.status_mut() = StatusCode::BAD_REQUEST;
        let outcome = sender.answer(response, false).await;
        sender.end(outcome).await;
    }
}

/// The sending side of one request.
struct Sender<'a> {
    connection: &'a Shared,
    ticket: Ticket,
    aborted: AbortSignal,
    log: Log,
    /// Whole records that are not written yet.
    out: BytesMut,
    /// Something was said for the log, so its stream has to be ended.
    said: bool,
}

type Panic = Box<dyn Any + Send>;

impl Sender<'_> {
    /// Polls `future` to its end, and sends meanwhile what it says for the log. `None` when the request is given up.
    async fn drive<F: Future>(&mut self, mut future: Pin<&mut F>) -> Option<Result<F::Output, Panic>> {
        loop {
            let (mut aborted, log) = (self.aborted.clone(), self.log.clone());
            tokio::select! {
                biased;
                () = aborted.wait() => return None,
                output = std::future::poll_fn(|context| poll_caught(future.as_mut(), context)) => return Some(output),
                () = log.news() => {}
            }
            self.flush().await;
        }
    }

    async fn answer<B>(&mut self, response: Response<B>, is_head: bool) -> Outcome
    where
        B: http_body::Body<Error: std::fmt::Display>,
    {
        let (mut head, body) = response.into_parts();
        let mut body = pin!(body);
        let has_none = matches!(head.status.as_u16(), 100..=199 | 204 | 304);
        if let Some(length) = body.size_hint().exact().filter(|_| !has_none) {
            head.headers.entry(header::CONTENT_LENGTH).or_insert_with(|| HeaderValue::from(length));
        }
        let id = self.ticket.id();
        encode_stream(Kind::Stdout, id, &encode_head(head.status, &head.headers), &mut self.out);
        if is_head || has_none {
            return Outcome::Answered;
        }
        loop {
            // What is there already goes into the same write.
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
                Ok(None) => return Outcome::Answered,
                // CGI has no trailers.
                Ok(Some(Ok(frame))) => {
                    if let Ok(mut data) = frame.into_data() {
                        self.push(&mut data).await;
                    }
                }
                Ok(Some(Err(error))) => {
                    self.tell(&format!("the answer was cut off: {error}"));
                    return Outcome::Cut;
                }
                Err(panic) => {
                    self.tell(&format!("the answer was cut off by a panic: {}", message(&*panic)));
                    return Outcome::Cut;
                }
            }
            if self.aborted.is_set() {
                return Outcome::Aborted;
            }
        }
    }

    /// Sends a piece of the answer, in portions between which other requests have their turn.
    async fn push(&mut self, data: &mut impl Buf) {
        while data.has_remaining() {
            let portion = data.chunk();
            let portion = &portion[..portion.len().min(WRITE_BYTES)];
            encode_stream(Kind::Stdout, self.ticket.id(), portion, &mut self.out);
            let length = portion.len();
            data.advance(length);
            if self.out.len() >= WRITE_BYTES {
                self.flush().await;
            }
        }
    }

    async fn end(&mut self, outcome: Outcome) {
        let id = self.ticket.id();
        let app_status = match outcome {
            Outcome::Answered => 0,
            Outcome::Cut | Outcome::Aborted => FAILED,
        };
        self.take_log();
        if self.said {
            encode_stream_end(Kind::Stderr, id, &mut self.out);
        }
        if !matches!(outcome, Outcome::Aborted) {
            encode_stream_end(Kind::Stdout, id, &mut self.out);
        }
        self.connection.end(&self.ticket, app_status, &mut self.out).await;
    }

    /// Says something for the log.
    fn tell(&mut self, line: &str) {
        // It never fails.
        let _ = writeln!(self.log, "{line}");
    }

    fn take_log(&mut self) {
        let said = self.log.take();
        self.said |= !said.is_empty();
        encode_stream(Kind::Stderr, self.ticket.id(), &said, &mut self.out);
    }

    async fn flush(&mut self) {
        self.take_log();
        self.connection.write(&mut self.out).await;
    }
}

/// A panic concerns its request alone.
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

fn failure() -> Response<Body> {
    let mut response = Response::new(Body::from("Internal Server Error\n"));
    *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
    response
}

/// RFC 3875 §6.3. The status is always said: without it a `Location` would make one.
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
