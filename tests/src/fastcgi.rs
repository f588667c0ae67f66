//! An app behind a gateway that does exactly what a test tells it to, the wrong things included.

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
use tempfile::TempDir;

use crate::PATIENCE;

/// An app on a Unix socket or an IP address, with a thread for each connection. It ends when this is dropped.
pub struct App {
    endpoint: Endpoint,
    shared: Arc<Shared>,
    /// Where nobody is accepted yet.
    listener: Option<Listener>,
    acceptor: Option<JoinHandle<()>>,
}

enum Endpoint {
    /// The folder of the socket.
    Unix(TempDir),
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
    /// A request has come.
    has_request: bool,
}

/// What came next on a connection.
#[derive(Debug)]
pub enum Received {
    /// The parameters of a request, all of them.
    Request(Params),
    /// A piece of its body.
    Body(Vec<u8>),
    /// There is no more of its body.
    BodyEnd,
    /// The gateway cancels the request.
    Abort,
    /// The gateway has closed the connection.
    Closed,
}

impl App {
    /// Starts one; `serve` is given each connection that is accepted, on a thread of its own.
    #[must_use]
    pub fn start(serve: impl Fn(Peer) + Send + Sync + 'static) -> Self {
        let mut app = Self::start_without_accepting(serve);
        app.accept();
        app
    }

    /// As [`Self::start`], at an IP address and a port.
    #[must_use]
    pub fn start_at(address: SocketAddr, serve: impl Fn(Peer) + Send + Sync + 'static) -> Self {
        let mut app = Self::new(Endpoint::Ip(address), serve);
        app.accept();
        app
    }

    /// As [`Self::start`], but nobody is accepted before [`Self::accept`]. One may wait for that, and no more.
    #[must_use]
    pub fn start_without_accepting(serve: impl Fn(Peer) + Send + Sync + 'static) -> Self {
        Self::new(Endpoint::Unix(tempfile::tempdir().expect("a temp folder can be made")), serve)
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
        // As many as this wait for `accept`, and one more (`unix_recvq_full` of the kernel).
        rustix::net::listen(listener, 0).expect("it listens already");
        app
    }

    /// Its address, as a configuration has it.
    #[must_use]
    pub fn address(&self) -> String {
        match &self.endpoint {
            Endpoint::Unix(_) => format!("unix:{}", self.socket().display()),
            Endpoint::Ip(address) => address.to_string(),
        }
    }

    /// How many connections it has accepted on which a request came.
    #[must_use]
    pub fn accepted(&self) -> usize {
        self.shared.accepted.load(Ordering::SeqCst)
    }

    /// Listens again after [`Self::stop_listening`].
    pub fn listen(&mut self) {
        self.listener = Some(self.bind());
        self.accept();
    }

    /// Accepts whoever comes and whoever has come.
    pub fn accept(&mut self) {
        let listener = self.listener.take().expect("it listens, and accepts nobody");
        rustix::net::listen(&listener, 128).expect("it listens already");
        let shared = self.shared.clone();
        shared.is_stopping.store(false, Ordering::SeqCst);
        self.acceptor = Some(thread::spawn(move || accept(&listener, &shared)));
    }

    /// Listens no more: the socket's file is gone, and so are all connections.
    pub fn stop_listening(&mut self) {
        self.stop_accepting();
        self.close_all();
    }

    /// Listens no more, and goes on with its connections.
    pub fn stop_accepting(&mut self) {
        let Some(acceptor) = self.acceptor.take() else { return };
        self.shared.is_stopping.store(true, Ordering::SeqCst);
        // Wakes it; where nobody accepts any more it has ended already.
        let _ = match &self.endpoint {
            Endpoint::Unix(_) => UnixStream::connect(self.socket()).map(drop),
            Endpoint::Ip(address) => TcpStream::connect(address).map(drop),
        };
        acceptor.join().expect("the acceptor does not panic");
        if let Endpoint::Unix(_) = self.endpoint {
            std::fs::remove_file(self.socket()).expect("the file is ours");
        }
    }

    /// Closes all connections, as an app does that is started anew.
    pub fn close_all(&self) {
        for stream in self.shared.streams().drain(..) {
            // It fails where the other end has closed already.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Its Unix socket.
    ///
    /// # Panics
    ///
    /// It is at an IP address.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        let Endpoint::Unix(folder) = &self.endpoint else { panic!("it is at {}", self.address()) };
        folder.path().join("app.sock")
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
    /// The next connection. To read and write it, it does not matter what kind of socket it is.
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
        stream.set_read_timeout(Some(PATIENCE)).expect("the time is not zero");
        stream.set_write_timeout(Some(PATIENCE)).expect("the time is not zero");
        shared.streams().push(stream.try_clone().expect("a descriptor is left"));
        let shared = shared.clone();
        thread::spawn(move || {
            let closing = stream.try_clone().expect("a descriptor is left");
            (shared.serve)(Peer::new(stream, shared.clone()));
            // The clone that the app keeps would hold it open.
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

    /// Waits for what comes next.
    pub fn receive(&mut self) -> Received {
        loop {
            let (used, event) =
                self.machine.decode(&self.input, &Limits::default()).expect("Rudy keeps to the protocol");
            let received = match event {
                Event::Begin { id, role, keep_connection } => {
                    assert!(keep_connection, "Rudy keeps its connections");
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
                // It does not multiplex; closing says so as well as any answer.
                Event::GetValues(_) => return Received::Closed,
                Event::More => {
                    self.input.advance(used);
                    if !self.read() {
                        return Received::Closed;
                    }
                    continue;
                }
                other => panic!("Rudy sends what it should not: {other:?}"),
            };
            self.input.advance(used);
            if let Some(received) = received {
                return received;
            }
        }
    }

    /// The next request, its body not yet read; `None` if the gateway closes the connection instead.
    pub fn request(&mut self) -> Option<Params> {
        match self.receive() {
            Received::Request(params) => Some(params),
            Received::Closed => None,
            other => panic!("a request was to come, not {other:?}"),
        }
    }

    /// The role in which it is asked.
    #[must_use]
    pub fn role(&self) -> Role {
        self.role
    }

    /// Reads the body to its end. How many bytes it has; `None` if the gateway cancels the request before.
    pub fn body(&mut self) -> Option<usize> {
        let mut all = 0;
        self.each_piece(|piece| all += piece.len()).then_some(all)
    }

    /// Reads the body to its end, and returns it; `None` if the gateway cancels the request before.
    pub fn body_bytes(&mut self) -> Option<Vec<u8>> {
        let mut all = Vec::new();
        self.each_piece(|piece| all.extend_from_slice(&piece)).then_some(all)
    }

    /// Whether the body has come to its end.
    fn each_piece(&mut self, mut take: impl FnMut(Vec<u8>)) -> bool {
        loop {
            match self.receive() {
                Received::Body(piece) => take(piece),
                Received::BodyEnd => return true,
                Received::Abort | Received::Closed => return false,
                Received::Request(params) => panic!("the body was to come, not {params:?}"),
            }
        }
    }

    /// Sends a piece of the answer.
    pub fn stdout(&mut self, bytes: &[u8]) {
        encode_stream(Kind::Stdout, self.id, bytes, &mut self.output);
        self.flush();
    }

    /// Sends pieces of both output streams for the request before this one. Ids are 1 and 2 by turns.
    pub fn late_records(&mut self, bytes: &[u8]) {
        let id = RequestId::new(3 - self.id.get()).expect("1 or 2");
        encode_stream(Kind::Stdout, id, bytes, &mut self.output);
        encode_stream(Kind::Stderr, id, bytes, &mut self.output);
        self.flush();
    }

    /// Says something for the log.
    pub fn stderr(&mut self, bytes: &[u8]) {
        encode_stream(Kind::Stderr, self.id, bytes, &mut self.output);
        self.flush();
    }

    /// Says that there is no more of the answer.
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

    /// Sends a whole answer.
    pub fn respond(&mut self, bytes: &[u8]) {
        encode_stream(Kind::Stdout, self.id, bytes, &mut self.output);
        encode_stream_end(Kind::Stdout, self.id, &mut self.output);
        self.end(ProtocolStatus::RequestComplete);
    }

    /// Reads nothing any more, and refuses what is sent.
    pub fn stop_reading(&self) {
        self.stream.shutdown(Shutdown::Read).expect("it is open");
    }

    /// Sends bytes that need not be FastCGI.
    pub fn send_raw(&mut self, bytes: &[u8]) {
        self.output.extend_from_slice(bytes);
        self.flush();
    }

    /// Whether there was something to read. A connection that was cut counts as closed.
    fn read(&mut self) -> bool {
        let mut room = [0; 16 * 1024];
        let read = match self.stream.read(&mut room) {
            Err(error) if matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe) => 0,
            read => read.expect("what has to come comes"),
        };
        self.input.extend_from_slice(&room[..read]);
        read > 0
    }

    /// That the gateway has closed already is no error: it may have had enough.
    fn flush(&mut self) {
        match self.stream.write_all(&self.output) {
            Err(error) if !matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset) => {
                panic!("sending: {error}")
            }
            _ => self.output.clear(),
        }
    }
}

/// The value of a variable as text.
#[must_use]
pub fn variable<'a>(params: &'a Params, name: &str) -> &'a str {
    std::str::from_utf8(params.get(name).unwrap_or_default()).expect("the test sends UTF-8")
}
