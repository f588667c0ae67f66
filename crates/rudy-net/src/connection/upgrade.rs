//! A connection that goes on in another protocol.

use std::io;
use std::os::fd::AsFd;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::oneshot;

use super::Connection;
use crate::close::{Closing, Ending};
use crate::engine::Source;
use crate::transport::Transport;
use crate::{Upgrade, Upgraded};

/// Hands the connection out with the bytes already read, takes it back when it is dropped, and closes it in order.
pub(super) async fn run<T: Transport, S: Source>(connection: Connection<T, S>, upgrade: Upgrade) {
    let Connection { io, machine, context, limits, timer, peer: _, local: _, number: _ } = connection;
    drop((context, timer));
    let (give_back, back) = oneshot::channel();
    let lent = Lent { io: Some(io), give_back: Some(give_back) };
    upgrade(Upgraded { unread: machine.into_unread(), io: Box::new(lent) }).await;
    if let Ok(closing) = back.await {
        closing.close(Ending::Finished, limits.linger()).await;
    }
}

/// The connection in somebody else's hands. Dropped, it goes back to be closed.
struct Lent<T: AsFd> {
    /// Taken only by `drop`.
    io: Option<T>,
    give_back: Option<oneshot::Sender<Closing<T>>>,
}

impl<T: AsFd + Unpin> Lent<T> {
    fn io(&mut self) -> io::Result<Pin<&mut T>> {
        self.io.as_mut().map(Pin::new).ok_or_else(|| io::ErrorKind::NotConnected.into())
    }
}

impl<T: AsFd> Drop for Lent<T> {
    fn drop(&mut self) {
        if let (Some(io), Some(give_back)) = (self.io.take(), self.give_back.take()) {
            // If nobody waits for it the server is stopping, or there was a panic: it is cut.
            let _ = give_back.send(Closing::new(io, Ending::Cut));
        }
    }
}

impl<T: AsyncRead + AsFd + Unpin> AsyncRead for Lent<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.io()?.poll_read(cx, buffer)
    }
}

impl<T: AsyncWrite + AsFd + Unpin> AsyncWrite for Lent<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.io()?.poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.io()?.poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.as_ref().is_some_and(AsyncWrite::is_write_vectored)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.io()?.poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.io()?.poll_shutdown(cx)
    }
}
