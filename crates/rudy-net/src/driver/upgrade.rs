//! Connections that change to another protocol.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use tokio::sync::oneshot;

use super::State;
use super::linger::Linger;
use super::poll_context::{Budget, PollContext};
use crate::active::ActiveEntry;
use crate::close::{CloseMode, close_at_once};
use crate::limits::Limits;
use crate::timers::Timer;
use crate::transport::Stream;
use crate::upgrade::{Upgrade, Upgraded, UpgradedIo};
use crate::worker::Worker;

/// A connection in another protocol.
pub(super) struct Tunnel {
    /// `None` once the handler has ended.
    future: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    /// Returns the connection, which the handler may have moved to another task.
    back: oneshot::Receiver<Stream>,
    close_mode: CloseMode,
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
        let (io, back) = UpgradedIo::new(io, worker.clone(), entry.clone());
        // `upgrade` is called at the first poll, where a panic ends only the connection.
        let future = Box::pin(async move { upgrade(Upgraded { unread, io }).await });
        Self { future: Some(future), back, close_mode: CloseMode::Linger, worker, entry, limits, timer }
    }

    /// Ready when the connection has been returned and must be closed.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>, budget: &Budget) -> Poll<State> {
        let mut poll_cx = PollContext::new(cx, &self.worker.counters, budget);
        if self.entry.as_ref().is_some_and(|entry| entry.is_killed()) {
            self.future = None;
            self.close_mode = CloseMode::Reset;
        }
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
        // At an immediate stop, the task that held the connection may be dropped before this one.
        if self.worker.is_aborting() {
            self.close_mode = CloseMode::Reset;
        }
        let timer = self.worker.timers.timer(None);
        let linger = |io| State::Linger(Box::new(Linger::new(io, self.close_mode, &self.limits, timer)));
        // The connection is returned in any case, by the drop of `UpgradedIo`.
        Poll::Ready(back.map_or(State::Head, linger))
    }
}

impl Drop for Tunnel {
    /// A tunnel dropped before its end means that the server is stopping. `UpgradedIo` may have been dropped
    /// before.
    fn drop(&mut self) {
        drop(self.future.take());
        // From here on, `UpgradedIo` cannot return the connection, and resets it itself.
        self.back.close();
        if let Ok(io) = self.back.try_recv() {
            close_at_once(io, CloseMode::Reset);
        }
    }
}
