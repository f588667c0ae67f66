//! Apps over real sockets, with a test web server that multiplexes.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::{Buf, BytesMut};
use http::{Request, Response, StatusCode};
use rudy_fastcgi::gateway::{Event, GatewayConnection};
use rudy_fastcgi::pairs::ParamsEncoder;
use rudy_fastcgi::record::{
    HEADER_BYTES, Header, Kind, encode_abort, encode_begin, encode_stream, encode_stream_end,
};
use rudy_fastcgi::values::Values;
use rudy_fastcgi::{Limits, ProtocolStatus, RequestId, Role};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{Notify, Semaphore, mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::{Body, BodyError, Concurrency, Handler, Listen, RequestExt, ServeError, Server};

const TASKS: Concurrency = Concurrency::Tasks { at_most: 4 };
const THREADS: Concurrency = Concurrency::Threads { at_most: 4 };

/// Timeout of each wait. Only a failing test waits this long.
const TIMEOUT: Duration = Duration::from_secs(30);

/// An app that runs until a test stops it or ends.
struct App {
    address: std::net::SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    serving: JoinHandle<Result<(), ServeError>>,
}

impl App {
    fn start(concurrency: Concurrency, handler: impl Handler) -> Self {
        Self::serve(Server::new(concurrency), handler)
    }

    fn serve(server: Server, handler: impl Handler) -> Self {
        let listen = "127.0.0.1:0".parse().expect("an address");
        let bound = server.listen(listen).bind().expect("a port is free");
        let Listen::Tcp(address) = bound.address() else { panic!("expected a TCP address") };
        let (stop, stopped) = oneshot::channel();
        let serving = tokio::spawn(bound.serve_until(handler, async move { drop(stopped.await) }));
        Self { address, stop: Some(stop), serving }
    }

    async fn connect(&self) -> Peer {
        Peer {
            socket: TcpStream::connect(self.address).await.expect("the app listens"),
            input: BytesMut::new(),
            responses: BTreeMap::new(),
        }
    }

    /// Stops the app and waits until requests in progress have ended.
    async fn stop(mut self) {
        drop(self.stop.take());
        let served = timeout(TIMEOUT, self.serving).await.expect("the app stops");
        served.expect("the app does not panic").expect("serving succeeds");
    }
}

/// The web server's end of a connection.
struct Peer {
    socket: TcpStream,
    input: BytesMut,
    responses: BTreeMap<RequestId, Received>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Received {
    out: String,
    log: String,
    end: Option<(u32, ProtocolStatus)>,
}

impl Peer {
    async fn send(&mut self, out: &BytesMut) {
        self.socket.write_all(out).await.expect("the app reads");
    }

    /// Sends a request without its body.
    async fn begin(&mut self, role: Role, keep_connection: bool, params: &[(&str, &str)]) -> RequestId {
        let mut out = BytesMut::new();
        let id = self.begin_only(role, keep_connection, &mut out);
        let mut encoder = ParamsEncoder::new(id, &mut out);
        for (name, value) in [("REQUEST_METHOD", "POST")].iter().chain(params) {
            encoder.push(name.as_bytes(), value.as_bytes());
        }
        encoder.finish();
        self.send(&out).await;
        id
    }

    /// Encodes the first record of a request with the lowest free id.
    fn begin_only(&mut self, role: Role, keep_connection: bool, out: &mut BytesMut) -> RequestId {
        let is_free = |id: &RequestId| self.responses.get(id).is_none_or(|response| response.end.is_some());
        let id =
            (1..=u16::MAX).filter_map(RequestId::new).find(is_free).expect("few requests are in progress");
        self.responses.insert(id, Received::default());
        encode_begin(id, role, keep_connection, out);
        id
    }

    async fn abort(&mut self, id: RequestId) {
        let mut out = BytesMut::new();
        encode_abort(id, &mut out);
        self.send(&out).await;
    }

    async fn body(&mut self, id: RequestId, body: &[u8]) {
        let mut out = BytesMut::new();
        encode_stream(Kind::Stdin, id, body, &mut out);
        self.send(&out).await;
    }

    async fn finish(&mut self, id: RequestId) {
        let mut out = BytesMut::new();
        encode_stream_end(Kind::Stdin, id, &mut out);
        self.send(&out).await;
    }

    /// Sends a complete request and receives its response.
    async fn request(&mut self, path: &str) -> Received {
        let id = self.begin(Role::Responder, true, &[("REQUEST_URI", path)]).await;
        self.finish(id).await;
        self.end(id).await
    }

    /// Reads until `is_done` returns true.
    async fn read_until(&mut self, is_done: impl Fn(&Self) -> bool) {
        while !is_done(self) {
            assert!(self.read().await, "the app closed the connection: {:?}", self.responses);
        }
    }

    /// Reads input. Returns `false` at the end of input.
    async fn read(&mut self) -> bool {
        let read = timeout(TIMEOUT, self.socket.read_buf(&mut self.input)).await.expect("input arrives");
        if read.expect("the connection is not reset") == 0 {
            return false;
        }
        while let Some((header, content)) = split_record(&mut self.input) {
            self.handle_record(header, &content);
        }
        true
    }

    fn handle_record(&mut self, header: Header, content: &[u8]) {
        let id = header.id.expect("the record has a request id");
        let response = self.responses.get_mut(&id).expect("the request is in progress");
        match (header.kind, content) {
            (Kind::Stdout, data) => response.out += &String::from_utf8_lossy(data),
            (Kind::Stderr, data) => response.log += &String::from_utf8_lossy(data),
            (Kind::EndRequest, &[a, b, c, d, status, ..]) => {
                let status = ProtocolStatus::from_number(status).expect("a known status");
                response.end = Some((u32::from_be_bytes([a, b, c, d]), status));
            }
            other => panic!("an app does not send {other:?}"),
        }
    }

    /// Waits for the end of a request.
    async fn end(&mut self, id: RequestId) -> Received {
        self.read_until(|peer| peer.responses[&id].end.is_some()).await;
        self.responses.remove(&id).expect("the request is in progress")
    }
}

/// Splits the first record off, without its padding, once it is complete.
fn split_record(input: &mut BytesMut) -> Option<(Header, BytesMut)> {
    let header = Header::decode(*input.first_chunk()?).expect("a record");
    let content_bytes = usize::from(header.content_bytes);
    let length = HEADER_BYTES + content_bytes + usize::from(header.padding_bytes);
    let mut record = (input.len() >= length).then(|| input.split_to(length))?;
    record.advance(HEADER_BYTES);
    record.truncate(content_bytes);
    Some((header, record))
}

const COMPLETE: Option<(u32, ProtocolStatus)> = Some((0, ProtocolStatus::RequestComplete));
const FAILED: Option<(u32, ProtocolStatus)> = Some((1, ProtocolStatus::RequestComplete));

async fn echo(request: Request<Body>) -> Response<Body> {
    Response::new(request.into_body())
}

async fn path(request: Request<Body>) -> Response<String> {
    Response::new(request.uri().path().to_owned())
}

/// Runs each test with both kinds of concurrency.
macro_rules! on_tasks_and_threads {
    ($($name:ident)*) => {
        mod on_tasks { $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)] async fn $name() { super::$name(super::TASKS).await })* }
        mod on_threads { $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)] async fn $name() { super::$name(super::THREADS).await })* }
    };
}

on_tasks_and_threads! {
    a_connection_serves_several_requests
    bodies_are_streamed_in_both_directions
    a_panic_returns_500_and_does_not_affect_other_requests
    an_abort_drops_the_handler_and_sets_the_signal
    a_closed_connection_is_an_abort
    requests_share_a_connection
    a_short_response_does_not_wait_for_a_long_one
    log_output_is_sent_while_the_handler_waits
}

async fn a_connection_serves_several_requests(concurrency: Concurrency) {
    let app = App::start(concurrency, path);
    let mut peer = app.connect().await;
    for round in 0..3 {
        let response = peer.request(&format!("/{round}")).await;
        assert_eq!(response.out, format!("Status: 200 OK\r\ncontent-length: 2\r\n\r\n/{round}"));
        assert_eq!((response.log.as_str(), response.end), ("", COMPLETE));
    }
    app.stop().await;
}

async fn bodies_are_streamed_in_both_directions(concurrency: Concurrency) {
    let app = App::start(concurrency, echo);
    let mut peer = app.connect().await;
    let id = peer.begin(Role::Responder, true, &[]).await;
    // Each piece is echoed before the next one is sent.
    for round in 1..=3 {
        peer.body(id, b"piece ").await;
        peer.read_until(|peer| peer.responses[&id].out.matches("piece").count() == round).await;
    }
    peer.finish(id).await;
    assert_eq!(peer.end(id).await.out, "Status: 200 OK\r\n\r\npiece piece piece ");
    app.stop().await;
}

async fn a_panic_returns_500_and_does_not_affect_other_requests(concurrency: Concurrency) {
    let app = App::start(concurrency, |request: Request<Body>| async move {
        assert!(request.uri().path() != "/bad", "it was bad");
        Response::new(String::new())
    });
    let mut peer = app.connect().await;
    let response = peer.request("/bad").await;
    assert!(response.out.starts_with("Status: 500 "), "{response:?}");
    assert_eq!((response.log.as_str(), response.end), ("the handler panicked: it was bad\n", COMPLETE));
    assert!(peer.request("/good").await.out.starts_with("Status: 200 "));
    app.stop().await;
}

/// A handler that never responds. It sends an event when it is dropped, and a task that it spawns sends one at the abort.
fn never_responds(events: &mpsc::UnboundedSender<&'static str>) -> impl Handler + use<> {
    struct NotifyOnDrop(mpsc::UnboundedSender<&'static str>);
    impl Drop for NotifyOnDrop {
        fn drop(&mut self) {
            let _ = self.0.send("dropped");
        }
    }
    let events = events.clone();
    move |request: Request<Body>| {
        let (on_drop, events) = (NotifyOnDrop(events.clone()), events.clone());
        async move {
            let _on_drop = on_drop;
            let mut aborted = request.abort_signal();
            assert!(!aborted.is_set());
            let _ = events.send("started");
            tokio::spawn(async move {
                aborted.wait().await;
                let _ = events.send("aborted");
            });
            std::future::pending::<Response<String>>().await
        }
    }
}

async fn expect_abort(events: &mut mpsc::UnboundedReceiver<&'static str>) {
    let mut both = [(); 2].map(|()| "");
    for one in &mut both {
        *one = timeout(TIMEOUT, events.recv()).await.expect("an event arrives").expect("the sender is alive");
    }
    both.sort_unstable();
    assert_eq!(both, ["aborted", "dropped"]);
}

async fn an_abort_drops_the_handler_and_sets_the_signal(concurrency: Concurrency) {
    let (sender, mut events) = mpsc::unbounded_channel();
    let app = App::start(concurrency, never_responds(&sender));
    let mut peer = app.connect().await;
    let id = peer.begin(Role::Responder, true, &[]).await;
    assert_eq!(events.recv().await, Some("started"));
    peer.abort(id).await;
    expect_abort(&mut events).await;
    assert_eq!(peer.end(id).await, Received { end: FAILED, ..Received::default() });
    app.stop().await;
}

async fn a_closed_connection_is_an_abort(concurrency: Concurrency) {
    let (sender, mut events) = mpsc::unbounded_channel();
    let app = App::start(concurrency, never_responds(&sender));
    let mut peer = app.connect().await;
    peer.begin(Role::Responder, true, &[]).await;
    assert_eq!(events.recv().await, Some("started"));
    drop(peer);
    expect_abort(&mut events).await;
    app.stop().await;
}

async fn requests_share_a_connection(concurrency: Concurrency) {
    let gate = Arc::new(Notify::new());
    let open_gate = gate.clone();
    let app = App::start(concurrency, move |request: Request<Body>| {
        let gate = gate.clone();
        async move {
            if request.uri().path() == "/waits" {
                gate.notified().await;
            }
            Response::new("done".to_owned())
        }
    });
    let mut peer = app.connect().await;
    let first = peer.begin(Role::Responder, true, &[("REQUEST_URI", "/waits")]).await;
    let second = peer.begin(Role::Responder, true, &[("REQUEST_URI", "/")]).await;
    assert_eq!(peer.end(second).await.end, COMPLETE);
    assert_eq!(peer.responses[&first], Received::default());
    open_gate.notify_one();
    assert!(peer.end(first).await.out.ends_with("done"));
    app.stop().await;
}

async fn a_short_response_does_not_wait_for_a_long_one(concurrency: Concurrency) {
    let app = App::start(concurrency, |request: Request<Body>| async move {
        let (mut sender, body) = Body::channel();
        let is_long = request.uri().path() == "/long";
        tokio::spawn(async move {
            while is_long && sender.send(vec![b'x'; 100_000]).await.is_ok() {}
            let _ = sender.finish().await;
        });
        Response::new(body)
    });
    let mut peer = app.connect().await;
    let long = peer.begin(Role::Responder, true, &[("REQUEST_URI", "/long")]).await;
    peer.read_until(|peer| peer.responses[&long].out.len() > 1_000_000).await;
    assert_eq!(peer.request("/short").await.out, "Status: 200 OK\r\n\r\n");
    peer.abort(long).await;
    assert_eq!(peer.end(long).await.end, FAILED);
    app.stop().await;
}

async fn log_output_is_sent_while_the_handler_waits(concurrency: Concurrency) {
    let app = App::start(concurrency, |request: Request<Body>| async move {
        let mut log = request.log();
        writeln!(log, "started").expect("the log never fails");
        let body = request.into_body().collect(10).await;
        writeln!(log, "{body:?}").expect("the log never fails");
        Response::new(String::new())
    });
    let mut peer = app.connect().await;
    let id = peer.begin(Role::Responder, true, &[]).await;
    peer.read_until(|peer| peer.responses[&id].log == "started\n").await;
    peer.body(id, b"0123456789a").await;
    let response = peer.end(id).await;
    assert_eq!(response.log, "started\nErr(TooLarge { limit: 10 })\n");
    app.stop().await;
}

#[tokio::test]
async fn the_limit_of_concurrent_requests_holds_and_all_requests_run() {
    for concurrency in [Concurrency::Tasks { at_most: 3 }, Concurrency::Threads { at_most: 3 }] {
        let (running, peak) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (counted, highest) = (running.clone(), peak.clone());
        let app = App::start(concurrency, move |_: Request<Body>| {
            let (counted, highest) = (counted.clone(), highest.clone());
            async move {
                highest.fetch_max(counted.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                tokio::task::yield_now().await;
                counted.fetch_sub(1, Ordering::SeqCst);
                Response::new(String::new())
            }
        });
        let (mut one, mut other) = (app.connect().await, app.connect().await);
        for peer in [&mut one, &mut other] {
            for _ in 0..20 {
                let id = peer.begin(Role::Responder, true, &[]).await;
                peer.finish(id).await;
            }
        }
        for peer in [&mut one, &mut other] {
            peer.read_until(|peer| peer.responses.values().all(|response| response.end == COMPLETE)).await;
        }
        assert!(peak.load(Ordering::SeqCst) <= 3);
        app.stop().await;
    }
}

#[tokio::test]
async fn the_limit_of_requests_per_connection_follows_concurrency_or_is_configured() {
    let (wide, other) = (Server::new(Concurrency::Tasks { at_most: 300 }), Server::new(TASKS));
    let narrow = Limits { open_requests: 1, ..Limits::default() };
    for (server, accepted, status) in [
        (wide, 300, ProtocolStatus::Overloaded),
        (other.clone(), 128, ProtocolStatus::Overloaded),
        (other.limits(narrow), 1, ProtocolStatus::CannotMultiplex),
    ] {
        let app = App::serve(server, echo);
        let mut peer = app.connect().await;
        let mut out = BytesMut::new();
        for _ in 0..=accepted {
            peer.begin_only(Role::Responder, true, &mut out);
        }
        peer.send(&out).await;
        let last = RequestId::new(accepted + 1).expect("not zero");
        assert_eq!(peer.end(last).await.end, Some((0, status)));
        assert!(
            peer.responses.values().all(|response| response.end.is_none()),
            "other requests were rejected"
        );
        drop(peer);
        app.stop().await;
    }
}

#[tokio::test]
async fn a_connection_with_many_rejected_requests_serves_the_open_one_and_closes() {
    let narrow = Limits { open_requests: 1, ..Limits::default() };
    let app = App::serve(Server::new(TASKS).limits(narrow), echo);
    let mut peer = app.connect().await;
    let running = peer.begin(Role::Responder, true, &[]).await;
    for _ in 0..1000 {
        let rejected = peer.begin(Role::Responder, false, &[]).await;
        let response = peer.end(rejected).await;
        assert_eq!(response.end, Some((0, ProtocolStatus::CannotMultiplex)));
    }
    peer.body(running, b"x").await;
    peer.finish(running).await;
    assert!(peer.end(running).await.out.ends_with('x'));
    // The rejected requests might still send bodies, so the app waits until the web server closes.
    peer.socket.shutdown().await.expect("the socket is connected");
    assert!(!peer.read().await, "the app closes the connection");
    app.stop().await;
}

#[tokio::test]
async fn a_waiting_body_that_blocks_other_requests_is_rejected_and_one_alone_waits() {
    let gate = Arc::new(Semaphore::new(0));
    let open_gate = gate.clone();
    let app = App::start(Concurrency::Tasks { at_most: 1 }, move |request: Request<Body>| {
        let gate = gate.clone();
        async move {
            drop(gate.acquire().await);
            echo(request).await
        }
    });
    let (mut shared, mut alone) = (app.connect().await, app.connect().await);
    let running = shared.begin(Role::Responder, true, &[]).await;
    // This request starts before the others arrive.
    shared.body(running, b"x").await;
    let large = vec![b'b'; 500_000];
    let waiting = shared.begin(Role::Responder, true, &[]).await;
    shared.body(waiting, &large).await;
    assert_eq!(shared.end(waiting).await.end, Some((0, ProtocolStatus::Overloaded)));
    open_gate.add_permits(1);
    shared.finish(running).await;
    assert!(shared.end(running).await.out.ends_with('x'));

    let id = alone.begin(Role::Responder, true, &[]).await;
    let send = async {
        let mut out = BytesMut::new();
        encode_stream(Kind::Stdin, id, &large, &mut out);
        encode_stream_end(Kind::Stdin, id, &mut out);
        out
    };
    let out = send.await;
    let (mut read, mut write) = alone.socket.split();
    let (sent, received) = tokio::join!(write.write_all(&out), async {
        let mut received = BytesMut::new();
        while received.len() < large.len() {
            timeout(TIMEOUT, read.read_buf(&mut received))
                .await
                .expect("an event arrives")
                .expect("the connection is open");
        }
        received
    });
    assert!(sent.is_ok() && received.len() >= large.len());
    drop(alone);
    app.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_body_is_echoed_while_it_is_sent() {
    for concurrency in [TASKS, THREADS] {
        let app = App::start(concurrency, echo);
        let Peer { mut socket, .. } = app.connect().await;
        let (id, mut out) = (RequestId::MIN, BytesMut::new());
        encode_begin(id, Role::Responder, true, &mut out);
        let mut params = ParamsEncoder::new(id, &mut out);
        params.push(b"REQUEST_METHOD", b"POST");
        params.finish();
        let body: Vec<u8> = (0..20_000_000_u32).map(|n| n.to_le_bytes()[n as usize % 3]).collect();
        encode_stream(Kind::Stdin, id, &body, &mut out);
        encode_stream_end(Kind::Stdin, id, &mut out);
        let (mut read, mut write) = socket.split();
        let receive = async {
            let (mut input, mut response, mut is_over) = (BytesMut::new(), Vec::new(), false);
            while !is_over {
                let read =
                    timeout(TIMEOUT, read.read_buf(&mut input)).await.expect("the response does not stall");
                assert!(read.expect("the connection is not reset") > 0, "the app closed the connection");
                while let Some((header, content)) = split_record(&mut input) {
                    match header.kind {
                        Kind::Stdout => response.extend_from_slice(&content),
                        kind => is_over = kind == Kind::EndRequest,
                    }
                }
            }
            response
        };
        let (sent, response) = tokio::join!(write.write_all(&out), receive);
        sent.expect("the app reads");
        assert!(
            response.strip_prefix(b"Status: 200 OK\r\n\r\n") == Some(&body[..]),
            "received {} bytes",
            response.len()
        );
        app.stop().await;
    }
}

#[tokio::test]
async fn a_handler_that_does_not_read_applies_back_pressure_and_a_disconnect_is_detected() {
    let (sender, _events) = mpsc::unbounded_channel();
    let app = App::start(TASKS, never_responds(&sender));
    let mut peer = app.connect().await;
    let id = peer.begin(Role::Responder, true, &[]).await;
    let mut out = BytesMut::new();
    encode_stream(Kind::Stdin, id, &vec![0; 64 * 1024 * 1024], &mut out);
    // The sockets accept only as much as their buffers hold.
    let mut sent = 0;
    while let Ok(written) = timeout(Duration::from_millis(300), peer.socket.write(&out[sent..])).await {
        sent += written.expect("the connection is open");
    }
    assert!(sent < out.len() / 2, "{sent} bytes were accepted without a reader");
    // A FIN would be queued behind the unread body, so the peer sends a reset.
    peer.socket.set_zero_linger().expect("TCP supports linger");
    drop(peer);
    app.stop().await;
}

#[tokio::test]
async fn a_connection_without_keep_alive_is_closed_after_the_response() {
    let app = App::start(TASKS, path);
    // With a complete body, with a body that ends later, and with a large unread body.
    for (body, finishes) in [(0, true), (0, false), (300_000, true)] {
        let mut peer = app.connect().await;
        let id = peer.begin(Role::Responder, false, &[("REQUEST_URI", "/a")]).await;
        peer.body(id, &vec![b'x'; body]).await;
        if finishes {
            peer.finish(id).await;
        }
        assert!(peer.end(id).await.out.ends_with("/a"));
        if !finishes {
            peer.finish(id).await;
        }
        assert!(!peer.read().await, "the connection was not closed");
    }
    app.stop().await;
}

#[tokio::test]
async fn an_app_reports_its_capacity_and_unknown_records() {
    let app = App::serve(Server::new(TASKS).connections(17), path);
    let mut peer = app.connect().await;
    let (mut gateway, mut out) = (GatewayConnection::new(), BytesMut::new());
    gateway.query_values(&mut out);
    peer.send(&out).await;
    let values = loop {
        assert_ne!(peer.socket.read_buf(&mut peer.input).await.expect("the connection is not reset"), 0);
        match gateway.decode(&peer.input, &Limits::default()).expect("the record is valid") {
            (used, Event::More) => peer.input.advance(used),
            (_, event) => break event,
        }
    };
    let expected = Values { max_connections: Some(17), max_requests: Some(4), multiplexes: Some(true) };
    assert_eq!(values, Event::Values(expected));
    peer.socket.write_all(b"\x01\x63\0\0\0\0\0\0").await.expect("the app reads");
    let mut response = [0; 16];
    peer.socket.read_exact(&mut response).await.expect("the app replies");
    assert_eq!(&response, b"\x01\x0b\0\0\0\x08\0\0\x63\0\0\0\0\0\0\0");
    app.stop().await;
}

#[tokio::test]
async fn a_role_is_rejected_unless_the_app_supports_it() {
    let handler = |mut request: Request<Body>| async move {
        let role = request.role();
        let data = match request.take_data() {
            Some(data) => data.collect(100).await,
            None => Ok("none".into()),
        };
        Response::new(format!("{role:?} {data:?}"))
    };
    let app = App::start(TASKS, handler);
    let mut peer = app.connect().await;
    let id = peer.begin(Role::Authorizer, true, &[]).await;
    assert_eq!(peer.end(id).await.end, Some((0, ProtocolStatus::UnknownRole)));
    app.stop().await;

    let app = App::serve(Server::new(TASKS).role(Role::Authorizer).role(Role::Filter), handler);
    let mut peer = app.connect().await;
    let id = peer.begin(Role::Authorizer, true, &[]).await;
    assert!(peer.end(id).await.out.ends_with("Authorizer Ok(b\"none\")"));
    // The second length is not a number and counts as missing.
    for length in ["4", "+5"] {
        let id = peer.begin(Role::Filter, true, &[("FCGI_DATA_LENGTH", length)]).await;
        let mut out = BytesMut::new();
        encode_stream(Kind::Data, id, b"file", &mut out);
        encode_stream_end(Kind::Data, id, &mut out);
        peer.send(&out).await;
        assert!(peer.end(id).await.out.ends_with("Filter Ok(b\"file\")"), "{length}");
    }
    app.stop().await;
}

#[tokio::test]
async fn a_truncated_body_is_an_error() {
    let (sender, mut events) = mpsc::unbounded_channel();
    let app = App::start(TASKS, move |request: Request<Body>| {
        let sender = sender.clone();
        async move {
            let _ = sender.send(request.into_body().collect(100).await.map(|body| body.len()));
            Response::new(String::new())
        }
    });
    let mut peer = app.connect().await;
    for (length, outcome) in
        [("3", Ok(3)), ("", Ok(3)), ("5", Err(BodyError::Truncated { received: 3, expected: 5 }))]
    {
        let id = peer.begin(Role::Responder, true, &[("CONTENT_LENGTH", length)]).await;
        peer.body(id, b"abc").await;
        peer.finish(id).await;
        assert_eq!(events.recv().await, Some(outcome));
        peer.end(id).await;
    }
    app.stop().await;
}

#[tokio::test]
async fn a_truncated_response_ends_with_a_failure() {
    let app = App::start(TASKS, |request: Request<Body>| async move {
        let (mut sender, body) = Body::channel();
        tokio::spawn(async move {
            sender.send("first").await.expect("the body is read");
            if request.uri().path() == "/whole" {
                sender.finish().await.expect("the body is read");
            }
        });
        Response::new(body)
    });
    let mut peer = app.connect().await;
    let truncated = peer.request("/truncated").await;
    assert!(truncated.out.ends_with("\r\n\r\nfirst"));
    assert_eq!(truncated.end, FAILED);
    assert_eq!(
        truncated.log,
        "the response was truncated: the sender of the body was dropped before it finished\n"
    );
    assert_eq!(peer.request("/whole").await.end, COMPLETE);
    app.stop().await;
}

#[tokio::test]
async fn responses_to_head_and_with_204_have_no_body() {
    let app = App::start(TASKS, |request: Request<Body>| async move {
        let mut response = Response::new("body".to_owned());
        if request.method() != "HEAD" {
            *response.status_mut() = StatusCode::NO_CONTENT;
        }
        response
    });
    let mut peer = app.connect().await;
    assert_eq!(peer.request("/").await.out, "Status: 204 No Content\r\n\r\n");
    let id = peer.begin(Role::Responder, true, &[("REQUEST_METHOD", "HEAD")]).await;
    // The first REQUEST_METHOD counts.
    assert!(peer.end(id).await.out.starts_with("Status: 204"));
    app.stop().await;
}

#[tokio::test]
async fn an_invalid_parameter_is_a_400_and_logged() {
    let app = App::start(TASKS, path);
    let mut peer = app.connect().await;
    let id = peer.begin(Role::Responder, true, &[("REQUEST_URI", "/a b")]).await;
    peer.finish(id).await;
    let response = peer.end(id).await;
    assert!(response.out.starts_with("Status: 400 "), "{response:?}");
    assert!(response.log.contains("REQUEST_URI=\"/a b\""), "{response:?}");
    app.stop().await;
}

#[tokio::test]
async fn a_stop_finishes_requests_in_progress_and_closes_idle_connections() {
    let (sender, mut events) = mpsc::unbounded_channel();
    let app = App::start(TASKS, move |request: Request<Body>| {
        let sender = sender.clone();
        async move {
            let _ = sender.send(());
            echo(request).await
        }
    });
    let (mut busy, mut idle) = (app.connect().await, app.connect().await);
    idle.request("/").await;
    assert_eq!(events.recv().await, Some(()));
    let id = busy.begin(Role::Responder, true, &[]).await;
    assert_eq!(events.recv().await, Some(()));
    let mut app = app;
    drop(app.stop.take());
    assert!(!idle.read().await, "an idle connection is closed");
    let late = busy.begin(Role::Responder, true, &[]).await;
    assert_eq!(busy.end(late).await.end, Some((0, ProtocolStatus::Overloaded)));
    busy.body(id, b"in progress").await;
    busy.finish(id).await;
    assert!(busy.end(id).await.out.ends_with("in progress"));
    assert!(!busy.read().await, "the other connection is closed at the end");
    app.stop().await;
}

#[tokio::test]
async fn another_protocol_closes_only_its_own_connection() {
    let app = App::start(TASKS, path);
    let mut peer = app.connect().await;
    let mut other = app.connect().await;
    other.socket.write_all(b"GET / HTTP/1.1\r\n\r\n").await.expect("the app reads");
    assert!(matches!(other.socket.read(&mut [0]).await, Ok(0) | Err(_)));
    assert_eq!(peer.request("/").await.end, COMPLETE);
    app.stop().await;
}

#[tokio::test]
async fn zero_concurrent_requests_are_rejected() {
    let server = Server::new(Concurrency::Tasks { at_most: 0 });
    assert!(matches!(server.bind(), Err(ServeError::ZeroLimit)));
}
