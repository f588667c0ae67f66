//! What a connection runs over: TCP or a Unix socket today, TLS around either later.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{RecvFlags, SendFlags};
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

/// Bytes both ways, and nothing else.
pub trait Duplex: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Duplex for T {}

/// A byte stream with what a server wants of it beyond reading and writing.
pub trait Transport: Duplex + AsFd + 'static {
    /// Reads what has come.
    fn poll_receive(&mut self, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(self).poll_read(cx, buffer)
    }

    /// Writes.
    fn poll_send(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(self).poll_write(cx, bytes)
    }

    /// Writes, saying that more follows at once, so that a head and the file after it share a packet.
    fn poll_write_more(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>>;

    /// Has the kernel send a piece of `file`. `Ok(0)` is the end of the file.
    fn poll_send_file(
        &mut self,
        cx: &mut Context<'_>,
        file: &File,
        offset: u64,
        length: usize,
    ) -> Poll<io::Result<usize>>;

    /// How many bytes the peer has not acknowledged yet. They fall while it reads, long before the socket has room again:
    /// that is told only when a third of its buffer is free, more than a megabyte where the kernel has let it grow.
    fn unacknowledged(&self) -> io::Result<u64>;

    /// Whether the peer has sent something that was not read yet, an end not counted.
    fn has_unread(&self) -> bool;
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
pub(crate) fn when_writable<S: Socket, R>(
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
fn poll_receive<S: Socket>(
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

pub(crate) fn poll_write_more<S: Socket>(
    socket: &S,
    cx: &mut Context<'_>,
    bytes: &[u8],
) -> Poll<io::Result<usize>> {
    // NOSIGNAL: a peer that has gone is an error to handle here, not a signal.
    when_writable(socket, cx, || rustix::net::send(socket, bytes, SendFlags::MORE | SendFlags::NOSIGNAL))
}

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
pub(crate) enum HangUp {
    None,
    /// Its sending side; it may still receive.
    SendingSide,
    /// Everything, by a reset.
    Both,
}

/// What the peer has closed, whatever of its bytes is unread. The kernel is asked: a runtime does not tell.
pub(crate) fn hang_up(socket: impl AsFd) -> HangUp {
    let mut polled = [PollFd::new(&socket, PollFlags::RDHUP)];
    // It fails without memory, and is asked again.
    let _ = poll(&mut polled, Some(&Timespec::default()));
    let events = polled[0].revents();
    if events.intersects(PollFlags::ERR | PollFlags::HUP) {
        HangUp::Both
    } else if events.contains(PollFlags::RDHUP) {
        HangUp::SendingSide
    } else {
        HangUp::None
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
            fn poll_receive(
                &mut self,
                cx: &mut Context<'_>,
                buffer: &mut ReadBuf<'_>,
            ) -> Poll<io::Result<()>> {
                poll_receive(self, cx, buffer)
            }

            fn poll_send(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
                when_writable(self, cx, || rustix::net::send(&*self, bytes, SendFlags::NOSIGNAL))
            }

            fn poll_write_more(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
                poll_write_more(self, cx, bytes)
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
