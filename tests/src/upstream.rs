//! A scripted HTTP/1.1 server behind a proxy, which may also violate the protocol.

use std::fmt::{self, Display, Formatter};
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::net::sockopt::set_socket_linger;

use crate::PATIENCE;
use crate::http2::Http2Connection;
use crate::response::{read_chunk, read_chunks};

/// A server on a free port of 127.0.0.1, with a thread for each connection. Stops when dropped.
pub struct Upstream {
    address: SocketAddr,
    shared: Arc<Shared>,
    acceptor: Option<JoinHandle<()>>,
}

struct Shared {
    serve: Box<dyn Fn(&mut UpstreamPeer) + Send + Sync>,
    accepted: AtomicUsize,
    is_stopping: AtomicBool,
    streams: Mutex<Vec<TcpStream>>,
}

/// The upstream's end of one connection.
pub struct UpstreamPeer {
    stream: BufReader<TcpStream>,
    /// The number of the connection, from 1.
    pub number: usize,
}

/// A request as the upstream received it.
#[derive(Debug, Clone, Default)]
pub struct UpstreamRequest {
    /// The request line and the field lines, without the empty line.
    pub head: String,
    /// The body, decoded from chunks.
    pub body: Vec<u8>,
    /// The trailer lines of a chunked body.
    pub trailers: String,
}

impl UpstreamRequest {
    /// Returns the request target.
    pub fn target(&self) -> &str {
        self.head.split(' ').nth(1).unwrap_or_default()
    }

    /// Returns the value of the first field of this name, ignoring case.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.head.lines().skip(1).find_map(|line| {
            let (given, value) = line.split_once(':')?;
            given.eq_ignore_ascii_case(name).then_some(value.trim())
        })
    }
}

impl Upstream {
    /// Starts a server that calls `serve` for each accepted connection on a new thread. The connection closes when `serve` returns.
    pub fn start(serve: impl Fn(&mut UpstreamPeer) + Send + Sync + 'static) -> Self {
        Self::start_at(([127, 0, 0, 1], 0).into(), serve)
    }

    /// As [`Self::start`], and calls `respond` for each request.
    pub fn serve(respond: impl Fn(&mut UpstreamPeer, UpstreamRequest) + Send + Sync + 'static) -> Self {
        Self::start(move |peer| {
            while let Some(request) = peer.request() {
                respond(peer, request);
            }
        })
    }

    /// As [`Self::start`], at this address.
    pub fn start_at(address: SocketAddr, serve: impl Fn(&mut UpstreamPeer) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind(address).expect("the address is free");
        let address = listener.local_addr().expect("the socket is bound");
        let shared = Arc::new(Shared {
            serve: Box::new(serve),
            accepted: AtomicUsize::new(0),
            is_stopping: AtomicBool::new(false),
            streams: Mutex::default(),
        });
        let acceptor = thread::spawn({
            let shared = shared.clone();
            move || accept(&listener, &shared)
        });
        Self { address, shared, acceptor: Some(acceptor) }
    }

    /// Returns the address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the URL: `http://127.0.0.1:40123`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Number of accepted connections.
    pub fn accepted(&self) -> usize {
        self.shared.accepted.load(Ordering::SeqCst)
    }

    /// Closes all connections, as a restart does.
    pub fn close_all(&self) {
        for stream in self.shared.streams().drain(..) {
            // Fails if the other end has closed the connection.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

/// The URL.
impl Display for Upstream {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.url())
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.shared.is_stopping.store(true, Ordering::SeqCst);
        // Wakes the acceptor.
        drop(TcpStream::connect(self.address));
        if let Some(acceptor) = self.acceptor.take() {
            let _ = acceptor.join();
        }
        self.close_all();
    }
}

impl Shared {
    fn streams(&self) -> MutexGuard<'_, Vec<TcpStream>> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for stream in listener.incoming() {
        if shared.is_stopping.load(Ordering::SeqCst) {
            return;
        }
        let stream = stream.expect("a connection can be accepted");
        stream.set_read_timeout(Some(PATIENCE)).expect("the timeout is not zero");
        stream.set_nodelay(true).expect("TCP supports it");
        shared.streams().push(stream.try_clone().expect("a descriptor is free"));
        let number = shared.accepted.fetch_add(1, Ordering::SeqCst) + 1;
        let shared = shared.clone();
        thread::spawn(move || {
            let mut peer = UpstreamPeer { stream: BufReader::new(stream), number };
            (shared.serve)(&mut peer);
            // The clone in `streams` would keep the connection open.
            let _ = peer.stream.get_ref().shutdown(Shutdown::Both);
        });
    }
}

impl UpstreamPeer {
    /// Reads a request with its body. `None` when the connection is closed.
    pub fn request(&mut self) -> Option<UpstreamRequest> {
        let mut request = self.head()?;
        if let Some(length) = request.field("content-length") {
            request.body = vec![0; length.parse().expect("a length is a number")];
            self.stream.read_exact(&mut request.body).ok()?;
        } else if request.field("transfer-encoding").is_some() {
            request.trailers = read_chunks(&mut self.stream, &mut request.body);
        }
        Some(request)
    }

    /// Reads the head of a request. `None` when the connection is closed.
    pub fn head(&mut self) -> Option<UpstreamRequest> {
        let mut head = String::new();
        loop {
            let mut line = String::new();
            match self.stream.read_line(&mut line) {
                Ok(0) | Err(_) => return None,
                Ok(_) if line == "\r\n" => {
                    return Some(UpstreamRequest { head, ..UpstreamRequest::default() });
                }
                Ok(_) => head.push_str(&line),
            }
        }
    }

    /// Reads one chunk of a body, as text; `None` at the last one.
    pub fn chunk(&mut self) -> Option<String> {
        let mut chunk = Vec::new();
        read_chunk(&mut self.stream, &mut chunk)
            .then(|| String::from_utf8(chunk).expect("the chunk is UTF-8"))
    }

    /// Reads exactly `length` bytes.
    pub fn read_exactly(&mut self, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        self.stream.read_exact(&mut bytes).expect("the peer sends enough bytes");
        bytes
    }

    /// Sends bytes. Ignores that the peer has closed the connection.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        match self.stream.get_mut().write_all(bytes.as_ref()) {
            Err(error) if !matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset) => {
                panic!("sending: {error}")
            }
            _ => {}
        }
    }

    /// Sends a 200 with this body.
    pub fn respond(&mut self, body: &str) {
        self.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len()));
    }

    /// Resets the connection when it is closed.
    pub fn reset(&self) {
        set_socket_linger(self.socket(), Some(Duration::ZERO)).expect("TCP supports it");
    }

    /// Waits until the peer closes the connection, and discards what it sends.
    pub fn wait_for_end(&mut self) {
        // A reset is an end too.
        let _ = std::io::copy(&mut self.stream, &mut std::io::sink());
    }

    /// Begins HTTP/2: sends SETTINGS, and reads the preface of the client. `None` when the connection is closed.
    pub fn http2(&mut self, settings: &[(u16, u32)]) -> Option<Http2Connection> {
        let stream = self.socket().try_clone().expect("a descriptor is free");
        Http2Connection::accept(stream, settings)
    }

    /// Returns the socket.
    pub fn socket(&self) -> &TcpStream {
        self.stream.get_ref()
    }
}
