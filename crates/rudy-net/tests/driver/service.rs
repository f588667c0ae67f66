//! A service whose behaviour depends on the path, and an engine that runs it.

#[path = "live_body.rs"]
pub(crate) mod live_body;

use std::collections::VecDeque;
use std::fs::File;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::MetadataExt;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use http_body::Body as _;
use rudy_message::RequestHead;
use rudy_net::engine::Engine;
use rudy_service::{
    Body, BodyError, BodyPiece, BodyStream, Client, Deadline, ExchangeOutcome, FileRange, Limits, Observer,
    Reply, Request, RequestBody, Response, Service,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::Notify;

use crate::support::{engine_of, listen_tcp};

/// State that the tests share with the service.
pub(crate) struct Script {
    limits: Arc<Limits>,
    file: Arc<File>,
    /// Makes `/wait` respond. The service reports when it starts to wait.
    pub(crate) go: Arc<Notify>,
    began: Mutex<Sender<()>>,
    outcomes: Mutex<Sender<ExchangeOutcome>>,
    body_ends: Mutex<Sender<String>>,
    rejections: Mutex<Sender<String>>,
}

/// A running server and its script.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) engine: Box<dyn Engine>,
    pub(crate) go: Arc<Notify>,
    pub(crate) began: Receiver<()>,
    pub(crate) outcomes: Receiver<ExchangeOutcome>,
    pub(crate) rejections: Receiver<String>,
    /// How bodies read by other tasks ended.
    pub(crate) body_ends: Receiver<String>,
    /// The file that `/file` and similar paths send.
    pub(crate) path: tempfile::NamedTempFile,
}

/// Size of the file, larger than the socket buffers of a peer that does not read.
pub(crate) const FILE_BYTES: u64 = 64 * 1024 * 1024;

impl Server {
    pub(crate) fn start(limits: Limits) -> Self {
        Self::start_on(2, limits)
    }

    /// Starts a server with this number of cores.
    pub(crate) fn start_on(cores: usize, limits: Limits) -> Self {
        let path = tempfile::NamedTempFile::new().unwrap();
        path.as_file().set_len(FILE_BYTES).unwrap();
        let (began_sender, began) = channel();
        let (outcome_sender, outcomes) = channel();
        let (rejection_sender, rejections) = channel();
        let (body_end_sender, body_ends) = channel();
        let go = Arc::new(Notify::new());
        let (engine, _) = engine_of(
            cores,
            Script {
                limits: Arc::new(limits),
                file: Arc::new(path.reopen().unwrap()),
                go: go.clone(),
                began: Mutex::new(began_sender),
                outcomes: Mutex::new(outcome_sender),
                rejections: Mutex::new(rejection_sender),
                body_ends: Mutex::new(body_end_sender),
            },
        );
        let address = listen_tcp(&*engine);
        Self { address, engine, go, began, outcomes, rejections, body_ends, path }
    }

    pub(crate) fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).unwrap()
    }

    /// Opens a connection and sends `request`.
    pub(crate) fn send(&self, request: impl AsRef<[u8]>) -> TcpStream {
        let mut stream = self.connect();
        stream.write_all(request.as_ref()).unwrap();
        stream
    }
}

/// Reads to the end or to a reset. Returns the input, and whether the connection ended properly.
pub(crate) fn read_to_close(stream: &mut TcpStream) -> (String, bool) {
    let mut bytes = Vec::new();
    let ended = stream.read_to_end(&mut bytes).is_ok();
    (String::from_utf8_lossy(&bytes).into_owned(), ended)
}

/// Reads until the text has arrived; the peer must keep the connection open.
pub(crate) fn read_until(stream: &mut TcpStream, text: &str) -> String {
    let mut bytes = Vec::new();
    let mut byte = [0];
    while !bytes.ends_with(text.as_bytes()) {
        stream.read_exact(&mut byte).unwrap();
        bytes.push(byte[0]);
    }
    String::from_utf8(bytes).unwrap()
}

impl Service for Script {
    fn observe(&self, _head: &RequestHead<'_>, _client: &Client<'_>) -> Option<Arc<dyn Observer>> {
        Some(Arc::new(SendOutcome(self.outcomes.lock().unwrap().clone())))
    }

    fn call(&self, request: Request, _client: &Client<'_>) -> Reply {
        self.reply(request)
    }

    fn limits(&self) -> &Arc<Limits> {
        &self.limits
    }

    fn rejected(&self, _client: &Client, reason: &str, _outcome: &ExchangeOutcome) {
        let _ = self.rejections.lock().unwrap().send(reason.to_owned());
    }
}

#[derive(Debug)]
struct SendOutcome(Sender<ExchangeOutcome>);

impl Observer for SendOutcome {
    fn finished(&self, outcome: &ExchangeOutcome) {
        let _ = self.0.send(outcome.clone());
    }
}

/// Neither reads a body nor drops it.
async fn hold(_body: RequestBody) -> Response {
    std::future::pending().await
}

impl Script {
    fn reply(&self, request: Request) -> Reply {
        match request.uri().path() {
            "/echo" => Reply::Later(Box::pin(collect(request.into_body()))),
            "/stream-echo" => streamed(Echo(request.into_body())).into(),
            "/fail" => streamed(Pieces([Ok("part"), Err("out of luck")].into())).into(),
            "/pieces" => streamed(Pieces([Ok("one,"), Ok("two,"), Ok("three"), Ok("")].into())).into(),
            "/endless" => streamed(Endless).into(),
            "/silent" => streamed(Silent).into(),
            "/hold" => Reply::Later(Box::pin(hold(request.into_body()))),
            "/silent-after-a-deadline" => silent_after_a_deadline(),
            "/wait" => self.wait(),
            "/file" => self.file_of(FILE_BYTES).into(),
            "/file-that-shrank" => self.file_of(2 * FILE_BYTES).into(),
            "/parts" => self.parts().into(),
            "/large" => Response::text(StatusCode::OK, "text/plain", vec![b'x'; 1 << 20]).into(),
            "/elsewhere" => self.read_elsewhere(request.into_body()).into(),
            "/switch-to-nothing" => Response::new(StatusCode::SWITCHING_PROTOCOLS).into(),
            "/panic-in-body" => streamed(Pieces([Ok("part"), Ok("panic")].into())).into(),
            "/panic" => panic!("on purpose"),
            "/panic-later" => Reply::Later(Box::pin(async { panic!("on purpose, later") })),
            "/upgrade" => upgrade().into(),
            path if path.starts_with("/live") => live_body::respond(path).into(),
            _ => Response::text(StatusCode::OK, "text/plain", "hello").into(),
        }
    }

    /// Responds at once, and reads the body in another task, which reports its end.
    fn read_elsewhere(&self, mut body: RequestBody) -> Response {
        let body_ends = self.body_ends.lock().unwrap().clone();
        tokio::spawn(async move {
            let end = loop {
                match body.next_piece().await {
                    Some(Ok(_)) => {}
                    Some(Err(error)) => break error.to_string(),
                    None => break "the end".to_owned(),
                }
            };
            let _ = body_ends.send(end);
        });
        Response::text(StatusCode::OK, "text/plain", "hello")
    }

    fn wait(&self) -> Reply {
        let go = self.go.clone();
        let began = self.began.lock().unwrap().clone();
        Reply::Later(Box::pin(async move {
            let notified = go.notified();
            let _ = began.send(());
            notified.await;
            Response::text(StatusCode::OK, "text/plain", "waited")
        }))
    }

    fn range(&self, start: u64, length: u64) -> FileRange {
        let stat = self.file.metadata().unwrap();
        let modified_ns = i128::from(stat.mtime()) * 1_000_000_000 + i128::from(stat.mtime_nsec());
        FileRange { file: self.file.clone(), start, length, size: stat.len(), modified_ns }
    }

    fn file_of(&self, length: u64) -> Response {
        let mut response = Response::new(StatusCode::OK);
        response.body = Body::File(self.range(0, length));
        response
    }

    fn parts(&self) -> Response {
        let mut response = Response::new(StatusCode::OK);
        let parts = [
            BodyPiece::Data(Bytes::from_static(b"<")),
            BodyPiece::File(self.range(5, 3)),
            BodyPiece::Data(Bytes::from_static(b">")),
        ];
        response.body = Body::Stream(Box::new(VecDeque::from(parts)));
        response
    }
}

async fn collect(mut body: RequestBody) -> Response {
    let mut all = BytesMut::new();
    while let Some(piece) = body.next_piece().await {
        match piece {
            Ok(piece) => all.extend_from_slice(&piece),
            Err(error) => return Response::text(StatusCode::BAD_REQUEST, "text/plain", error.to_string()),
        }
    }
    Response::text(StatusCode::OK, "text/plain", all.freeze())
}

fn streamed(body: impl BodyStream + 'static) -> Response {
    let mut response = Response::new(StatusCode::OK);
    response.body = Body::Stream(Box::new(body));
    response
}

fn upgrade() -> Response {
    let mut response = Response::new(StatusCode::SWITCHING_PROTOCOLS);
    response.headers_mut().insert(http::header::UPGRADE, HeaderValue::from_static("shout"));
    response.upgrade = Some(Box::new(|mut upgraded| {
        Box::pin(async move {
            let mut line = upgraded.unread.to_vec();
            while !line.ends_with(b"\n") {
                line.push(upgraded.io.read_u8().await.unwrap());
            }
            upgraded.io.write_all(&line.to_ascii_uppercase()).await.unwrap();
        })
    }));
    response
}

/// Returns a request body as the response body.
struct Echo(RequestBody);

impl BodyStream for Echo {
    fn poll_piece(
        &mut self,
        cx: &mut Context<'_>,
        _now: Instant,
        _max: u64,
    ) -> Poll<Option<Result<BodyPiece, BodyError>>> {
        let frame = std::task::ready!(Pin::new(&mut self.0).poll_frame(cx));
        Poll::Ready(frame.map(|frame| {
            Ok(match frame?.into_data() {
                Ok(data) => BodyPiece::Data(data),
                Err(frame) => BodyPiece::Trailers(frame.into_trailers().unwrap()),
            })
        }))
    }

    fn length(&self) -> Option<u64> {
        self.0.size_hint().exact()
    }
}

/// Returns given pieces; an empty one is a trailer.
struct Pieces(VecDeque<Result<&'static str, &'static str>>);

impl BodyStream for Pieces {
    fn poll_piece(
        &mut self,
        _cx: &mut Context<'_>,
        _now: Instant,
        _max: u64,
    ) -> Poll<Option<Result<BodyPiece, BodyError>>> {
        let trailer = (HeaderName::from_static("x-end"), HeaderValue::from_static("yes"));
        Poll::Ready(match self.0.pop_front() {
            Some(Ok("panic")) => panic!("on purpose, in a body"),
            Some(Ok("")) => Some(Ok(BodyPiece::Trailers(HeaderMap::from_iter([trailer])))),
            Some(Ok(piece)) => Some(Ok(BodyPiece::Data(Bytes::from_static(piece.as_bytes())))),
            Some(Err(error)) => Some(Err(error.into())),
            None => None,
        })
    }
}

/// Returns a response with a silent body, whose handler waits for a deadline in the near future.
fn silent_after_a_deadline() -> Reply {
    Reply::Later(Box::pin(async {
        let mut deadline = Deadline::at(Instant::now() + Duration::from_millis(20));
        let mut is_waited_for = false;
        std::future::poll_fn(|cx| {
            // The body may be ready before the deadline.
            let passed = deadline.poll_passed(cx);
            if std::mem::replace(&mut is_waited_for, true) { passed } else { Poll::Ready(()) }
        })
        .await;
        let mut response = Response::new(StatusCode::OK);
        response.body = Body::Stream(Box::new(Counted));
        response
    }))
}

/// A silent body that counts its polls.
struct Counted;

/// Number of polls of all such bodies.
pub(crate) static POLLS: AtomicUsize = AtomicUsize::new(0);

impl BodyStream for Counted {
    fn poll_piece(
        &mut self,
        _cx: &mut Context<'_>,
        _now: Instant,
        _max: u64,
    ) -> Poll<Option<Result<BodyPiece, BodyError>>> {
        POLLS.fetch_add(1, Ordering::Relaxed);
        Poll::Pending
    }
}

/// A body that never has a piece.
struct Silent;

impl BodyStream for Silent {
    fn poll_piece(
        &mut self,
        _cx: &mut Context<'_>,
        _now: Instant,
        _max: u64,
    ) -> Poll<Option<Result<BodyPiece, BodyError>>> {
        Poll::Pending
    }
}

/// An endless body. The socket accepts pieces faster than it creates them.
struct Endless;

impl BodyStream for Endless {
    fn poll_piece(
        &mut self,
        _cx: &mut Context<'_>,
        _now: Instant,
        _max: u64,
    ) -> Poll<Option<Result<BodyPiece, BodyError>>> {
        Poll::Ready(Some(Ok(BodyPiece::Data(live_body::work()))))
    }
}
