//! A client's connection, on which everything that can go wrong is a value: a panic would end the client, not the run.

use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use rustix::net::sockopt::{set_socket_linger, set_socket_recv_buffer_size};

/// How long a client waits for the next byte. Every wait of the server that a client can cause is shorter (`site`).
pub(super) const HANG: Duration = Duration::from_secs(30);
/// The receive buffer of a client that reads slowly: the kernel must not read for it.
const SMALL_BUFFER: usize = 16 * 1024;

/// Why there is no whole response.
#[derive(Debug)]
pub(super) enum Lost {
    /// The connection was closed before the first byte of a response.
    Closed,
    /// The connection was closed in the middle of a response.
    Cut(String),
    /// Nothing came for [`HANG`].
    Hang(String),
    /// What came is wrong.
    Wrong(String),
    /// The client itself did not want the rest.
    GivenUp,
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
    stream: BufReader<TcpStream>,
}

impl Wire {
    pub(super) fn open(address: SocketAddr) -> Result<Self, Lost> {
        let open = || {
            let stream = TcpStream::connect_timeout(&address, HANG)?;
            stream.set_read_timeout(Some(HANG))?;
            stream.set_write_timeout(Some(HANG))?;
            stream.set_nodelay(true)?;
            Ok(stream)
        };
        let stream = open().map_err(|error: io::Error| Lost::Wrong(format!("cannot connect: {error}")))?;
        Ok(Self { stream: BufReader::new(stream) })
    }

    /// Has the server wait for this client.
    pub(super) fn reads_slowly(&self) {
        // It fails only if the descriptor is no socket.
        let _ = set_socket_recv_buffer_size(self.stream.get_ref(), SMALL_BUFFER);
    }

    /// Sends bytes. A closed connection is no failure yet: a response may have come before.
    pub(super) fn send(&mut self, bytes: &[u8]) -> Result<(), Lost> {
        match self.stream.get_mut().write_all(bytes) {
            Err(error) if is_timeout(&error) => Err(Lost::Hang("the server reads nothing".into())),
            _ => Ok(()),
        }
    }

    /// Whether there is something to read now.
    pub(super) fn has_input(&self) -> bool {
        let stream = self.stream.get_ref();
        let peek = || {
            stream.set_nonblocking(true)?;
            let peeked = stream.peek(&mut [0]);
            stream.set_nonblocking(false)?;
            peeked
        };
        !self.stream.buffer().is_empty() || !peek().is_err_and(|error| is_timeout(&error))
    }

    /// Closes the sending side.
    pub(super) fn half_close(&self) {
        // It fails only if the peer has reset the connection.
        let _ = self.stream.get_ref().shutdown(Shutdown::Write);
    }

    /// Closes the connection with a reset.
    pub(super) fn reset(self) {
        // It fails only if the descriptor is no socket.
        let _ = set_socket_linger(self.stream.get_ref(), Some(Duration::ZERO));
    }

    /// Waits until the server ends the connection, whatever it sends before.
    pub(super) fn wait_for_end(&mut self) -> Result<(), Lost> {
        loop {
            match self.stream.fill_buf().map(<[u8]>::len) {
                Ok(0) => return Ok(()),
                Ok(length) => self.stream.consume(length),
                Err(error) if is_timeout(&error) => {
                    return Err(Lost::Hang(
                        "the server does not close the connection of a silent client".into(),
                    ));
                }
                Err(_) => return Ok(()),
            }
        }
    }

    /// Reads the head of the next response.
    pub(super) fn head(&mut self) -> Result<Head, Lost> {
        let line = self.line().map_err(|lost| match lost {
            Lost::Cut(read) if read.is_empty() => Lost::Closed,
            lost => lost,
        })?;
        let status = line.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3)?.parse().ok());
        let status = status.ok_or_else(|| Lost::Wrong(format!("no status line: {line:?}")))?;
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

    /// Reads the body that follows `head` and hands it over piece by piece.
    pub(super) fn body(
        &mut self,
        head: &Head,
        each: &mut impl FnMut(&[u8]) -> Result<(), Lost>,
    ) -> Result<(), Lost> {
        match head.framing {
            Framing::Length(length) => self.pieces(length, each),
            Framing::Chunked => {
                loop {
                    let line = self.line()?;
                    let length = number(&line, 16)?;
                    self.pieces(length, each)?;
                    // After a chunk, and after the last one.
                    if !self.line()?.is_empty() {
                        return Err(Lost::Wrong("no CRLF after a chunk".into()));
                    }
                    if length == 0 {
                        return Ok(());
                    }
                }
            }
            Framing::Close => Err(Lost::Wrong("a body without a length on a kept connection".into())),
        }
    }

    fn pieces(
        &mut self,
        mut left: usize,
        each: &mut impl FnMut(&[u8]) -> Result<(), Lost>,
    ) -> Result<(), Lost> {
        while left > 0 {
            let piece = self.stream.fill_buf().map_err(|error| lost(&error, "in a body"))?;
            if piece.is_empty() {
                return Err(Lost::Cut(format!("{left} bytes before the end of a length or chunk")));
            }
            let length = piece.len().min(left);
            each(&piece[..length])?;
            self.stream.consume(length);
            left -= length;
        }
        Ok(())
    }

    /// Reads a line, without its end.
    fn line(&mut self) -> Result<String, Lost> {
        let mut line = Vec::new();
        let read = self.stream.by_ref().take(64 * 1024).read_until(b'\n', &mut line);
        read.map_err(|error| lost(&error, "in a head").unless_begun(&line))?;
        let line = String::from_utf8_lossy(&line);
        line.strip_suffix("\r\n").map(str::to_owned).ok_or_else(|| Lost::Cut(line.clone().into_owned()))
    }
}

impl Lost {
    /// A connection that ends before a line has begun has no text.
    fn unless_begun(self, line: &[u8]) -> Self {
        match self {
            Self::Cut(_) if line.is_empty() => Self::Cut(String::new()),
            lost => lost,
        }
    }
}

fn lost(error: &io::Error, place: &str) -> Lost {
    if is_timeout(error) {
        Lost::Hang(format!("nothing came for {} s {place}", HANG.as_secs()))
    } else {
        Lost::Cut(format!("{error} {place}"))
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

fn number(text: &str, radix: u32) -> Result<usize, Lost> {
    usize::from_str_radix(text, radix).map_err(|_| Lost::Wrong(format!("no length: {text:?}")))
}
