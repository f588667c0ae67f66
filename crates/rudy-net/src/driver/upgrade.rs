//! A connection that goes on in another protocol.

use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::oneshot;

use super::State;
use super::linger::Linger;
use super::poll_context::PollContext;
use crate::close::{CloseMode, close_at_once};
use crate::timers::Timer;
use crate::transport::Stream;
use crate::{Limits, Worker};

/// Takes the connection over after a `101 Switching Protocols`.
///
/// The connection polls the future, which may wait for a [`Deadline`](crate::Deadline) as a handler may, and polls it once more
/// when the server begins to stop.
pub type Upgrade = Box<dyn FnOnce(Upgraded) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send>;

/// A connection that speaks another protocol from here on.
pub struct Upgraded {
    /// What the peer had already sent after its request; comes before anything read from `io`.
    pub unread: Bytes,
    /// The connection. It is closed in order when this is dropped.
    pub io: UpgradedIo,
}

/// The connection, for the handler of the new protocol. Dropped, it goes back to the driver, which closes it.
///
/// What it reads and writes is counted, as all that the server reads and writes.
pub struct UpgradedIo {
    /// Taken only by `drop`.
    io: Option<Stream>,
    worker: Arc<Worker>,
    give_back: Option<oneshot::Sender<Stream>>,
}

impl UpgradedIo {
    /// Whether the server is stopping: the connection is to end soon.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.worker.is_stopping()
    }

    /// The socket, if its bytes are those of the protocol: then the kernel can move them by itself (`splice`). `None` where a
    /// session such as TLS lies between, or another task writes.
    #[must_use]
    pub fn plain_socket(&self) -> Option<BorrowedFd<'_>> {
        self.io.as_ref().and_then(Stream::plain_socket)
    }

    fn io(&mut self) -> io::Result<&mut Stream> {
        self.io.as_mut().ok_or_else(|| io::ErrorKind::NotConnected.into())
    }
}

impl Drop for UpgradedIo {
    fn drop(&mut self) {
        if let (Some(io), Some(give_back)) = (self.io.take(), self.give_back.take())
            && let Err(io) = give_back.send(io)
        {
            // The driver is gone: the server is stopping, or there was a panic.
            close_at_once(io, CloseMode::Reset);
        }
    }
}

impl AsyncRead for UpgradedIo {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(self.io()?.poll_read(cx, buffer))?;
        self.worker.counters.received_bytes.add((buffer.filled().len() - before) as u64);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for UpgradedIo {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(self.io()?.poll_write(cx, slices, false))?;
        self.worker.counters.sent_bytes.add(written as u64);
        Poll::Ready(Ok(written))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.io()?.poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.io()?.poll_shutdown(cx)
    }
}

/// A connection in another protocol.
pub(super) struct Tunnel {
    /// `None` once it has ended.
    future: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    /// Brings the connection back, which the future may have left to a task of its own.
    back: oneshot::Receiver<Stream>,
    close_mode: CloseMode,
    worker: Arc<Worker>,
    limits: Arc<Limits>,
    timer: Timer,
}

impl Tunnel {
    pub(super) fn new(
        upgrade: Upgrade,
        (io, unread): (Stream, Bytes),
        worker: Arc<Worker>,
        limits: Arc<Limits>,
        timer: Timer,
    ) -> Self {
        let (give_back, back) = oneshot::channel();
        let io = UpgradedIo { io: Some(io), worker: worker.clone(), give_back: Some(give_back) };
        // It begins when it is polled, where a panic ends the connection and nothing else.
        let future = Box::pin(async move { upgrade(Upgraded { unread, io }).await });
        Self { future: Some(future), back, close_mode: CloseMode::Linger, worker, limits, timer }
    }

    /// Ready when the connection is back, to be closed.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<State> {
        let mut poll_cx = PollContext::new(cx, Instant::now(), &self.worker.counters);
        if let Some(future) = &mut self.future {
            match poll_cx.poll(|cx, _| future.as_mut().poll(cx)) {
                Ok(Poll::Pending) => {
                    self.timer.set(poll_cx.due, poll_cx.cx.waker());
                    return Poll::Pending;
                }
                Ok(Poll::Ready(())) => {}
                Err(_) => self.close_mode = CloseMode::Reset,
            }
            self.future = None;
            self.timer.set(None, poll_cx.cx.waker());
        }
        let back = ready!(Pin::new(&mut self.back).poll(poll_cx.cx));
        let timer = self.worker.timers.timer(None);
        let linger = |io| State::Linger(Box::new(Linger::new(io, self.close_mode, &self.limits, timer)));
        // It comes back whatever happens to its holder.
        Poll::Ready(back.map_or(State::Head, linger))
    }
}

impl Drop for Tunnel {
    /// Dropped in the middle: the server is being stopped. The holder of the connection may have been dropped before.
    fn drop(&mut self) {
        drop(self.future.take());
        if let Ok(io) = self.back.try_recv() {
            close_at_once(io, CloseMode::Reset);
        }
    }
}
