//! A server with scripted behaviour for each request, counted from 0 over all connections.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::net::sockopt::set_socket_linger;

/// A successful response.
pub(crate) const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";

/// An error response.
const SERVER_ERROR: &str = "HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n";

/// The start of a response with a longer body.
const SHORT_BODY: &str = "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort";

/// The response to a request.
pub(crate) struct Response {
    text: Option<String>,
    after: AfterResponse,
}

/// The action on the connection after a response.
enum AfterResponse {
    Keep,
    Close,
    Reset,
}

impl Response {
    pub(crate) fn text(text: &str) -> Self {
        Self { text: Some(text.into()), after: AfterResponse::Keep }
    }

    /// A response after which the connection is closed.
    pub(crate) fn last(text: &str) -> Self {
        Self { text: Some(text.into()), after: AfterResponse::Close }
    }

    /// A response after which the connection is reset.
    pub(crate) fn reset(text: &str) -> Self {
        Self { text: Some(text.into()), after: AfterResponse::Reset }
    }

    /// No response.
    pub(crate) fn never() -> Self {
        Self { text: None, after: AfterResponse::Keep }
    }
}

#[derive(Default)]
struct Shared {
    requests: AtomicU64,
    connections: AtomicU64,
    stops: AtomicBool,
    /// The serving thread owns the stream: another descriptor would prevent the reset.
    open: Mutex<Vec<Weak<TcpStream>>>,
}

/// Listens on a free port until it is dropped.
pub(crate) struct Server {
    address: SocketAddr,
    shared: Arc<Shared>,
    acceptor: Option<JoinHandle<()>>,
}

impl Server {
    pub(crate) fn start(respond: impl Fn(u64) -> Response + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("a bound socket has an address");
        let shared = Arc::new(Shared::default());
        let respond = Arc::new(respond);
        let acceptor = thread::spawn({
            let shared = shared.clone();
            move || accept(&listener, &shared, &respond)
        });
        Self { address, shared, acceptor: Some(acceptor) }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn requests(&self) -> u64 {
        self.shared.requests.load(Ordering::SeqCst)
    }

    pub(crate) fn connections(&self) -> u64 {
        self.shared.connections.load(Ordering::SeqCst)
    }
}

/// Known behaviours.
impl Server {
    /// Responds successfully after a delay.
    pub(crate) fn delaying(delay: Duration) -> Self {
        Self::start(move |_| {
            thread::sleep(delay);
            Response::text(OK)
        })
    }

    /// Stalls for the first part of each period, `stall`; otherwise responds after `delay`.
    pub(crate) fn stalling(stall: Duration, period: Duration, delay: Duration) -> Self {
        let start = Instant::now();
        Self::start(move |_| {
            thread::sleep(delay);
            let at = start.elapsed().as_nanos() % period.as_nanos();
            let remaining = stall.as_nanos().saturating_sub(at);
            thread::sleep(Duration::from_nanos(remaining.try_into().expect("a stall takes no centuries")));
            Response::text(OK)
        })
    }

    /// Responds with 500 to the first request of every group.
    pub(crate) fn failing_one_in(requests: u64) -> Self {
        Self::start(move |number| Response::text(if number % requests == 0 { SERVER_ERROR } else { OK }))
    }

    /// Closes each connection in the middle of a body.
    pub(crate) fn cutting() -> Self {
        Self::start(|_| Response::last(SHORT_BODY))
    }

    /// Resets each connection: one before any response, the next in the middle of a body.
    pub(crate) fn resetting() -> Self {
        Self::start(|number| Response::reset(if number % 2 == 0 { "" } else { SHORT_BODY }))
    }

    /// Never responds.
    pub(crate) fn silent() -> Self {
        Self::start(|_| Response::never())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.stops.store(true, Ordering::SeqCst);
        for stream in self.shared.open.lock().expect("no thread panics with it").drain(..) {
            let _ = stream.upgrade().map(|stream| stream.shutdown(Shutdown::Both));
        }
        // The acceptor gets one more connection, and stops.
        let _ = TcpStream::connect(self.address);
        self.acceptor.take().map(JoinHandle::join).expect("dropped once").expect("the server did not panic");
    }
}

fn accept(
    listener: &TcpListener,
    shared: &Arc<Shared>,
    respond: &Arc<impl Fn(u64) -> Response + Send + Sync + 'static>,
) {
    thread::scope(|scope| {
        for stream in listener.incoming() {
            let stream = stream.expect("a connection");
            let mut open = shared.open.lock().expect("no thread panics with it");
            if shared.stops.load(Ordering::SeqCst) {
                return;
            }
            shared.connections.fetch_add(1, Ordering::SeqCst);
            let stream = Arc::new(stream);
            open.push(Arc::downgrade(&stream));
            scope.spawn(move || serve(&stream, shared, respond.as_ref()));
        }
    });
}

/// Responds to the requests of a connection, which have no bodies and may be pipelined.
fn serve(mut stream: &TcpStream, shared: &Shared, respond: &impl Fn(u64) -> Response) {
    let mut received = Vec::new();
    let mut buffer = [0; 4096];
    while let Ok(read @ 1..) = stream.read(&mut buffer) {
        received.extend_from_slice(&buffer[..read]);
        while let Some(end) = received.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
            received.drain(..end + 4);
            let response = respond(shared.requests.fetch_add(1, Ordering::SeqCst));
            if let Some(text) = response.text
                && stream.write_all(text.as_bytes()).is_err()
            {
                return;
            }
            match response.after {
                AfterResponse::Keep => {}
                AfterResponse::Close => return,
                AfterResponse::Reset => {
                    return set_socket_linger(stream, Some(Duration::ZERO)).expect("it is a socket");
                }
            }
        }
    }
}
