//! What a connection runs over: TCP or a Unix socket today, TLS around either later.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::task::{Context, Poll, ready};

use rustix::net::SendFlags;
use tokio::io::{AsyncRead, AsyncWrite, Interest};
use tokio::net::{TcpStream, UnixStream};

/// Bytes both ways, and nothing else.
pub trait Duplex: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Duplex for T {}

/// A byte stream with what a server wants of it beyond reading and writing.
pub trait Transport: Duplex + 'static {
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

    /// Makes the coming close a reset: the only way to say "cut" where the end of the connection is the end of the body.
    fn reset_on_close(&self) -> io::Result<()>;
}

/// Tries an operation on a ready socket until it works or would block. The kernel's answer clears tokio's readiness.
macro_rules! when_writable {
    ($stream:expr, $cx:expr, $operation:expr) => {
        loop {
            ready!($stream.poll_write_ready($cx))?;
            match $stream.try_io(Interest::WRITABLE, || $operation.map_err(io::Error::from)) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => return Poll::Ready(result),
            }
        }
    };
}

macro_rules! socket_transport {
    ($stream:ty) => {
        impl Transport for $stream {
            fn poll_write_more(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
                // NOSIGNAL: a peer that has gone is an error to handle here, not a signal.
                let flags = SendFlags::MORE | SendFlags::NOSIGNAL;
                when_writable!(self, cx, rustix::net::send(&*self, bytes, flags))
            }

            fn poll_send_file(
                &mut self,
                cx: &mut Context<'_>,
                file: &File,
                mut offset: u64,
                length: usize,
            ) -> Poll<io::Result<usize>> {
                when_writable!(self, cx, rustix::fs::sendfile(&*self, file, Some(&mut offset), length))
            }

            fn unacknowledged(&self) -> io::Result<u64> {
                unacknowledged(self.as_fd())
            }

            fn reset_on_close(&self) -> io::Result<()> {
                socket2::SockRef::from(self).set_linger(Some(std::time::Duration::ZERO))
            }
        }
    };
}

/// `SIOCOUTQ`, tcp(7) and unix(7).
fn unacknowledged(socket: BorrowedFd<'_>) -> io::Result<u64> {
    // The ioctl has one number under two names.
    #[expect(clippy::cast_possible_truncation, reason = "an ioctl's number has 32 bits")]
    const SIOCOUTQ: rustix::ioctl::Opcode = libc::TIOCOUTQ as rustix::ioctl::Opcode;
    // SAFETY: the ioctl writes one C int, which is what `Getter` makes room for.
    #[expect(unsafe_code, reason = "rustix has no function for this ioctl")]
    let bytes =
        unsafe { rustix::ioctl::ioctl(socket, rustix::ioctl::Getter::<SIOCOUTQ, std::ffi::c_int>::new()) }?;
    Ok(u64::try_from(bytes).unwrap_or(0))
}

socket_transport!(TcpStream);
socket_transport!(UnixStream);
