//! A small service, and an engine that runs it.

use std::io::{Read, Write};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use http::StatusCode;
use rudy_net::engine::{self, Engine, Model, Options, Report};
use rudy_net::listen::{BoundAddress, InheritedSockets, Listener};
use rudy_service::ServiceSource;
use rudy_service::listen_address::Address;
use rudy_service::{Client, ExchangeOutcome, Limits, Reply, Request, Response, Service};
use tokio::sync::Semaphore;

/// Responds to every request with a greeting.
pub(crate) struct Greeter {
    pub(crate) limits: Arc<Limits>,
}

impl Service for Greeter {
    fn call(&self, _request: Request, _client: &Client<'_>) -> Reply {
        Response::text(StatusCode::OK, "text/plain", "hello").into()
    }

    fn limits(&self) -> &Arc<Limits> {
        &self.limits
    }

    fn rejected(&self, _client: &Client<'_>, _reason: &str, _outcome: &ExchangeOutcome) {}
}

/// Responds when the test allows it.
pub(crate) struct Waiting {
    pub(crate) limits: Arc<Limits>,
    called: Arc<AtomicU64>,
    permits: Arc<Semaphore>,
}

impl Service for Waiting {
    fn call(&self, _request: Request, _client: &Client<'_>) -> Reply {
        self.called.fetch_add(1, Ordering::SeqCst);
        let permits = self.permits.clone();
        Reply::Later(Box::pin(async move {
            permits.acquire().await.unwrap().forget();
            Response::text(StatusCode::OK, "text/plain", "hello")
        }))
    }

    fn limits(&self) -> &Arc<Limits> {
        &self.limits
    }

    fn rejected(&self, _client: &Client<'_>, _reason: &str, _outcome: &ExchangeOutcome) {}
}

/// A source that always returns the same service.
pub(crate) struct Fixed<S>(pub(crate) Arc<S>);

impl<S: Service> ServiceSource for Fixed<S> {
    type Service = S;
    type Current = Arc<S>;

    fn current(&self) -> Arc<S> {
        self.0.clone()
    }
}

pub(crate) type Reports = Arc<Mutex<Vec<Report>>>;

/// The environment variable with the engine for the tests of a process: `RUDY_TEST_ENGINE=pool:4 cargo test
/// …`.
pub(crate) const ENGINE: &str = "RUDY_TEST_ENGINE";

/// Returns the engine for the tests of this process.
pub(crate) fn model() -> Model {
    std::env::var(ENGINE).map_or(Model::default(), |name| name.parse().unwrap())
}

/// Whether an open connection blocks all others, so that tests cannot use two at once.
pub(crate) fn is_serial() -> bool {
    model() == Model::Serial
}

/// Starts an engine with two cores on any machine. Returns it with its reports.
pub(crate) fn engine<S: Service>(service: S) -> (Box<dyn Engine>, Reports) {
    engine_of(2, service)
}

/// Starts an engine with this number of cores. Returns it with its reports.
pub(crate) fn engine_of<S: Service>(cores: usize, service: S) -> (Box<dyn Engine>, Reports) {
    let options = Options { model: model(), cores: Some(cores.try_into().unwrap()), ..Options::default() };
    start(&options, service)
}

/// Starts an engine with these options. Returns it with its reports.
pub(crate) fn start<S: Service>(options: &Options, service: S) -> (Box<dyn Engine>, Reports) {
    let reports = Reports::default();
    let sink = reports.clone();
    let reporter = move |report: &Report| sink.lock().unwrap().push(report.clone());
    let engine = engine::start(options, Arc::new(Fixed(Arc::new(service))), Arc::new(reporter)).unwrap();
    (engine, reports)
}

/// Returns a service that responds when the test allows it, the number of its requests, and the permits to
/// respond.
pub(crate) fn waiting() -> (Waiting, Arc<AtomicU64>, Arc<Semaphore>) {
    let (called, permits) = (Arc::new(AtomicU64::new(0)), Arc::new(Semaphore::new(0)));
    let service = Waiting { limits: Arc::default(), called: called.clone(), permits: permits.clone() };
    (service, called, permits)
}

pub(crate) fn greeter(limits: Limits) -> (Box<dyn Engine>, Reports) {
    engine(Greeter { limits: Arc::new(limits) })
}

/// Listens on `address`, and returns the bound address.
pub(crate) fn listen(engine: &dyn Engine, address: &str) -> BoundAddress {
    let address: Address = address.parse().unwrap();
    let listener = Listener::bind(&address, engine.workers().len(), &InheritedSockets::default()).unwrap();
    let bound = listener.bound()[0].clone();
    engine.listen(listener).unwrap();
    bound
}

pub(crate) fn listen_tcp(engine: &dyn Engine) -> std::net::SocketAddr {
    match listen(engine, "127.0.0.1:0") {
        BoundAddress::Ip(address) => address,
        BoundAddress::Unix(path) => panic!("a TCP address became {}", path.display()),
    }
}

/// How long a test waits for an event before it fails.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

/// Waits until a condition holds that other threads change without a notification.
pub(crate) fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "timed out waiting for: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

pub(crate) fn sum(engine: &dyn Engine, count: fn(&rudy_net::Counters) -> &rudy_net::Counter) -> u64 {
    engine.workers().iter().map(|worker| count(&worker.counters).get()).sum()
}

/// Runs the test `name` in a separate process, because it would disturb other tests. Returns `true` in that
/// process; otherwise the child has run and passed.
#[expect(clippy::print_stdout, reason = "shows the output of the child as the output of the test")]
pub(crate) fn is_child(name: &str) -> bool {
    const MARK: &str = "RUDY_TEST_CHILD";
    if std::env::var_os(MARK).is_some() {
        return true;
    }
    let mut child = Command::new(std::env::current_exe().unwrap());
    let output = child.args(["--exact", name, "--nocapture"]).env(MARK, "1").output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("1 passed"), "the child ran no test: {text}");
    println!("{text}");
    false
}

/// Reads until the peer closes.
pub(crate) fn read_all(mut stream: impl Read) -> String {
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

/// A request after which the server closes.
pub(crate) const LAST_REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";

/// A request after which the connection stays open.
pub(crate) const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";

/// Sends `request` and reads a response of [`Greeter`]: a head and a body of five bytes.
pub(crate) fn exchange(mut stream: impl Read + Write, request: &[u8]) -> std::io::Result<String> {
    stream.write_all(request)?;
    let mut response = Vec::new();
    let mut byte = [0];
    while !response.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte)?;
        response.push(byte[0]);
    }
    let mut body = [0; 5];
    stream.read_exact(&mut body)?;
    response.extend_from_slice(&body);
    Ok(String::from_utf8_lossy(&response).into_owned())
}

pub(crate) fn assert_greeted(response: &str) {
    assert!(response.starts_with("HTTP/1.1 200 OK\r\n") && response.ends_with("\r\n\r\nhello"), "{response}");
}
