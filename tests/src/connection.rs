//! A connection on which a test sends arbitrary bytes.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use rustix::net::sockopt::set_socket_linger;

use crate::response::read_chunk;
use crate::{PATIENCE, Response};

/// Sends `request` on a new connection to a Unix socket, closes the sending side, and returns the response.
pub fn exchange_unix(socket: &Path, request: impl AsRef<[u8]>) -> String {
    let mut stream = UnixStream::connect(socket).expect("the server listens");
    // The server may close before it has read everything, which can reset the connection after the response.
    let (mut response, _) = (Vec::new(), stream.write_all(request.as_ref()));
    let _ = stream.shutdown(Shutdown::Write);
    let _ = stream.read_to_end(&mut response);
    String::from_utf8(response).expect("the server responds with text")
}

/// A TCP connection with timeouts.
pub struct Connection {
    stream: BufReader<TcpStream>,
}

impl Connection {
    /// Connects.
    pub fn open(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).expect("the server listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("the timeout is not zero");
        stream.set_write_timeout(Some(PATIENCE)).expect("the timeout is not zero");
        stream.set_nodelay(true).expect("TCP supports it");
        Self { stream: BufReader::new(stream) }
    }

    /// Connects, and sends `bytes`.
    pub fn send_to(address: SocketAddr, bytes: impl AsRef<[u8]>) -> Self {
        let mut connection = Self::open(address);
        connection.send(bytes.as_ref());
        connection
    }

    /// Returns the socket, for operations that are not here.
    pub fn socket(&self) -> &TcpStream {
        self.stream.get_ref()
    }

    /// Sends bytes. Ignores that the peer has closed the connection, because its response can still be read.
    pub fn send(&mut self, bytes: &[u8]) {
        match self.stream.get_mut().write_all(bytes) {
            Err(error) if !matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset) => {
                panic!("sending: {error}")
            }
            _ => {}
        }
    }

    /// Sends a request without a body with these field lines, and reads the final response. Without a Host among them, it is `test`.
    pub fn exchange(&mut self, method: &str, target: &str, fields: &[&str]) -> Response {
        let has_host =
            fields.iter().any(|field| field.get(..5).is_some_and(|name| name.eq_ignore_ascii_case("host:")));
        let host = if has_host { "" } else { "Host: test\r\n" };
        let fields: String = fields.iter().flat_map(|field| [field, "\r\n"]).collect();
        self.send(format!("{method} {target} HTTP/1.1\r\n{host}{fields}\r\n").as_bytes());
        if method == "HEAD" { self.head_response() } else { self.response() }
    }

    /// Sends a GET, as [`Self::exchange`].
    pub fn get(&mut self, target: &str, fields: &[&str]) -> Response {
        self.exchange("GET", target, fields)
    }

    /// Closes the connection with a reset.
    pub fn reset(self) {
        set_socket_linger(self.socket(), Some(Duration::ZERO)).expect("TCP supports it");
    }

    /// Closes the sending side.
    pub fn finish(&mut self) {
        // Fails only if the peer has already closed the connection.
        let _ = self.socket().shutdown(Shutdown::Write);
    }

    /// Reads the final response to a request that was not HEAD. Skips interim responses (1xx).
    pub fn response(&mut self) -> Response {
        loop {
            let response = Response::read(&mut self.stream, true);
            if response.status >= 200 || response.status == 101 {
                return response;
            }
        }
    }

    /// Reads the response to a HEAD, which has no body.
    pub fn head_response(&mut self) -> Response {
        Response::read(&mut self.stream, false)
    }

    /// Reads the next response, interim or final.
    pub fn next_response(&mut self) -> Response {
        Response::read(&mut self.stream, true)
    }

    /// Reads the head of a response, but not its body.
    pub fn head(&mut self) -> Response {
        Response::read(&mut self.stream, false)
    }

    /// Reads one chunk of a body, as text; `None` at its end.
    pub fn chunk(&mut self) -> Option<String> {
        let mut chunk = Vec::new();
        read_chunk(&mut self.stream, &mut chunk)
            .then(|| String::from_utf8(chunk).expect("the chunk is UTF-8"))
    }

    /// Appends one chunk of a body; false at its end.
    pub fn chunk_bytes(&mut self, body: &mut Vec<u8>) -> bool {
        read_chunk(&mut self.stream, body)
    }

    /// Reads exactly `length` bytes.
    pub fn read_exactly(&mut self, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        self.stream.read_exact(&mut bytes).expect("the peer sends enough bytes");
        bytes
    }

    /// Reads until the peer closes the connection. A reset counts as the end.
    pub fn read_to_end(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        match self.stream.read_to_end(&mut bytes) {
            Err(error) if error.kind() != ErrorKind::ConnectionReset => {
                panic!("reading to the end: {error}; so far: {:?}", String::from_utf8_lossy(&bytes))
            }
            _ => bytes,
        }
    }

    /// Returns whether the peer has closed the connection cleanly, and all data was read.
    pub fn is_closed(&mut self) -> bool {
        self.stream.fill_buf().is_ok_and(<[u8]>::is_empty)
    }
}
