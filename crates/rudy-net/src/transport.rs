//! What a connection runs over: a socket, or a session over one.
//!
//! The driver is compiled once, for [`Stream`], whatever the number of transports: sockets are its variants, and anything else is
//! one call through a table of functions away, which takes about 2 ns.

use std::fs::File;
use std::io;
use std::ops::{Deref, DerefMut};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags};
use tokio::io::{Interest, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

use crate::Tls;
use crate::close::stop_writing;
use crate::scratch::Scratch;

/// A byte stream with what a server wants of it beyond reading and writing. Its descriptor is that of the socket.
pub trait Transport: AsFd + Send + Sync {
    /// What comes before the first byte of the application: a TLS handshake. Ready at once where there is none.
    ///
    /// # Errors
    ///
    /// The peer and we cannot agree, or the socket is broken. The connection is closed.
    fn poll_handshake(&mut self, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// What the handshake has led to; `None` where nothing secures the connection.
    fn tls(&self) -> Option<&Arc<Tls>> {
        None
    }

    /// Reads. Nothing read is the end of the input.
    ///
    /// # Errors
    ///
    /// The socket or the session is broken.
    fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>>;

    /// Writes the slices one behind the other, and returns how many bytes it has taken. `more` announces that more follows at once, so
    /// that a head and the file after it share a packet.
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

    /// Hands what was taken and is still kept to the kernel. Ready at once where nothing is ever kept.
    ///
    /// # Errors
    ///
    /// The socket or the session is broken.
    fn poll_flush(&mut self, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// Sends a piece of `file`. `Ok(0)` is the end of the file. A transport that changes the bytes reads them, and writes what it
    /// makes of them; a socket has the kernel send them.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or the socket or the session is broken.
    fn poll_send_file(
        &mut self,
        cx: &mut Context<'_>,
        file: &File,
        offset: u64,
        length: usize,
    ) -> Poll<io::Result<usize>> {
        let mut scratch = Scratch::borrow();
        let room = length.min(scratch.input.len());
        let read = file.read_at(&mut scratch.input[..room], offset)?;
        if read == 0 {
            return Poll::Ready(Ok(0));
        }
        self.poll_write(cx, &[io::IoSlice::new(&scratch.input[..read])], read < length)
    }

    /// Ends our side of the connection. A session sends its own end first, which may have to wait for room.
    ///
    /// # Errors
    ///
    /// The socket or the session is broken.
    fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// How many bytes the peer has not acknowledged yet, those included that are kept here. They fall while it reads, long before
    /// the socket has room again: the kernel reports room only when a third of its buffer is free, more than a megabyte where the kernel has
    /// let it grow.
    ///
    /// # Errors
    ///
    /// The kernel does not tell.
    fn unacknowledged(&self) -> io::Result<u64>;

    /// Whether the peer has sent something that was not read yet, an end not counted.
    fn has_unread(&self) -> bool;
}

/// What the driver reads from and writes to.
pub enum Stream {
    /// A TCP socket.
    Tcp(TcpStream),
    /// A Unix socket.
    Unix(UnixStream),
    /// Anything else.
    Other(Box<dyn Transport>),
}

impl Stream {
    /// The socket, if the peer reads and writes the same bytes there as we do here.
    #[must_use]
    pub fn plain_socket(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Tcp(socket) => Some(socket.as_fd()),
            Self::Unix(socket) => Some(socket.as_fd()),
            Self::Other(_) => None,
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

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        (**self).as_fd()
    }
}

/// A socket that a runtime watches, used through a shared reference: two tasks may each have one direction of it.
pub(crate) trait Socket: AsFd + Send + Sync + 'static {
    /// Ready when there may be something to read.
    fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Ready when there may be room to write.
    fn poll_write_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Tries an operation; that it would block clears the readiness.
    fn try_io<R>(&self, interest: Interest, operation: impl FnOnce() -> io::Result<R>) -> io::Result<R>;
}

/// Tries an operation until it works or would block, and only then asks to be woken: most sockets have room.
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

/// Reads as tokio does, but without the C library: its `recv` and `send` can be cancelled by `pthread_cancel`, and in a
/// process with threads they say so before and after each call, with two locked instructions each.
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
            // Less than there is room for is all there is. To say that it would block clears the readiness, so that the next
            // read waits instead of finding nothing.
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
    // NOSIGNAL: a peer that has gone is an error to handle here, not a signal.
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

/// What a peer has closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PeerShutdown {
    None,
    /// Its sending side; it may still receive.
    WriteSide,
    /// Everything, by a reset.
    Both,
}

/// What the peer has closed, whatever of its bytes is unread. The kernel is asked: a runtime does not tell.
pub(crate) fn peer_shutdown(socket: impl AsFd) -> PeerShutdown {
    let mut polled = [PollFd::new(&socket, PollFlags::RDHUP)];
    // It fails without memory, and is asked again.
    let _ = poll(&mut polled, Some(&Timespec::default()));
    let events = polled[0].revents();
    if events.intersects(PollFlags::ERR | PollFlags::HUP) {
        PeerShutdown::Both
    } else if events.contains(PollFlags::RDHUP) {
        PeerShutdown::WriteSide
    } else {
        PeerShutdown::None
    }
}

/// `SIOCOUTQ`, tcp(7) and unix(7).
pub(crate) fn unacknowledged(socket: impl AsFd) -> io::Result<u64> {
    // The ioctl has one number under two names.
    #[expect(clippy::cast_possible_truncation, reason = "an ioctl's number has 32 bits")]
    const SIOCOUTQ: rustix::ioctl::Opcode = libc::TIOCOUTQ as rustix::ioctl::Opcode;
    // SAFETY: the ioctl writes one C int, which is what `Getter` makes room for.
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

            fn poll_send_file(
                &mut self,
                cx: &mut Context<'_>,
                file: &File,
                offset: u64,
                length: usize,
            ) -> Poll<io::Result<usize>> {
                poll_send_file(self, cx, file, offset, length)
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
