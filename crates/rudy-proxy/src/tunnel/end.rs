//! The ends of a tunnel: the client, and the upstream.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use rudy_client::SocketConnection as _;
use rudy_service::{Piped, UpgradedIo};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::connection::Connection;

/// An end of a tunnel.
pub(super) trait End {
    fn poll_receive(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>>;
    fn poll_send(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>>;
    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;
    fn poll_finish(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Moves up to `max` received bytes into a pipe. `None` if there are none as far as the runtime knows, and if they are encrypted.
    fn take_piped(&mut self, _max: u64) -> io::Result<Option<Piped>> {
        Ok(None)
    }

    /// Whether bytes of a pipe can be sent as they are.
    fn accepts_piped(&self) -> bool {
        false
    }

    fn poll_send_piped(&mut self, _cx: &mut Context<'_>, _piped: &mut Piped) -> Poll<io::Result<usize>> {
        Poll::Ready(Err(io::ErrorKind::Unsupported.into()))
    }
}

impl End for UpgradedIo {
    fn poll_receive(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        let mut buffer = ReadBuf::new(buffer);
        ready!(Pin::new(self).poll_read(cx, &mut buffer))?;
        Poll::Ready(Ok(buffer.filled().len()))
    }

    fn poll_send(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(self).poll_write(cx, bytes)
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        AsyncWrite::poll_flush(Pin::new(self), cx)
    }

    fn poll_finish(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(self).poll_shutdown(cx)
    }

    fn take_piped(&mut self, max: u64) -> io::Result<Option<Piped>> {
        (**self).take_piped(max)
    }

    fn accepts_piped(&self) -> bool {
        (**self).accepts_piped()
    }

    fn poll_send_piped(&mut self, cx: &mut Context<'_>, piped: &mut Piped) -> Poll<io::Result<usize>> {
        (**self).poll_send_piped(cx, piped)
    }
}

impl End for Connection {
    fn poll_receive(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        match self {
            Self::Http1(connection) => connection.socket().poll_read(cx, buffer),
            Self::Http2(stream) => stream.poll_read(cx, buffer),
        }
    }

    fn poll_send(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        rudy_client::Connection::poll_write(self, cx, bytes)
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        rudy_client::Connection::poll_flush(self, cx)
    }

    fn poll_finish(&mut self, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(match self {
            Self::Http1(connection) => connection.socket().finish(),
            Self::Http2(stream) => stream.finish(None),
        })
    }

    fn take_piped(&mut self, max: u64) -> io::Result<Option<Piped>> {
        match self {
            Self::Http1(connection) => connection.socket().take_piped(max),
            Self::Http2(_) => Ok(None),
        }
    }

    fn accepts_piped(&self) -> bool {
        match self {
            Self::Http1(connection) => connection.accepts_piped(),
            Self::Http2(_) => false,
        }
    }

    fn poll_send_piped(&mut self, cx: &mut Context<'_>, piped: &mut Piped) -> Poll<io::Result<usize>> {
        match self {
            Self::Http1(connection) => connection.socket().poll_send_piped(cx, piped),
            Self::Http2(_) => Poll::Ready(Err(io::ErrorKind::Unsupported.into())),
        }
    }
}
