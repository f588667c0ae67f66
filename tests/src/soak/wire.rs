//! A client's connection. Its methods return errors and never panic, because a panic would end only the client and not the run.

use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::time::Duration;

use rustix::net::sockopt::{set_socket_linger, set_socket_recv_buffer_size};

use super::stream::{Address, Stream};

/// Timeout of a client. All timeouts of the server that a client can trigger are shorter (`site`).
pub(super) const TIMEOUT: Duration = Duration::from_secs(30);
/// Receive buffer of a client that reads slowly, so that the kernel does not read ahead.
const SMALL_BUFFER: usize = 16 * 1024;

/// Why a response is not complete.
#[derive(Debug)]
pub(super) enum RequestError {
    /// The connection was closed before the first byte of a response.
    Closed,
    /// The connection was closed within a response.
    Truncated(String),
    /// Nothing was received within [`TIMEOUT`].
    Timeout(String),
    /// The response is invalid or has a wrong body.
    Invalid(String),
    /// The client cancelled the request.
    Cancelled,
}

/// The head of a response.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) status: u16,
    pub(super) closes: bool,
    framing: Framing,
}

#[derive(Debug, Clone, Copy)]
enum Framing {
    Length(usize),
    Chunked,
    Close,
}

/// A connection to the server.
pub(super) struct Wire {
    stream: BufReader<Stream>,
}

impl Wire {
    pub(super) fn open(address: &Address) -> Result<Self, RequestError> {
        let stream = Stream::open(address)
            .map_err(|error| RequestError::Invalid(format!("cannot connect: {error}")))?;
        Ok(Self { stream: BufReader::new(stream) })
    }

    /// Shrinks the receive buffer, so that the server has to wait for this client.
    pub(super) fn shrink_receive_buffer(&self) {
        // Fails only if the descriptor is not a socket.
        let _ = set_socket_recv_buffer_size(self.stream.get_ref().socket(), SMALL_BUFFER);
    }

    /// Sends bytes. Ignores a closed connection, because a response may have arrived before.
    pub(super) fn send(&mut self, bytes: &[u8]) -> Result<(), RequestError> {
        match self.stream.get_mut().write_all(bytes) {
            Err(error) if is_timeout(&error) => Err(RequestError::Timeout("the server does not read".into())),
            _ => Ok(()),
        }
    }

    /// Whether there is input to read.
    pub(super) fn has_input(&mut self) -> bool {
        !self.stream.buffer().is_empty() || self.stream.get_mut().has_input()
    }

    /// Closes the sending side.
    pub(super) fn half_close(&mut self) {
        self.stream.get_mut().half_close();
    }

    /// Closes the connection with a reset.
    pub(super) fn reset(self) {
        // Fails only if the descriptor is not a socket.
        let _ = set_socket_linger(self.stream.get_ref().socket(), Some(Duration::ZERO));
    }

    /// Waits until the server closes the connection, and ignores its output.
    pub(super) fn wait_for_end(&mut self) -> Result<(), RequestError> {
        loop {
            match self.stream.fill_buf().map(<[u8]>::len) {
                Ok(0) => return Ok(()),
                Ok(length) => self.stream.consume(length),
                Err(error) if is_timeout(&error) => {
                    return Err(RequestError::Timeout(
                        "the server did not close the connection of a silent client".into(),
                    ));
                }
                Err(_) => return Ok(()),
            }
        }
    }

    /// Reads the head of the next response.
    pub(super) fn head(&mut self) -> Result<Head, RequestError> {
        let line = self.line().map_err(|error| match error {
            RequestError::Truncated(read) if read.is_empty() => RequestError::Closed,
            error => error,
        })?;
        let status = line.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3)?.parse().ok());
        let status = status.ok_or_else(|| RequestError::Invalid(format!("no status line: {line:?}")))?;
        let mut head = Head { status, closes: false, framing: Framing::Close };
        loop {
            let line = self.line()?.to_ascii_lowercase();
            match line.split_once(':').map(|(name, value)| (name, value.trim())) {
                None => break,
                Some(("content-length", value)) => head.framing = Framing::Length(number(value, 10)?),
                Some(("transfer-encoding", "chunked")) => head.framing = Framing::Chunked,
                Some(("connection", "close")) => head.closes = true,
                Some(_) => {}
            }
        }
        if status == 204 {
            head.framing = Framing::Length(0);
        }
        Ok(head)
    }

    /// Reads the body after `head` and passes it to `each` in pieces.
    pub(super) fn body(
        &mut self,
        head: &Head,
        each: &mut impl FnMut(&[u8]) -> Result<(), RequestError>,
    ) -> Result<(), RequestError> {
        match head.framing {
            Framing::Length(length) => self.pieces(length, each),
            Framing::Chunked => {
                loop {
                    let line = self.line()?;
                    let length = number(&line, 16)?;
                    self.pieces(length, each)?;
                    // After a chunk, and after the last one.
                    if !self.line()?.is_empty() {
                        return Err(RequestError::Invalid("no CRLF after a chunk".into()));
                    }
                    if length == 0 {
                        return Ok(());
                    }
                }
            }
            Framing::Close => {
                Err(RequestError::Invalid("a body without a length on a keep-alive connection".into()))
            }
        }
    }

    fn pieces(
        &mut self,
        mut left: usize,
        each: &mut impl FnMut(&[u8]) -> Result<(), RequestError>,
    ) -> Result<(), RequestError> {
        while left > 0 {
            let piece = self.stream.fill_buf().map_err(|error| request_error(&error, "in a body"))?;
            if piece.is_empty() {
                return Err(RequestError::Truncated(format!(
                    "{left} bytes before the end of a length or chunk"
                )));
            }
            let length = piece.len().min(left);
            each(&piece[..length])?;
            self.stream.consume(length);
            left -= length;
        }
        Ok(())
    }

    /// Reads a line without its line ending.
    fn line(&mut self) -> Result<String, RequestError> {
        let mut line = Vec::new();
        let read = self.stream.by_ref().take(64 * 1024).read_until(b'\n', &mut line);
        read.map_err(|error| request_error(&error, "in a head").empty_if_unstarted(&line))?;
        let line = String::from_utf8_lossy(&line);
        line.strip_suffix("\r\n")
            .map(str::to_owned)
            .ok_or_else(|| RequestError::Truncated(line.clone().into_owned()))
    }
}

impl RequestError {
    /// Removes the text if the connection ended before the line began.
    fn empty_if_unstarted(self, line: &[u8]) -> Self {
        match self {
            Self::Truncated(_) if line.is_empty() => Self::Truncated(String::new()),
            error => error,
        }
    }
}

pub(super) fn request_error(error: &io::Error, place: &str) -> RequestError {
    if is_timeout(error) {
        RequestError::Timeout(format!("no input for {} s {place}", TIMEOUT.as_secs()))
    } else {
        RequestError::Truncated(format!("{error} {place}"))
    }
}

pub(super) fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

fn number(text: &str, radix: u32) -> Result<usize, RequestError> {
    usize::from_str_radix(text, radix).map_err(|_| RequestError::Invalid(format!("invalid length: {text:?}")))
}
