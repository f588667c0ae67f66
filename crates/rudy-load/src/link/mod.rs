//! A client's connection to a server: a socket that never blocks, with TLS around it where the URL says so.
//!
//! Nothing here waits. Whoever drives it asks the kernel when to go on: `get` with `poll`, the generators with `epoll`,
//! so that one and the same connection is taken apart by the one and multiplied by the others.

mod connect;
mod tls;

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;

use rudy_net::close::{CloseMode, close_at_once};
use rustix::net::{RecvFlags, SendFlags};
use socket2::Socket;

pub use self::tls::Security;
use self::tls::Session;

/// Where to connect to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Remote {
    /// An address and a port.
    Ip(SocketAddr),
    /// A socket in the file system.
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

/// Something over which bytes go both ways, none of which blocks.
#[derive(Debug)]
pub(crate) struct Link {
    socket: Socket,
    /// A session takes kilobytes; most links have none.
    session: Option<Box<Session>>,
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Link {
    /// Whether the connection stands. The error is what became of `connect`.
    pub(crate) fn connected(&self) -> io::Result<bool> {
        if let Some(error) = self.socket.take_error()? {
            return Err(error);
        }
        match self.socket.peer_addr() {
            Err(error) if error.kind() == io::ErrorKind::NotConnected => Ok(false),
            result => result.map(|_| true),
        }
    }

    /// Begins TLS on a link that is connected.
    pub(crate) fn secure(&mut self, security: &Security) -> io::Result<()> {
        self.session = Some(Box::new(Session::new(security)?));
        Ok(())
    }

    /// Goes on with the handshake as far as what has come allows. True once it is done.
    pub(crate) fn handshake(&mut self) -> io::Result<bool> {
        match &mut self.session {
            Some(session) => session.handshake(&mut Wire(&self.socket)),
            None => Ok(true),
        }
    }

    /// What TLS was agreed on, once the handshake is done.
    pub(crate) fn agreed(&self) -> Option<String> {
        self.session.as_ref().and_then(|session| session.agreed())
    }

    /// Reads what there is. `Ok(0)` is the end. Whether TLS holds more is known only when it says that it would block.
    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match &mut self.session {
            Some(session) => session.read(&mut Wire(&self.socket), buffer),
            None => receive(&self.socket, buffer),
        }
    }

    /// Writes what there is room for. TLS takes a piece and keeps the rest of its record: see [`Self::flush`].
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.session {
            Some(session) => session.write(&mut Wire(&self.socket), bytes),
            None => send(&self.socket, bytes),
        }
    }

    /// Sends what TLS still holds. True when nothing is left.
    pub(crate) fn flush(&mut self) -> io::Result<bool> {
        match &mut self.session {
            Some(session) => session.flush(&mut Wire(&self.socket)),
            None => Ok(true),
        }
    }

    /// Whether TLS holds something that there was no room for.
    pub(crate) fn wants_to_write(&self) -> bool {
        self.session.as_ref().is_some_and(|session| session.wants_to_write())
    }

    /// Whether the socket ended before TLS said that nothing more comes: then nobody knows whether it was the server's end.
    pub(crate) fn is_truncated(&self) -> bool {
        self.session.as_ref().is_some_and(|session| session.is_truncated())
    }

    pub(crate) fn is_secure(&self) -> bool {
        self.session.is_some()
    }

    /// The address at our end, where there is one.
    pub(crate) fn local(&self) -> Option<SocketAddr> {
        self.socket.local_addr().ok()?.as_socket()
    }

    /// Ends the connection, TLS first.
    pub(crate) fn close(mut self, mode: CloseMode) {
        if let Some(session) = &mut self.session
            && mode != CloseMode::Reset
        {
            session.say_goodbye(&mut Wire(&self.socket));
        }
        close_at_once(self, mode);
    }
}

/// The socket as rustls wants it.
struct Wire<'a>(&'a Socket);

impl io::Read for Wire<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        receive(self.0, buffer)
    }
}

impl io::Write for Wire<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        send(self.0, bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

// Not by the C library, whose `recv` and `send` can be cancelled by `pthread_cancel` and, in a process with threads, say so
// before and after each call with two locked instructions each.
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
