//! A server that does as it is told: with each request, counted from 0 over all connections.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use rudy_load::Url;

/// What is done with a request.
pub(crate) struct Answer {
    text: Option<String>,
    closes: bool,
}

impl Answer {
    pub(crate) fn text(text: &str) -> Self {
        Self { text: Some(text.into()), closes: false }
    }

    /// And closes the connection.
    pub(crate) fn last(text: &str) -> Self {
        Self { text: Some(text.into()), closes: true }
    }

    pub(crate) fn never() -> Self {
        Self { text: None, closes: false }
    }
}

#[derive(Default)]
struct Shared {
    requests: AtomicU64,
    connections: AtomicU64,
    stops: AtomicBool,
    open: Mutex<Vec<TcpStream>>,
}

/// Listens on a free port until it is dropped.
pub(crate) struct Server {
    address: SocketAddr,
    shared: Arc<Shared>,
    acceptor: Option<JoinHandle<()>>,
}

impl Server {
    pub(crate) fn start(answer: impl Fn(u64) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("a bound socket has an address");
        let shared = Arc::new(Shared::default());
        let answer = Arc::new(answer);
        let acceptor = thread::spawn({
            let shared = shared.clone();
            move || accept(&listener, &shared, &answer)
        });
        Self { address, shared, acceptor: Some(acceptor) }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn url(&self) -> Url {
        format!("http://{}/", self.address).parse().expect("an address makes a URL")
    }

    pub(crate) fn requests(&self) -> u64 {
        self.shared.requests.load(Ordering::SeqCst)
    }

    pub(crate) fn connections(&self) -> u64 {
        self.shared.connections.load(Ordering::SeqCst)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.stops.store(true, Ordering::SeqCst);
        for stream in self.shared.open.lock().expect("no thread panics with it").drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
        // The acceptor sees the next connection, and that it is the last.
        let _ = TcpStream::connect(self.address);
        self.acceptor.take().map(JoinHandle::join).expect("dropped once").expect("the server did not panic");
    }
}

fn accept(
    listener: &TcpListener,
    shared: &Arc<Shared>,
    answer: &Arc<impl Fn(u64) -> Answer + Send + Sync + 'static>,
) {
    thread::scope(|scope| {
        for stream in listener.incoming() {
            let stream = stream.expect("a connection");
            let mut open = shared.open.lock().expect("no thread panics with it");
            if shared.stops.load(Ordering::SeqCst) {
                return;
            }
            shared.connections.fetch_add(1, Ordering::SeqCst);
            open.push(stream.try_clone().expect("a descriptor"));
            scope.spawn(move || serve(stream, shared, answer.as_ref()));
        }
    });
}

/// Requests without bodies, one behind the other.
fn serve(mut stream: TcpStream, shared: &Shared, answer: &impl Fn(u64) -> Answer) {
    let mut received = Vec::new();
    let mut piece = [0; 4096];
    while let Ok(read @ 1..) = stream.read(&mut piece) {
        received.extend_from_slice(&piece[..read]);
        while let Some(end) = received.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
            received.drain(..end + 4);
            let answer = answer(shared.requests.fetch_add(1, Ordering::SeqCst));
            if let Some(text) = answer.text
                && stream.write_all(text.as_bytes()).is_err()
            {
                return;
            }
            if answer.closes {
                let _ = stream.shutdown(Shutdown::Both);
                return;
            }
        }
    }
}
