//! Transports: sockets, and sessions over sockets.
//!
//! The driver is compiled once, for [`Stream`]. Sockets are variants of it; other transports cost a virtual
//! call of about 2 ns.

use std::fs::File;
use std::ops::{Deref, DerefMut};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::{fmt, io};

use bytes::Bytes;
use rudy_service::{Piped, TlsChoice};
use rudy_socket::close::stop_writing;
use rudy_tls::{ClientHello, Tls};
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags};
use tokio::io::{Interest, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

use crate::scratch::Scratch;
use crate::wire::delegate_wire;
pub use crate::wire::{PeerClose, Wire};

/// A read of fewer bytes costs more than its bytes, and should complete something. A packet of a client has more, unless it is
/// the end of a message.
pub(crate) const PARTIAL_READ_BYTES: usize = 256;

/// A piece that is copied: a record of TLS.
const PIECE_BYTES: usize = 16 * 1024;

/// A byte stream with the operations that a server needs.
pub trait Transport: Wire {
    /// Performs the handshake of a session such as TLS. Ready at once if the transport has none. `choose` returns the
    /// settings for the client.
    ///
    /// # Errors
    ///
    /// The handshake failed, or the socket is broken. The connection is closed.
    fn poll_handshake(
        &mut self,
        _cx: &mut Context<'_>,
        _choose: &mut ChooseSite<'_>,
    ) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// Returns the result of the handshake; `None` for an unencrypted connection.
    fn tls(&self) -> Option<&Arc<Tls>> {
        None
    }

    /// Returns the handshake that ended without a session here, because it is [that of another server](TlsChoice::Pass).
    fn passed(&self) -> Option<&PassedHandshake> {
        None
    }

    /// Returns the connection of a [passed handshake](Self::passed), and what was received on it. `None` without one.
    #[must_use]
    fn into_passed(self: Box<Self>) -> Option<(Stream, Bytes)> {
        None
    }

    /// Moves up to `max` received bytes into a pipe. `None` if there are none as far as the runtime knows, and for a session. Only a
    /// [plain socket](Stream::plain_socket) can.
    ///
    /// # Errors
    ///
    /// The socket is broken.
    fn take_piped(&mut self, _max: u64) -> io::Result<Option<Piped>> {
        Ok(None)
    }

    /// Reads into `buffer`. An unchanged buffer means the end of the input.
    ///
    /// # Errors
    ///
    /// The socket or the session is broken.
    fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>>;

    /// Discards input after [`Self::poll_shutdown`]. Ready with the number of bytes; none at the end of the input. A session
    /// that cannot read any more discards what its socket receives.
    ///
    /// # Errors
    ///
    /// The socket or the session is broken.
    fn poll_discard(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let mut scratch = Scratch::borrow();
        let mut buffer = ReadBuf::new(&mut scratch.input);
        ready!(self.poll_read(cx, &mut buffer))?;
        Poll::Ready(Ok(buffer.filled().len()))
    }

    /// Writes the slices in order, and returns the number of bytes accepted. `more` announces that data
    /// follows at once, so that a head and the file after it share a packet.
    ///
    /// # Errors
    ///
    /// The socket or the session is broken.
    fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
        more: bool,
    ) -> Poll<io::Result<usize>>;

    /// Writes buffered data to the kernel. Ready at once if the transport does not buffer.
    ///
    /// # Errors
    ///
    /// The socket or the session is broken.
    fn poll_flush(&mut self, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// Returns how much of a large piece to copy for one [write](Self::poll_write), since a session transforms the bytes. `None` for a
    /// socket, to which the kernel sends files.
    fn piece_bytes(&self) -> Option<usize> {
        Some(PIECE_BYTES)
    }

    /// Sends a piece of `file`. `Ok(0)` means the end of the file. Only a transport without [`Self::piece_bytes`] can.
    ///
    /// # Errors
    ///
    /// The file cannot be read, the socket is broken, or the transport is a session.
    fn poll_send_file(
        &mut self,
        _cx: &mut Context<'_>,
        _file: &File,
        _offset: u64,
        _length: usize,
    ) -> Poll<io::Result<usize>> {
        Poll::Ready(Err(io::ErrorKind::Unsupported.into()))
    }

    /// Sends bytes of a pipe, which are left in it otherwise. Only a [plain socket](Stream::plain_socket) can.
    ///
    /// # Errors
    ///
    /// The socket is broken, or the transport is a session.
    fn poll_send_piped(&mut self, _cx: &mut Context<'_>, _piped: &mut Piped) -> Poll<io::Result<usize>> {
        Poll::Ready(Err(io::ErrorKind::Unsupported.into()))
    }

    /// Closes the write side. A session first sends its close notification, which may have to wait for the
    /// socket.
    ///
    /// # Errors
    ///
    /// The socket or the session is broken.
    fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Returns how many bytes the peer has not acknowledged yet, including buffered ones. The number falls
    /// while the peer reads, long before the socket is writable again: the kernel waits until a third of its
    /// buffer is free, which may be more than a megabyte.
    ///
    /// # Errors
    ///
    /// The kernel cannot provide the number.
    fn unacknowledged(&self) -> io::Result<u64>;

    /// Whether input from the peer is waiting to be read, not counting the end of the input.
    fn has_unread(&self) -> bool;

    /// Returns the number of reads since the last call that gave the reader nothing, such as those of a few bytes of a record of
    /// TLS.
    fn take_empty_reads(&mut self) -> u32 {
        0
    }
}

/// Chooses what to do with the handshake of a client.
pub type ChooseSite<'a> = dyn FnMut(&ClientHello, &dyn Wire) -> Option<TlsChoice> + 'a;

/// The handshake of a client with another server.
#[derive(Debug)]
pub struct PassedHandshake {
    /// The server name that the client sent.
    pub server_name: Option<String>,
}

/// The transport of a connection.
pub enum Stream {
    /// A TCP socket.
    Tcp(TcpStream),
    /// A Unix socket.
    Unix(UnixStream),
    /// Another transport.
    Other(Box<dyn Transport>),
}

impl Stream {
    /// Returns the socket, if it carries the same bytes that this stream reads and writes.
    #[must_use]
    pub fn plain_socket(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Tcp(socket) => Some(socket.as_fd()),
            Self::Unix(socket) => Some(socket.as_fd()),
            Self::Other(_) => None,
        }
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(socket) => socket.fmt(f),
            Self::Unix(socket) => socket.fmt(f),
            Self::Other(_) => f.write_str("Other"),
        }
    }
}

impl From<TcpStream> for Stream {
    fn from(socket: TcpStream) -> Self {
        Self::Tcp(socket)
    }
}

impl From<UnixStream> for Stream {
    fn from(socket: UnixStream) -> Self {
        Self::Unix(socket)
    }
}

impl From<Box<dyn Transport>> for Stream {
    fn from(transport: Box<dyn Transport>) -> Self {
        Self::Other(transport)
    }
}

impl Deref for Stream {
    type Target = dyn Transport;

    fn deref(&self) -> &Self::Target {
        match self {
            Self::Tcp(socket) => socket,
            Self::Unix(socket) => socket,
            Self::Other(transport) => &**transport,
        }
    }
}

impl DerefMut for Stream {
    fn deref_mut(&mut self) -> &mut Self::Target {
        match self {
            Self::Tcp(socket) => socket,
            Self::Unix(socket) => socket,
            Self::Other(transport) => &mut **transport,
        }
    }
}

delegate_wire!(Stream, |stream| (**stream));

/// A socket registered with a runtime, used by shared reference, so that two tasks can use one direction
/// each.
pub(crate) trait Socket: AsFd + Send + Sync + 'static {
    /// Ready when the socket may be readable.
    fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Ready when the socket may be writable.
    fn poll_write_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Tries an operation; `WouldBlock` clears the readiness.
    fn try_io<R>(&self, interest: Interest, operation: impl FnOnce() -> io::Result<R>) -> io::Result<R>;
}

/// Tries an operation, and waits for readiness only if it would block, because most sockets are writable.
fn when_writable<S: Socket, R>(
    socket: &S,
    cx: &mut Context<'_>,
    mut operation: impl FnMut() -> rustix::io::Result<R>,
) -> Poll<io::Result<R>> {
    loop {
        match socket.try_io(Interest::WRITABLE, || operation().map_err(io::Error::from)) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => ready!(socket.poll_write_ready(cx))?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return Poll::Ready(result),
        }
    }
}

/// Reads like tokio, but without the C library. The `recv` and `send` of the C library are cancellation
/// points, which cost two locked instructions each in a process with threads.
pub(crate) fn poll_receive<S: Socket>(
    socket: &S,
    cx: &mut Context<'_>,
    buffer: &mut ReadBuf<'_>,
) -> Poll<io::Result<()>> {
    loop {
        ready!(socket.poll_read_ready(cx))?;
        let room = buffer.initialize_unfilled();
        let mut received = 0;
        let result = socket.try_io(Interest::READABLE, || {
            (received, _) = rustix::net::recv(socket, &mut *room, RecvFlags::empty())?;
            // A short read has emptied the socket. Returning `WouldBlock` clears the readiness, so that the
            // next read waits without another system call.
            let is_all = received > 0 && received < room.len();
            if is_all { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(()) }
        });
        match result {
            _ if received > 0 => {
                buffer.advance(received);
                return Poll::Ready(Ok(()));
            }
            Ok(()) => return Poll::Ready(Ok(())),
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => {}
                _ => return Poll::Ready(Err(error)),
            },
        }
    }
}

/// See [`Transport::poll_write`].
pub(crate) fn poll_send<S: Socket>(
    socket: &S,
    cx: &mut Context<'_>,
    slices: &[io::IoSlice<'_>],
    more: bool,
) -> Poll<io::Result<usize>> {
    // NOSIGNAL: a closed connection is an error to handle here, not a signal.
    let flags = if more { SendFlags::MORE | SendFlags::NOSIGNAL } else { SendFlags::NOSIGNAL };
    when_writable(socket, cx, || match slices {
        [slice] => rustix::net::send(socket, slice, flags),
        _ => rustix::net::sendmsg(socket, slices, &mut SendAncillaryBuffer::default(), flags),
    })
}

/// See [`Transport::poll_send_file`].
pub(crate) fn poll_send_file<S: Socket>(
    socket: &S,
    cx: &mut Context<'_>,
    file: &File,
    mut offset: u64,
    length: usize,
) -> Poll<io::Result<usize>> {
    when_writable(socket, cx, || rustix::fs::sendfile(socket, file, Some(&mut offset), length))
}

/// See [`Transport::has_unread`].
pub(crate) fn has_unread(socket: impl AsFd) -> bool {
    let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
    rustix::net::recv(socket, &mut [0_u8; 1], flags).is_ok_and(|(_, bytes)| bytes > 0)
}

/// `SIOCOUTQ`, tcp(7) and unix(7).
pub(crate) fn unacknowledged(socket: impl AsFd) -> io::Result<u64> {
    // The ioctl has one number under two names.
    #[expect(clippy::cast_possible_truncation, reason = "an ioctl's number has 32 bits")]
    const SIOCOUTQ: rustix::ioctl::Opcode = libc::TIOCOUTQ as rustix::ioctl::Opcode;
    // SAFETY: the ioctl writes one C int, for which `Getter` provides the memory.
    #[expect(unsafe_code, reason = "rustix has no function for this ioctl")]
    let bytes =
        unsafe { rustix::ioctl::ioctl(socket, rustix::ioctl::Getter::<SIOCOUTQ, std::ffi::c_int>::new()) }?;
    Ok(u64::try_from(bytes).unwrap_or(0))
}

macro_rules! socket {
    ($stream:ty) => {
        impl Socket for $stream {
            fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                self.poll_read_ready(cx)
            }

            fn poll_write_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                self.poll_write_ready(cx)
            }

            fn try_io<R>(
                &self,
                interest: Interest,
                operation: impl FnOnce() -> io::Result<R>,
            ) -> io::Result<R> {
                self.try_io(interest, operation)
            }
        }

        impl Transport for $stream {
            fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
                poll_receive(self, cx, buffer)
            }

            fn poll_write(
                &mut self,
                cx: &mut Context<'_>,
                slices: &[io::IoSlice<'_>],
                more: bool,
            ) -> Poll<io::Result<usize>> {
                poll_send(self, cx, slices, more)
            }

            fn piece_bytes(&self) -> Option<usize> {
                None
            }

            fn poll_send_file(
                &mut self,
                cx: &mut Context<'_>,
                file: &File,
                offset: u64,
                length: usize,
            ) -> Poll<io::Result<usize>> {
                poll_send_file(self, cx, file, offset, length)
            }

            fn take_piped(&mut self, max: u64) -> io::Result<Option<Piped>> {
                Piped::received(self.try_io(Interest::READABLE, || Piped::receive(&*self, max)))
            }

            fn poll_send_piped(
                &mut self,
                cx: &mut Context<'_>,
                piped: &mut Piped,
            ) -> Poll<io::Result<usize>> {
                let socket = &*self;
                when_writable(socket, cx, || piped.send(socket))
            }

            fn poll_shutdown(&mut self, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                Poll::Ready(stop_writing(self))
            }

            fn unacknowledged(&self) -> io::Result<u64> {
                unacknowledged(self)
            }

            fn has_unread(&self) -> bool {
                has_unread(self)
            }
        }
    };
}

socket!(TcpStream);
socket!(UnixStream);
