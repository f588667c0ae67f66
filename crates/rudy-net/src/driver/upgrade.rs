//! Connections that change to another protocol.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use rudy_service::{Limits, Piped, Upgrade, Upgraded, UpgradedConnection};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::oneshot;

use super::State;
use super::linger::Linger;
use super::poll_context::{Budget, PollContext};
use crate::active::ActiveEntry;
use crate::close::CloseMode;
use crate::timers::Timer;
use crate::transport::Stream;
use crate::wire::close_at_once;
use crate::worker::Worker;

/// The connection, for the handler of the new protocol. Dropping it returns the connection to the driver,
/// which closes it.
///
/// The worker's counters include its bytes.
struct BorrowedConnection {
    /// `None` only after `drop`.
    io: Option<Stream>,
    worker: Arc<Worker>,
    /// The place among the active exchanges.
    entry: Option<Arc<ActiveEntry>>,
    give_back: Option<oneshot::Sender<(Stream, CloseMode)>>,
    close_mode: CloseMode,
}

impl BorrowedConnection {
    fn io(&mut self) -> io::Result<&mut Stream> {
        self.io.as_mut().ok_or_else(|| io::ErrorKind::NotConnected.into())
    }

    fn count_received(&self, bytes: u64) {
        self.worker.counters.received_bytes.add(bytes);
        if let Some(entry) = &self.entry {
            entry.add_received(bytes);
        }
    }

    fn count_sent(&self, bytes: u64) {
        self.worker.counters.sent_bytes.add(bytes);
        if let Some(entry) = &self.entry {
            entry.add_sent(bytes);
        }
    }
}

impl UpgradedConnection for BorrowedConnection {
    fn is_stopping(&self) -> bool {
        self.worker.is_ending_streams()
    }

    fn take_piped(&mut self, max: u64) -> io::Result<Option<Piped>> {
        let piped = self.io()?.take_piped(max)?;
        if let Some(piped) = &piped {
            self.count_received(piped.length());
        }
        Ok(piped)
    }

    fn accepts_piped(&self) -> bool {
        self.io.as_ref().is_some_and(|io| io.plain_socket().is_some())
    }

    fn poll_send_piped(&mut self, cx: &mut Context<'_>, piped: &mut Piped) -> Poll<io::Result<usize>> {
        let sent = ready!(self.io()?.poll_send_piped(cx, piped))?;
        self.count_sent(sent as u64);
        Poll::Ready(Ok(sent))
    }

    fn abort(&mut self) {
        self.close_mode = CloseMode::Reset;
    }

    fn complete(&mut self) {
        self.close_mode = CloseMode::PeerClosed;
    }
}

impl Drop for BorrowedConnection {
    fn drop(&mut self) {
        if let (Some(io), Some(give_back)) = (self.io.take(), self.give_back.take())
            && let Err((io, _)) = give_back.send((io, self.close_mode))
        {
            // The driver is gone: the server is stopping, or there was a panic.
            close_at_once(io, CloseMode::Reset);
        }
    }
}

impl AsyncRead for BorrowedConnection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(self.io()?.poll_read(cx, buffer))?;
        let read = buffer.filled().len() - before;
        self.count_received(read as u64);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for BorrowedConnection {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(self.io()?.poll_write(cx, slices, false))?;
        self.count_sent(written as u64);
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
    /// `None` once the handler has ended.
    future: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    /// Returns the connection, which the handler may have moved to another task.
    back: oneshot::Receiver<(Stream, CloseMode)>,
    /// Whether the connection is reset, whatever the handler wants.
    resets: bool,
    worker: Arc<Worker>,
    entry: Option<Arc<ActiveEntry>>,
    limits: Arc<Limits>,
    timer: Timer,
}

impl Tunnel {
    pub(super) fn new(
        upgrade: Upgrade,
        (io, unread, entry): (Stream, Bytes, Option<Arc<ActiveEntry>>),
        worker: Arc<Worker>,
        limits: Arc<Limits>,
        timer: Timer,
    ) -> Self {
        let (give_back, back) = oneshot::channel();
        let io = Box::new(BorrowedConnection {
            io: Some(io),
            worker: worker.clone(),
            entry: entry.clone(),
            give_back: Some(give_back),
            close_mode: CloseMode::Linger,
        });
        // `upgrade` is called at the first poll, where a panic ends only the connection.
        let future = Box::pin(async move { upgrade(Upgraded { unread, io }).await });
        Self { future: Some(future), back, resets: false, worker, entry, limits, timer }
    }

    /// Ready when the connection has been returned and must be closed.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>, budget: &Budget) -> Poll<State> {
        let mut poll_cx = PollContext::new(cx, &self.worker.counters, budget);
        if self.entry.as_ref().is_some_and(|entry| entry.is_killed()) {
            self.future = None;
            self.resets = true;
        }
        if let Some(future) = &mut self.future {
            match poll_cx.poll(|cx, _| future.as_mut().poll(cx)) {
                Ok(Poll::Pending) => {
                    self.timer.set(poll_cx.due, poll_cx.cx.waker());
                    return Poll::Pending;
                }
                Ok(Poll::Ready(())) => {}
                Err(_) => self.resets = true,
            }
            self.future = None;
            self.timer.set(None, poll_cx.cx.waker());
        }
        let back = ready!(Pin::new(&mut self.back).poll(poll_cx.cx));
        // At an immediate stop, the task that held the connection may be dropped before this one.
        self.resets |= self.worker.is_aborting();
        let timer = self.worker.timers.timer(None);
        let linger = |(io, mode)| {
            let mode = if self.resets { CloseMode::Reset } else { mode };
            State::Linger(Box::new(Linger::new(io, mode, &self.limits, timer)))
        };
        // The connection is returned in any case, by the drop of `BorrowedConnection`.
        Poll::Ready(back.map_or(State::Head, linger))
    }
}

impl Drop for Tunnel {
    /// A tunnel dropped before its end means that the server is stopping. `BorrowedConnection` may have been dropped
    /// before.
    fn drop(&mut self) {
        drop(self.future.take());
        // From here on, `BorrowedConnection` cannot return the connection, and resets it itself.
        self.back.close();
        if let Ok((io, _)) = self.back.try_recv() {
            close_at_once(io, CloseMode::Reset);
        }
    }
}
