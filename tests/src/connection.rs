//! A connection on which a test says exactly the bytes it wants to.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};

use crate::response::read_chunk;
use crate::{PATIENCE, Response};

/// A TCP connection. Whatever must come is waited for, but not for ever.
pub struct Connection {
    stream: BufReader<TcpStream>,
}

impl Connection {
    /// Connects.
    #[must_use]
    pub fn open(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).expect("somebody listens there");
        stream.set_read_timeout(Some(PATIENCE)).expect("the time is not zero");
        stream.set_write_timeout(Some(PATIENCE)).expect("the time is not zero");
        stream.set_nodelay(true).expect("TCP has it");
        Self { stream: BufReader::new(stream) }
    }

    /// The socket, for what is not here.
    #[must_use]
    pub fn socket(&self) -> &TcpStream {
        self.stream.get_ref()
    }

    /// Sends bytes. That the peer has closed already is no error: its answer may be there all the same.
    pub fn send(&mut self, bytes: &[u8]) {
        match self.stream.get_mut().write_all(bytes) {
            Err(error) if !matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset) => {
                panic!("sending: {error}")
            }
            _ => {}
        }
    }

    /// Sends no more.
    pub fn finish(&mut self) {
        // It fails only if the peer has closed already.
        let _ = self.socket().shutdown(Shutdown::Write);
    }

    /// Reads one answer to a request that was not HEAD, interim ones (1xx) passed over.
    pub fn response(&mut self) -> Response {
        loop {
            let answer = Response::read(&mut self.stream, true);
            if answer.status >= 200 || answer.status == 101 {
                return answer;
            }
        }
    }

    /// Reads the answer to a HEAD: it has no body, whatever its fields say.
    pub fn head_response(&mut self) -> Response {
        Response::read(&mut self.stream, false)
    }

    /// Reads one answer, interim or not.
    pub fn next_response(&mut self) -> Response {
        Response::read(&mut self.stream, true)
    }

    /// Reads the head of an answer, and leaves its body to be read.
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

    /// Reads exactly so many bytes.
    pub fn read_exactly(&mut self, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        self.stream.read_exact(&mut bytes).expect("so many bytes come");
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

    /// Whether the peer has closed in order, with nothing more to read.
    pub fn is_closed(&mut self) -> bool {
        self.stream.fill_buf().is_ok_and(<[u8]>::is_empty)
    }
}
