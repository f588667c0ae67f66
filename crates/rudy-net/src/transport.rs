//! What a connection runs over: TCP or a Unix socket today, TLS around either later.

use std::fs::File;
use std::io;
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

            fn reset_on_close(&self) -> io::Result<()> {
                socket2::SockRef::from(self).set_linger(Some(std::time::Duration::ZERO))
            }
        }
    };
}

socket_transport!(TcpStream);
socket_transport!(UnixStream);
