//! A scripted FastCGI app behind a gateway, which may also violate the protocol.

use std::fmt::{self, Display, Formatter};
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use bytes::{Buf, BytesMut};
use rudy_fastcgi::application::{ApplicationConnection, Event};
use rudy_fastcgi::pairs::Params;
use rudy_fastcgi::record::{Kind, encode_stream, encode_stream_end};
use rudy_fastcgi::{Limits, ProtocolStatus, RequestId, Role};

use crate::{Folder, PATIENCE};

/// An app on a Unix socket or an IP address, with a thread for each connection. Stops when dropped.
pub struct App {
    endpoint: Endpoint,
    shared: Arc<Shared>,
    /// The listener, until the app accepts connections.
    listener: Option<Listener>,
    acceptor: Option<JoinHandle<()>>,
}

enum Endpoint {
    /// The folder that contains the socket.
    Unix(Folder),
    Ip(SocketAddr),
}

enum Listener {
    Unix(UnixListener),
    Ip(TcpListener),
}

struct Shared {
    serve: Box<dyn Fn(Peer) + Send + Sync>,
    accepted: AtomicUsize,
    is_stopping: AtomicBool,
    streams: Mutex<Vec<UnixStream>>,
}

/// The app's end of one connection.
pub struct Peer {
    stream: UnixStream,
    machine: ApplicationConnection,
    input: BytesMut,
    output: BytesMut,
    id: RequestId,
    role: Role,
    shared: Arc<Shared>,
    /// Whether a request was received.
    has_request: bool,
}

/// An event on a connection.
#[derive(Debug)]
pub enum Received {
    /// The parameters of a request.
    Request(Params),
    /// A piece of the body.
    Body(Vec<u8>),
    /// The end of the body.
    BodyEnd,
    /// The gateway cancels the request.
    Abort,
    /// The gateway has closed the connection.
    Closed,
}

impl App {
    /// Starts an app that calls `serve` for each accepted connection on a new thread.
    pub fn start(serve: impl Fn(Peer) + Send + Sync + 'static) -> Self {
        let mut app = Self::start_without_accepting(serve);
        app.accept();
        app
    }

    /// Like [`Self::start`], and calls `respond` for each request.
    pub fn serve(respond: impl Fn(&mut Peer, Params) + Send + Sync + 'static) -> Self {
        Self::start(move |mut peer| {
            while let Some(params) = peer.request() {
                respond(&mut peer, params);
            }
        })
    }

    /// Like [`Self::start`], at an IP address and port.
    pub fn start_at(address: SocketAddr, serve: impl Fn(Peer) + Send + Sync + 'static) -> Self {
        let mut app = Self::new(Endpoint::Ip(address), serve);
        app.accept();
        app
    }

    /// Like [`Self::start`], but accepts no connections before [`Self::accept`]. The backlog has space for one.
    pub fn start_without_accepting(serve: impl Fn(Peer) + Send + Sync + 'static) -> Self {
        Self::new(Endpoint::Unix(Folder::new()), serve)
    }

    fn new(endpoint: Endpoint, serve: impl Fn(Peer) + Send + Sync + 'static) -> Self {
        let shared = Shared {
            serve: Box::new(serve),
            accepted: AtomicUsize::new(0),
            is_stopping: AtomicBool::new(false),
            streams: Mutex::default(),
        };
        let mut app = Self { endpoint, shared: Arc::new(shared), listener: None, acceptor: None };
        let listener = app.listener.insert(app.bind());
        // The kernel queues one connection more than the backlog (`unix_recvq_full`).
        rustix::net::listen(listener, 0).expect("the socket listens already");
        app
    }

    /// The address in the syntax of the configuration.
    pub fn address(&self) -> String {
        match &self.endpoint {
            Endpoint::Unix(_) => format!("unix:{}", self.socket().display()),
            Endpoint::Ip(address) => address.to_string(),
        }
    }

    /// Number of accepted connections on which a request was received.
    pub fn accepted(&self) -> usize {
        self.shared.accepted.load(Ordering::SeqCst)
    }

    /// Listens again after [`Self::stop_listening`].
    pub fn listen(&mut self) {
        self.listener = Some(self.bind());
        self.accept();
    }

    /// Accepts waiting and new connections.
    pub fn accept(&mut self) {
        let listener = self.listener.take().expect("the app listens but does not accept yet");
        rustix::net::listen(&listener, 128).expect("the socket listens already");
        let shared = self.shared.clone();
        shared.is_stopping.store(false, Ordering::SeqCst);
        self.acceptor = Some(thread::spawn(move || accept(&listener, &shared)));
    }

    /// Stops listening, removes the socket file and closes all connections.
    pub fn stop_listening(&mut self) {
        self.stop_accepting();
        self.close_all();
    }

    /// Stops listening and keeps its connections.
    pub fn stop_accepting(&mut self) {
        let Some(acceptor) = self.acceptor.take() else { return };
        self.shared.is_stopping.store(true, Ordering::SeqCst);
        // Wakes the acceptor. Fails if it has already ended.
        let _ = match &self.endpoint {
            Endpoint::Unix(_) => UnixStream::connect(self.socket()).map(drop),
            Endpoint::Ip(address) => TcpStream::connect(address).map(drop),
        };
        acceptor.join().expect("the acceptor does not panic");
        if let Endpoint::Unix(_) = self.endpoint {
            std::fs::remove_file(self.socket()).expect("the file exists");
        }
    }

    /// Closes all connections, as a restart does.
    pub fn close_all(&self) {
        for stream in self.shared.streams().drain(..) {
            // Fails if the other end has closed the connection.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// The path of the Unix socket.
    /// Panics if the app listens at an IP address.
    pub fn socket(&self) -> PathBuf {
        let Endpoint::Unix(folder) = &self.endpoint else { panic!("the app listens at {}", self.address()) };
        folder.join("app.sock")
    }

    fn bind(&self) -> Listener {
        match &self.endpoint {
            Endpoint::Unix(_) => {
                Listener::Unix(UnixListener::bind(self.socket()).expect("the folder is new"))
            }
            Endpoint::Ip(address) => Listener::Ip(TcpListener::bind(address).expect("the port is free")),
        }
    }
}

impl Listener {
    /// Accepts a connection. Reading and writing are the same for both kinds of sockets.
    fn connection(&self) -> UnixStream {
        let connection = match self {
            Self::Unix(listener) => listener.accept().map(|(stream, _)| OwnedFd::from(stream)),
            Self::Ip(listener) => listener.accept().map(|(stream, _)| OwnedFd::from(stream)),
        };
        connection.expect("a connection can be accepted").into()
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Unix(listener) => listener.as_fd(),
            Self::Ip(listener) => listener.as_fd(),
        }
    }
}

/// The address.
impl Display for App {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.address())
    }
}

impl Drop for App {
    fn drop(&mut self) {
        if !thread::panicking() {
            self.stop_listening();
        }
    }
}

impl Shared {
    fn streams(&self) -> MutexGuard<'_, Vec<UnixStream>> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn accept(listener: &Listener, shared: &Arc<Shared>) {
    loop {
        let stream = listener.connection();
        if shared.is_stopping.load(Ordering::SeqCst) {
            return;
        }
        stream.set_read_timeout(Some(PATIENCE)).expect("the timeout is not zero");
        stream.set_write_timeout(Some(PATIENCE)).expect("the timeout is not zero");
        shared.streams().push(stream.try_clone().expect("a descriptor is left"));
        let shared = shared.clone();
        thread::spawn(move || {
            let closing = stream.try_clone().expect("a descriptor is left");
            (shared.serve)(Peer::new(stream, shared.clone()));
            // Dropping is not enough, because `streams` holds a clone.
            let _ = closing.shutdown(Shutdown::Both);
        });
    }
}

impl Peer {
    fn new(stream: UnixStream, shared: Arc<Shared>) -> Self {
        let (input, output) = (BytesMut::new(), BytesMut::new());
        Self {
            stream,
            machine: ApplicationConnection::new(),
            input,
            output,
            id: RequestId::MIN,
            role: Role::Responder,
            shared,
            has_request: false,
        }
    }

    /// Waits for the next event.
    pub fn receive(&mut self) -> Received {
        loop {
            let (used, event) =
                self.machine.decode(&self.input, &Limits::default()).expect("Rudy follows the protocol");
            let received = match event {
                Event::Begin { id, role, keep_connection } => {
                    assert!(keep_connection, "Rudy requests connections that stay open");
                    (self.id, self.role) = (id, role);
                    if !std::mem::replace(&mut self.has_request, true) {
                        self.shared.accepted.fetch_add(1, Ordering::SeqCst);
                    }
                    None
                }
                Event::Params { params, .. } => Some(Received::Request(params)),
                Event::Stdin { data, .. } => Some(Received::Body(data.to_vec())),
                Event::StdinEnd { .. } => Some(Received::BodyEnd),
                Event::Abort { .. } => Some(Received::Abort),
                // An app may close instead of replying, which means that it does not multiplex.
                Event::GetValues(_) => return Received::Closed,
                Event::More => {
                    self.input.advance(used);
                    if !self.read() {
                        return Received::Closed;
                    }
                    continue;
                }
                other => panic!("unexpected event: {other:?}"),
            };
            self.input.advance(used);
            if let Some(received) = received {
                return received;
            }
        }
    }

    /// Waits for the parameters of the next request. Returns `None` if the gateway closes the connection instead.
    pub fn request(&mut self) -> Option<Params> {
        match self.receive() {
            Received::Request(params) => Some(params),
            Received::Closed => None,
            other => panic!("expected a request, got {other:?}"),
        }
    }

    /// The role of the app for the current request.
    pub fn role(&self) -> Role {
        self.role
    }

    /// Reads the body and returns its length, or `None` if the gateway cancels the request.
    pub fn body(&mut self) -> Option<usize> {
        let mut all = 0;
        self.each_piece(|piece| all += piece.len()).then_some(all)
    }

    /// Reads the body and returns it, or `None` if the gateway cancels the request.
    pub fn body_bytes(&mut self) -> Option<Vec<u8>> {
        let mut all = Vec::new();
        self.each_piece(|piece| all.extend_from_slice(&piece)).then_some(all)
    }

    /// Passes the pieces of the body to `handle`. Returns `false` if the gateway cancels the request.
    fn each_piece(&mut self, mut handle: impl FnMut(Vec<u8>)) -> bool {
        loop {
            match self.receive() {
                Received::Body(piece) => handle(piece),
                Received::BodyEnd => return true,
                Received::Abort | Received::Closed => return false,
                Received::Request(params) => panic!("expected the body, got {params:?}"),
            }
        }
    }

    /// Sends a piece of the response.
    pub fn stdout(&mut self, bytes: &[u8]) {
        encode_stream(Kind::Stdout, self.id, bytes, &mut self.output);
        self.flush();
    }

    /// Sends pieces of both output streams for the previous request. Ids alternate between 1 and 2.
    pub fn late_records(&mut self, bytes: &[u8]) {
        let id = RequestId::new(3 - self.id.get()).expect("1 or 2");
        encode_stream(Kind::Stdout, id, bytes, &mut self.output);
        encode_stream(Kind::Stderr, id, bytes, &mut self.output);
        self.flush();
    }

    /// Sends log output.
    pub fn stderr(&mut self, bytes: &[u8]) {
        encode_stream(Kind::Stderr, self.id, bytes, &mut self.output);
        self.flush();
    }

    /// Ends the response stream.
    pub fn stdout_end(&mut self) {
        encode_stream_end(Kind::Stdout, self.id, &mut self.output);
        self.flush();
    }

    /// Ends the request.
    pub fn end(&mut self, status: ProtocolStatus) {
        self.machine.end(self.id, 0, status, &mut self.output);
        self.flush();
    }

    /// Ends the request with an application status.
    pub fn exit(&mut self, app_status: u32) {
        self.machine.end(self.id, app_status, ProtocolStatus::RequestComplete, &mut self.output);
        self.flush();
    }

    /// Sends a complete response and ends the request.
    pub fn respond(&mut self, bytes: &[u8]) {
        encode_stream(Kind::Stdout, self.id, bytes, &mut self.output);
        encode_stream_end(Kind::Stdout, self.id, &mut self.output);
        self.end(ProtocolStatus::RequestComplete);
    }

    /// Closes the connection.
    pub fn close(&self) {
        // Fails if the other end has closed it.
        let _ = self.stream.shutdown(Shutdown::Both);
    }

    /// Shuts down the reading side, so that input is rejected.
    pub fn stop_reading(&self) {
        self.stream.shutdown(Shutdown::Read).expect("the connection is open");
    }

    /// Sends bytes that need not be valid FastCGI.
    pub fn send_raw(&mut self, bytes: &[u8]) {
        self.output.extend_from_slice(bytes);
        self.flush();
    }

    /// Reads input. Returns `false` if the connection was closed or reset.
    fn read(&mut self) -> bool {
        let mut buffer = [0; 16 * 1024];
        let read = match self.stream.read(&mut buffer) {
            Err(error) if matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe) => 0,
            read => read.expect("input arrives before the timeout"),
        };
        self.input.extend_from_slice(&buffer[..read]);
        read > 0
    }

    /// Sends the output. Ignores a closed connection, because the gateway closes it after an error.
    fn flush(&mut self) {
        match self.stream.write_all(&self.output) {
            Err(error) if !matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset) => {
                panic!("sending: {error}")
            }
            _ => self.output.clear(),
        }
    }
}

/// Returns a variable as text.
pub fn variable<'a>(params: &'a Params, name: &str) -> &'a str {
    std::str::from_utf8(params.get(name).unwrap_or_default()).expect("the test sends UTF-8")
}
