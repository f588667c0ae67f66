//! The context of one poll of a connection.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::{Context, Poll};
use std::time::Instant;

use http::{HeaderMap, StatusCode};

use crate::context;
use crate::{Counters, EndReason};

/// Maximum number of body bytes that a connection sends in one poll: a tenth of a millisecond's work for a
/// file. Otherwise a fast reader of a large file would block the other connections of its core, and an
/// endless stream would block them forever.
pub(super) const POLL_BYTES_MAX: u64 = 512 * 1024;

/// The context of one poll of a connection: its waker, its time, and the rest of its budget.
pub(crate) struct PollContext<'a, 'b> {
    pub(crate) cx: &'a mut Context<'b>,
    pub(crate) now: Instant,
    pub(crate) counters: &'a Counters,
    /// When to poll the connection again without a wake-up.
    pub(crate) due: Option<Instant>,
    pub(crate) budget_bytes: u64,
    /// Bytes that the transport has accepted.
    pub(crate) sent_bytes: u64,
    /// Bytes of bodies that were framed.
    pub(crate) body_bytes: u64,
}

impl<'a, 'b> PollContext<'a, 'b> {
    pub(crate) fn new(cx: &'a mut Context<'b>, now: Instant, counters: &'a Counters) -> Self {
        Self { cx, now, counters, due: None, budget_bytes: POLL_BYTES_MAX, sent_bytes: 0, body_bytes: 0 }
    }

    /// Counts framed bytes of a body.
    pub(crate) fn framed(&mut self, bytes: u64) {
        self.body_bytes += bytes;
        self.budget_bytes -= bytes;
    }

    /// Counts bytes that the transport has accepted.
    pub(crate) fn sent(&mut self, bytes: u64) {
        self.sent_bytes += bytes;
        self.counters.sent_bytes.add(bytes);
    }

    /// Requests another poll of the connection at this time.
    pub(crate) fn wake_at(&mut self, time: impl IntoIterator<Item = Instant>) {
        self.due = self.due.into_iter().chain(time).min();
    }

    /// Polls a body, or another protocol. Catches a panic, so that only the exchange fails and the connection
    /// is closed properly.
    pub(crate) fn poll<R>(
        &mut self,
        poll: impl FnOnce(&mut Context<'_>, Instant) -> R,
    ) -> Result<R, EndReason> {
        self.poll_collecting(false, poll).0
    }

    /// Polls a handler. Also returns its interim responses, if `accepts_interim` is set.
    pub(crate) fn poll_handler<R>(
        &mut self,
        accepts_interim: bool,
        poll: impl FnOnce(&mut Context<'_>) -> R,
    ) -> (Result<R, EndReason>, Vec<(StatusCode, HeaderMap)>) {
        self.poll_collecting(accepts_interim, |cx, _| poll(cx))
    }

    fn poll_collecting<R>(
        &mut self,
        accepts_interim: bool,
        poll: impl FnOnce(&mut Context<'_>, Instant) -> R,
    ) -> (Result<R, EndReason>, Vec<(StatusCode, HeaderMap)>) {
        let poll = || catch_unwind(AssertUnwindSafe(|| poll(self.cx, self.now)));
        let (polled, left) = context::collect(self.now, accepts_interim, poll);
        self.wake_at(left.due);
        let polled = polled.map_err(|_| {
            self.counters.panics.add(1);
            EndReason::Aborted
        });
        (polled, left.interim)
    }

    /// Yields to the other connections of the core.
    pub(crate) fn yield_now<R>(&mut self) -> Poll<R> {
        yield_now(self.cx)
    }
}

/// See [`PollContext::yield_now`].
///
/// Not `wake_by_ref`: the runtime polls a task that wakes itself up to 61 times before it checks its sockets,
/// and new requests would wait. After `yield_now` the task continues behind that check.
pub(crate) fn yield_now<R>(cx: &mut Context<'_>) -> Poll<R> {
    // The first poll is always pending, and registers the waker with the runtime.
    let _ = pin!(tokio::task::yield_now()).poll(cx);
    Poll::Pending
}
