//! Servers with HTTP/2 for tests of its client: nginx, and one in this process that does what a test needs.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Instant, SystemTime};

use bytes::BytesMut;
use http::{HeaderMap, StatusCode};
use rudy_http::Limits;
use rudy_http::h2::{ErrorCode, Event, HeadBuffers, ServerConnection};
use rudy_message::{DateLine, ResponseHead};
use rustix::process::{Pid, Signal, kill_process};

use crate::{Files as _, Folder, ReservedPort, eventually, program};

/// A server program in its own folder, stopped when dropped.
pub struct Peer {
    child: Child,
    address: SocketAddr,
    _port: ReservedPort,
    folder: Folder,
}

impl Peer {
    /// Starts a program and waits until it listens. `prepare` gets the folder and the address, writes the files that the program
    /// needs, and returns its arguments. Returns `None` after [`crate::skip`].
    /// Panics if the program does not start.
    pub fn start(name: &str, prepare: impl FnOnce(&Path, SocketAddr) -> Vec<String>) -> Option<Self> {
        let program = program(name)?;
        let folder = Folder::new();
        let port = ReservedPort::new();
        let address = port.address();
        let mut command = Command::new(program);
        command.args(prepare(folder.path(), address)).current_dir(folder.path());
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let child = child.expect("the program can be started");
        eventually(&format!("{name} listens"), || TcpStream::connect(address).ok());
        Some(Self { child, address, _port: port, folder })
    }

    /// Starts nginx with HTTP/2. `tls` has the files of a certificate and its key. `directives` are those of the server, whose
    /// root is a folder with `hello` (5 bytes) and `large` (300,000 bytes).
    /// Panics if nginx does not start.
    pub fn nginx(tls: Option<(&str, &str)>, directives: &str) -> Option<Self> {
        Self::nginx_with(|folder, address| {
            write_files(folder);
            let (ssl, files) = match tls {
                Some((certificate, key)) => {
                    (" ssl", format!("ssl_certificate {certificate}; ssl_certificate_key {key};"))
                }
                None => ("", String::new()),
            };
            let root = folder.join("www");
            format!("server {{ listen {address}{ssl} http2; {files} root {}; {directives} }}", root.display())
        })
    }

    /// Starts nginx. `directives` gets its folder and its address, and returns the directives of `http`.
    /// Panics if nginx does not start.
    pub fn nginx_with(directives: impl FnOnce(&Path, SocketAddr) -> String) -> Option<Self> {
        Self::start("nginx", |folder, address| nginx_arguments(folder, &directives(folder, address)))
    }

    /// The address of the server.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// A URL of the server.
    pub fn url(&self, scheme: &str, path: &str) -> String {
        format!("{scheme}://localhost:{}{path}", self.address.port())
    }

    /// The folder of the server.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }
}

impl Drop for Peer {
    /// Sends SIGTERM, so that the program ends its workers.
    fn drop(&mut self) {
        // Fails only if the program has already exited.
        let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        let _ = self.child.wait();
    }
}

/// Returns the arguments for nginx, whose files are all in `folder`, with these directives of `http`.
/// Panics if a file cannot be written.
pub fn nginx_arguments(folder: &Path, directives: &str) -> Vec<String> {
    let here = folder.display();
    let user = if rustix::process::geteuid().is_root() { "user root;" } else { "" };
    let temp = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
    let temp = temp.map(|name| format!("{name}_temp_path {here}/{name};")).concat();
    let text = format!(
        "{user} daemon off; worker_processes 1; pid {here}/pid; error_log {here}/error.log info;\n\
         events {{ worker_connections 1024; }}\nhttp {{ access_log off; {temp}\n{directives} }}\n"
    );
    vec!["-c".into(), folder.write("nginx.conf", text).display().to_string(), "-p".into(), here.to_string()]
}

/// Writes `www/hello` and `www/large`.
/// Panics if a file cannot be written.
pub fn write_files(folder: &Path) {
    folder.write("www/hello", "hello");
    folder.write("www/large", vec![b'x'; 300_000]);
}

/// What a [`start_http2_server`] does with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reply {
    /// A response with this status and the body `hello`.
    Status(u16),
    /// The stream is reset with this code.
    Reset(ErrorCode),
    /// A response with this status, and the end of the connection, which processes no later requests.
    LastStatus(u16),
    /// GOAWAY with this code, and the end of the connection without a response.
    Close(ErrorCode),
}

/// Starts a server without TLS in threads of this process. `reply` gets the number of the connection and of the request on it, both
/// from 0.
/// Panics if no port is free.
pub fn start_http2_server(
    streams: u32,
    reply: impl Fn(usize, usize) -> Reply + Send + Sync + Clone + 'static,
) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("a bound socket has an address");
    thread::spawn(move || {
        for (number, stream) in listener.incoming().enumerate() {
            let (Ok(stream), reply) = (stream, reply.clone()) else { return };
            thread::spawn(move || serve(&stream, streams, |request| reply(number, request)));
        }
    });
    address
}

/// Serves a connection until it ends.
fn serve(mut stream: &TcpStream, streams: u32, reply: impl Fn(usize) -> Reply) -> Option<()> {
    let (mut limits, mut out, now) = (Limits::default(), BytesMut::new(), Instant::now());
    limits.http2.streams = streams;
    let mut connection = ServerConnection::new(now, false, &limits, &mut out);
    let (mut buffers, mut scratch, mut requests) = (HeadBuffers::default(), vec![0; 65_536], 0);
    loop {
        stream.write_all(&out.split()).ok()?;
        if connection.is_over() {
            return Some(());
        }
        let received = stream.read(&mut scratch).ok().filter(|received| *received > 0)?;
        let mut input = &scratch[..received];
        while let Some(event) = connection.receive(&mut input, &mut buffers, now, &limits, &mut out).ok()? {
            let stream_number = match event {
                Event::Request { stream, .. } => stream,
                Event::Data { stream, data, .. } => {
                    let length = data.len();
                    connection.pass_on(stream, length, &mut out);
                    continue;
                }
                _ => continue,
            };
            let number = requests;
            requests += 1;
            match reply(number) {
                Reply::Reset(code) => connection.reset(stream_number, code, now, &mut out),
                Reply::Status(status) => respond(&mut connection, stream_number, status, now, &mut out),
                Reply::LastStatus(status) => {
                    connection.stop_accepting(&mut out);
                    respond(&mut connection, stream_number, status, now, &mut out);
                }
                Reply::Close(code) => {
                    let error = rudy_http::h2::ConnectionError { code, reason: "for a test" };
                    connection.fail(error, &mut out);
                    stream.write_all(&out.split()).ok()?;
                    // A close with unread input would be a reset, which can overtake GOAWAY.
                    stream.shutdown(Shutdown::Write).ok()?;
                    while stream.read(&mut scratch).ok()? > 0 {}
                    return None;
                }
            }
        }
    }
}

fn respond(connection: &mut ServerConnection, stream: u32, status: u16, now: Instant, out: &mut BytesMut) {
    let (fields, date) = (HeaderMap::new(), DateLine::new(SystemTime::UNIX_EPOCH));
    let status = StatusCode::from_u16(status).expect("a status");
    connection.begin(stream, ResponseHead::Fields(status, &fields), Some(5), &date, out);
    connection.encode_piece(stream, b"hello", out).expect("the length matches, and the window is open");
    connection.close(stream, now);
}
