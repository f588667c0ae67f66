//! One poll of a connection.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::{Context, Poll};
use std::time::Instant;

use http::{HeaderMap, StatusCode};

use crate::context;
use crate::{Counters, EndReason};

/// How much of its bodies a connection sends before the others of its core have their poll_cx: a tenth of a millisecond's work where
/// it is a file. A fast reader would otherwise take a large file whole while they wait, and a stream that always has more
/// would have them wait for ever.
pub(super) const POLL_BYTES_MAX: u64 = 512 * 1024;

/// One poll of a connection: its waker, its time, and what is left of its share.
pub(crate) struct PollContext<'a, 'b> {
    pub(crate) cx: &'a mut Context<'b>,
    pub(crate) now: Instant,
    pub(crate) counters: &'a Counters,
    /// When to poll the connection again although nothing wakes it.
    pub(crate) due: Option<Instant>,
    pub(crate) budget_bytes: u64,
    /// Bytes handed to the transport.
    pub(crate) sent_bytes: u64,
    /// Bytes of bodies that were framed.
    pub(crate) body_bytes: u64,
}

impl<'a, 'b> PollContext<'a, 'b> {
    pub(crate) fn new(cx: &'a mut Context<'b>, now: Instant, counters: &'a Counters) -> Self {
        Self { cx, now, counters, due: None, budget_bytes: POLL_BYTES_MAX, sent_bytes: 0, body_bytes: 0 }
    }

    /// Counts bytes of a body that were framed.
    pub(crate) fn framed(&mut self, bytes: u64) {
        self.body_bytes += bytes;
        self.budget_bytes -= bytes;
    }

    /// Counts bytes that the transport has taken.
    pub(crate) fn sent(&mut self, bytes: u64) {
        self.sent_bytes += bytes;
        self.counters.sent_bytes.add(bytes);
    }

    /// Has the connection polled again at this time.
    pub(crate) fn wake_at(&mut self, time: impl IntoIterator<Item = Instant>) {
        self.due = self.due.into_iter().chain(time).min();
    }

    /// Polls a body, or another protocol. A panic is a fault of its exchange: the connection is closed as it should be.
    pub(crate) fn poll<R>(
        &mut self,
        poll: impl FnOnce(&mut Context<'_>, Instant) -> R,
    ) -> Result<R, EndReason> {
        self.poll_collecting(false, poll).0
    }

    /// Polls a handler, and returns its interim responses as well if `accepts_interim` is set.
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

    /// Lets the other connections of the core have their poll_cx, and comes back after them.
    pub(crate) fn yield_now<R>(&mut self) -> Poll<R> {
        yield_now(self.cx)
    }
}

/// As [`PollContext::yield_now`].
///
/// Not `wake_by_ref`: a task that wakes itself is run again before the runtime looks at its sockets, up to 61 times, and
/// a client that has just sent a request waits for all of them. `yield_now` comes back after that look.
pub(crate) fn yield_now<R>(cx: &mut Context<'_>) -> Poll<R> {
    // Its first poll is always pending, and leaves the waker with the runtime.
    let _ = pin!(tokio::task::yield_now()).poll(cx);
    Poll::Pending
}
