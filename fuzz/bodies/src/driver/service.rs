//! A service that does what the path of a request demands, and records what it sees.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use http::{HeaderMap, HeaderValue, StatusCode};
use http_body::{Body as _, Frame};
use rudy_message::RequestHead;
use rudy_service::{
    Body, Client, ExchangeOutcome, Limits, Observer, Reply, Request, RequestBody, RequestBodyError, Response,
    Service, ServiceSource, send_interim,
};

use super::bodies::{Echo, Pieces};
use super::task::{Kind, Task};

/// What the service has seen of a request.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// How often it was called.
    pub(super) calls: usize,
    /// Whether it reads the body.
    reads: bool,
    /// What it has read of the body.
    pub(super) body: Vec<u8>,
    pub(super) end: Option<Result<Option<HeaderMap>, RequestBodyError>>,
    /// The number of observers, and of those that have finished.
    pub(super) observers: usize,
    pub(super) finished: usize,
    /// How often the service goes on after a pause, without waiting.
    turns: usize,
    waiting: Option<Waker>,
}

/// What was read of the body of a request, and its end if it is complete.
pub(super) type UploadSeen = (Vec<u8>, Option<String>);

#[derive(Debug, Default)]
struct State {
    seen: BTreeMap<usize, Seen>,
    /// The heads of requests, in order.
    heads: Vec<String>,
    rejections: Vec<String>,
    /// Whether nothing pauses any more.
    is_hurried: bool,
    /// The number of steps of handlers and bodies.
    steps: u64,
}

/// What the service has seen, shared with its observers and bodies.
#[derive(Debug, Clone, Default)]
pub(super) struct Log(Arc<Mutex<State>>);

impl Log {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn steps(&self) -> u64 {
        self.state().steps
    }

    /// Records a step of a request, without which a poll of its connection would have done nothing.
    pub(super) fn step(&self, number: usize, change: impl FnOnce(&mut Seen)) {
        let mut state = self.state();
        state.steps += 1;
        change(state.seen.entry(number).or_default());
    }

    /// Calls `read` with what the service has seen of a request.
    pub(super) fn read<R>(&self, number: usize, read: impl FnOnce(&Seen) -> R) -> R {
        read(self.state().seen.entry(number).or_default())
    }

    /// Calls `check` for each request that the service has seen.
    pub(super) fn each(&self, check: impl FnMut((&usize, &Seen))) {
        self.state().seen.iter().for_each(check);
    }

    pub(super) fn heads(&self) -> Vec<String> {
        self.state().heads.clone()
    }

    /// Returns what was read of bodies, by the number of the request.
    pub(super) fn uploads(&self) -> BTreeMap<usize, UploadSeen> {
        let end = |seen: &Seen| Some(describe_end(seen.end.as_ref()?.as_ref().ok()?.as_ref()));
        let upload = |seen: &Seen| (seen.body.clone(), end(seen));
        self.state()
            .seen
            .iter()
            .filter(|(_, seen)| seen.reads)
            .map(|(number, seen)| (*number, upload(seen)))
            .collect()
    }

    pub(super) fn rejections(&self) -> Vec<String> {
        self.state().rejections.clone()
    }

    /// Ready when a request may go on.
    pub(super) fn poll_turn(&self, number: usize, cx: &Context<'_>) -> Poll<()> {
        let mut state = self.state();
        let is_hurried = state.is_hurried;
        let seen = state.seen.entry(number).or_default();
        if !is_hurried && seen.turns == 0 {
            seen.waiting = Some(cx.waker().clone());
            return Poll::Pending;
        }
        seen.turns = seen.turns.saturating_sub(1);
        state.steps += 1;
        Poll::Ready(())
    }

    async fn turn(&self, number: usize) {
        poll_fn(|cx| self.poll_turn(number, cx)).await;
    }

    /// Ends a pause of a request.
    pub(super) fn end_pause(&self, number: usize) {
        let mut state = self.state();
        let seen = state.seen.entry(number).or_default();
        seen.turns += 1;
        let waiting = seen.waiting.take();
        drop(state);
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Ends all pauses.
    pub(super) fn hurry(&self) {
        let mut state = self.state();
        state.is_hurried = true;
        let waiting: Vec<_> = state.seen.values_mut().filter_map(|seen| seen.waiting.take()).collect();
        drop(state);
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Polls the body of a request, and records what comes.
    pub(super) fn poll_frame(
        &self,
        number: usize,
        body: &mut RequestBody,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<bytes::Bytes>, RequestBodyError>>> {
        let polled = Pin::new(body).poll_frame(cx);
        if let Poll::Ready(frame) = &polled {
            self.step(number, |seen| match frame {
                Some(Ok(frame)) => match (frame.data_ref(), frame.trailers_ref()) {
                    (Some(data), _) => seen.body.extend_from_slice(data),
                    (None, trailers) => seen.end = Some(Ok(trailers.cloned())),
                },
                Some(Err(error)) => seen.end = Some(Err(error.clone())),
                None => _ = seen.end.get_or_insert(Ok(None)),
            });
        }
        polled
    }

    /// Reads the body of a request to its end.
    async fn read_body(&self, Task { kind, number, .. }: Task, mut body: RequestBody) {
        self.step(number, |seen| seen.reads = true);
        loop {
            if kind == Kind::SlowReader {
                self.turn(number).await;
            }
            let Some(Ok(_)) = poll_fn(|cx| self.poll_frame(number, &mut body, cx)).await else { return };
        }
    }
}

/// The trailers that all bodies with trailers have.
pub(super) fn trailers() -> HeaderMap {
    [(http::HeaderName::from_static("x-end"), HeaderValue::from_static("yes"))].into_iter().collect()
}

/// The service of a connection, and its source.
pub(super) struct Toy {
    pub(super) log: Log,
    pub(super) limits: Arc<Limits>,
}

impl Toy {
    fn reply(&self, task: Task, body: RequestBody) -> Reply {
        let (log, number) = (self.log.clone(), task.number);
        let bytes = move || Self::respond(Body::Bytes(task.body(0..task.bytes)));
        let body = match task.kind {
            Kind::Bytes => return bytes().into(),
            Kind::File => Body::File(task.file()),
            Kind::Stream | Kind::Sized | Kind::Failing => Body::Stream(Box::new(Pieces::new(task, log))),
            Kind::Echo => Body::Stream(Box::new(Echo { number, body, log })),
            Kind::Silence => Body::Silence,
            Kind::Waiting => {
                return Reply::Later(Box::pin(async move {
                    log.turn(number).await;
                    bytes()
                }));
            }
            Kind::Reader | Kind::SlowReader => {
                return Reply::Later(Box::pin(async move {
                    log.read_body(task, body).await;
                    bytes()
                }));
            }
            Kind::Interim => {
                return Reply::Later(Box::pin(async move {
                    for _ in 0..2 {
                        // Fails while the client does not read.
                        let _ = send_interim(StatusCode::EARLY_HINTS, trailers());
                        log.turn(number).await;
                    }
                    bytes()
                }));
            }
        };
        Self::respond(body).into()
    }

    fn respond(body: Body) -> Response {
        Response { body, ..Response::new(StatusCode::OK) }
    }
}

impl Service for Toy {
    fn observe(&self, head: &RequestHead<'_>, _: &Client<'_>) -> Option<Arc<dyn Observer>> {
        let number = Task::of_path(head.path()).map_or(usize::MAX, |task| task.number);
        self.log.step(number, |seen| seen.observers += 1);
        Some(Arc::new(Finished { number, log: self.log.clone() }))
    }

    fn call(&self, request: Request, _: &Client<'_>) -> Reply {
        let task = Task::of_path(request.path());
        self.log.state().heads.push(describe(&request));
        let Some(task) = task else {
            // What an arbitrary client sends: each body is read, so that all of it is seen.
            let task = Task { kind: Kind::Reader, bytes: 0, number: self.log.state().heads.len() };
            return if request.body().is_end_stream() {
                Self::respond(Body::Empty).into()
            } else {
                self.reply(task, request.into_body())
            };
        };
        self.log.step(task.number, |seen| seen.calls += 1);
        self.reply(task, request.into_body())
    }

    fn limits(&self) -> &Arc<Limits> {
        &self.limits
    }

    fn rejected(&self, _: &Client<'_>, reason: &str, _: &ExchangeOutcome) {
        self.log.state().rejections.push(reason.to_owned());
    }
}

/// Describes a head, as far as two receivers of the same bytes must agree.
pub(super) fn describe(request: &Request<'_>) -> String {
    let fields: Vec<_> = request
        .fields()
        .map(|(name, value)| format!("{}: {}", name.escape_ascii(), value.escape_ascii()))
        .collect();
    format!("{} {} {fields:?}", request.method(), request.path_and_query().escape_ascii())
}

/// Describes the end of a body.
pub(super) fn describe_end(trailers: Option<&HeaderMap>) -> String {
    format!("{trailers:?}")
}

#[derive(Debug)]
struct Finished {
    number: usize,
    log: Log,
}

impl Observer for Finished {
    fn finished(&self, _: &ExchangeOutcome) {
        self.log.step(self.number, |seen| seen.finished += 1);
    }
}

/// The source of a service.
pub(super) struct Source(pub(super) Arc<Toy>);

impl ServiceSource for Source {
    type Service = Toy;
    type Current = Arc<Toy>;

    fn current(&self) -> Arc<Toy> {
        self.0.clone()
    }
}
