//! The transport of a client connection: a non-blocking socket, with TLS for `https`.
//!
//! No function blocks. The callers wait for readiness: `get` with `poll`, the load generators with `epoll`.

mod connect;
mod explain;
mod tls;
mod traffic;

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;

use rudy_socket::close::{CloseMode, close_at_once};
use rustix::net::{RecvFlags, SendFlags};
use rustls::ClientConnection;
use socket2::Socket;

pub(crate) use self::connect::tcp;
pub use self::explain::HandshakeError;
pub use self::tls::Security;
use self::tls::Session;
pub use self::tls::{EarlyData, Handshake};
pub use self::traffic::{Packets, Traffic};

/// The address of a server.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Remote {
    /// An address and a port.
    Ip(SocketAddr),
    /// A Unix socket.
    Unix(PathBuf),
}

impl std::fmt::Display for Remote {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Ip(address) => write!(f, "{address}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// A non-blocking byte stream in both directions: TCP or a Unix socket, with or without TLS.
#[derive(Debug)]
pub struct Transport {
    socket: Socket,
    /// Boxed, because a TLS session takes kilobytes and most transports have none.
    session: Option<Box<Session>>,
    /// Counts TLS only: without it, the sizes of heads and bodies are those of the protocol.
    traffic: Traffic,
}

impl AsFd for Transport {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Transport {
    /// Whether TCP is connected. The error is that of `connect`.
    pub fn connected(&self) -> io::Result<bool> {
        if let Some(error) = self.socket.take_error()? {
            return Err(error);
        }
        match self.socket.peer_addr() {
            Err(error) if error.kind() == io::ErrorKind::NotConnected => Ok(false),
            result => result.map(|_| true),
        }
    }

    /// The address of the server.
    pub fn remote_address(&self) -> io::Result<SocketAddr> {
        let address = self.socket.peer_addr()?.as_socket();
        address.ok_or_else(|| io::Error::other("the server has no IP address"))
    }

    /// Starts TLS on a connected transport.
    pub fn start_tls(&mut self, security: &Security) -> io::Result<()> {
        self.session = Some(Box::new(Session::new(security)?));
        Ok(())
    }

    /// Continues the handshake as far as possible. Returns true when it is complete.
    pub fn handshake(&mut self) -> io::Result<bool> {
        match &mut self.session {
            Some(session) => session.handshake(&mut SocketIo(&self.socket, &mut self.traffic)),
            None => Ok(true),
        }
    }

    /// Sends as much as the TLS session allows as early data, before the handshake. Returns the number of bytes.
    pub fn write_early(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.session.as_mut().map_or(Ok(0), |session| session.write_early(bytes))
    }

    /// The result of the TLS handshake, after it; `None` without TLS.
    #[must_use]
    pub fn tls_handshake(&self) -> Option<Handshake> {
        self.session.as_ref().map(|session| session.result())
    }

    /// The session of rustls; `None` without TLS.
    #[must_use]
    pub fn tls(&self) -> Option<&ClientConnection> {
        self.session.as_ref().map(|session| session.tls())
    }

    /// The bytes and round trips of TLS so far.
    #[must_use]
    pub fn traffic(&self) -> Traffic {
        self.traffic
    }

    /// The packets of the connection so far; `None` for a Unix socket.
    #[must_use]
    pub fn packets(&self) -> Option<Packets> {
        Packets::of(&self.socket)
    }

    /// The negotiated TLS version, such as `TLSv1.3`, and the cipher suite, after the handshake.
    #[must_use]
    pub fn version_and_suite(&self) -> Option<(&'static str, String)> {
        self.session.as_ref().and_then(|session| session.version_and_suite())
    }

    /// The group of the key exchange, after the handshake.
    #[must_use]
    pub fn key_exchange_group(&self) -> Option<String> {
        self.session.as_ref().and_then(|session| session.key_exchange_group())
    }

    /// The protocol that the server has chosen with ALPN, after the handshake.
    #[must_use]
    pub fn application_protocol(&self) -> Option<&[u8]> {
        self.session.as_ref().and_then(|session| session.application_protocol())
    }

    /// Reads available data. `Ok(0)` is the end. Only `WouldBlock` shows that the TLS buffer is empty.
    pub fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match &mut self.session {
            Some(session) => session.read(&mut SocketIo(&self.socket, &mut self.traffic), buffer),
            None => receive(&self.socket, buffer),
        }
    }

    /// Writes as much as fits. TLS accepts a part and buffers the rest of its record: see [`Self::flush`].
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.session {
            Some(session) => session.write(&mut SocketIo(&self.socket, &mut self.traffic), bytes),
            None => send(&self.socket, bytes),
        }
    }

    /// Sends the TLS buffer. Returns true when it is empty.
    pub fn flush(&mut self) -> io::Result<bool> {
        match &mut self.session {
            Some(session) => session.flush(&mut SocketIo(&self.socket, &mut self.traffic)),
            None => Ok(true),
        }
    }

    /// Whether the TLS buffer holds data that did not fit into the socket.
    #[must_use]
    pub fn wants_to_write(&self) -> bool {
        self.session.as_ref().is_some_and(|session| session.wants_to_write())
    }

    /// Whether the socket ended without a TLS close, so the data may be truncated.
    #[must_use]
    pub fn is_truncated(&self) -> bool {
        self.session.as_ref().is_some_and(|session| session.is_truncated())
    }

    /// Whether it uses TLS.
    #[must_use]
    pub fn is_secure(&self) -> bool {
        self.session.is_some()
    }

    /// The local address and port; `None` for a Unix socket.
    #[must_use]
    pub fn local_address(&self) -> Option<SocketAddr> {
        self.socket.local_addr().ok()?.as_socket()
    }

    /// Closes the connection, TLS first.
    pub fn close(mut self, mode: CloseMode) {
        if let Some(session) = &mut self.session
            && mode != CloseMode::Reset
        {
            session.send_close_notify(&mut SocketIo(&self.socket, &mut self.traffic));
        }
        close_at_once(self, mode);
    }
}

/// Adapts the socket to the traits that rustls reads from and writes to, and counts.
struct SocketIo<'a>(&'a Socket, &'a mut Traffic);

impl io::Read for SocketIo<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = receive(self.0, buffer)?;
        self.1.add_received(read);
        Ok(read)
    }
}

impl io::Write for SocketIo<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = send(self.0, bytes)?;
        self.1.add_sent(written);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

// Avoid the C library: its `recv` and `send` are cancellation points, which cost two locked instructions
// before and after each call in a process with threads.
fn receive(socket: &Socket, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        match rustix::net::recv(socket, &mut *buffer, RecvFlags::empty()) {
            Err(rustix::io::Errno::INTR) => {}
            Ok((_, received)) => return Ok(received),
            Err(error) => return Err(error.into()),
        }
    }
}

fn send(socket: &Socket, bytes: &[u8]) -> io::Result<usize> {
    loop {
        match rustix::net::send(socket, bytes, SendFlags::NOSIGNAL) {
            Err(rustix::io::Errno::INTR) => {}
            result => return Ok(result?),
        }
    }
}
