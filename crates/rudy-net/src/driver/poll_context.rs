//! The context of one poll of a connection.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use http::{HeaderMap, StatusCode};
use rudy_service::{EndReason, Observer, context};

use crate::Counters;
use crate::yield_now::yield_now;

/// Maximum number of bytes that a connection receives and sends in one poll of its task: a tenth of a
/// millisecond's work for a file. Otherwise a fast reader of a large file would block the other connections of
/// its core, and an endless stream would block them forever.
const POLL_BYTES_MAX: u64 = 512 * 1024;

/// What a request costs of it, besides its bytes: 128 requests use it up. A request of 14 bytes is more work
/// than 4 KiB of a body.
const REQUEST_BYTES: u64 = 4 * 1024;

/// What a connection may still do in this poll of its task, whatever its states and protocols are. All that
/// work in the poll share it, and the time at which the poll began.
#[derive(Debug)]
pub(crate) struct Budget {
    now: Instant,
    bytes: Cell<u64>,
}

impl Budget {
    /// Creates the budget of a poll that begins now.
    pub(crate) fn new(now: Instant) -> Self {
        Self { now, bytes: Cell::new(POLL_BYTES_MAX) }
    }

    /// Returns when the poll began.
    pub(crate) fn now(&self) -> Instant {
        self.now
    }

    /// Returns how many bytes the connection may still send.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.get()
    }

    /// Whether the connection must yield.
    pub(crate) fn is_spent(&self) -> bool {
        self.bytes.get() == 0
    }

    /// Counts bytes that were received or framed.
    pub(crate) fn spend(&self, bytes: u64) {
        self.bytes.set(self.bytes.get().saturating_sub(bytes));
    }

    /// Counts a request.
    pub(crate) fn spend_request(&self) {
        self.spend(REQUEST_BYTES);
    }
}

/// The context of one poll of a connection: its waker, its time, and the rest of its budget.
pub(crate) struct PollContext<'a, 'b> {
    pub(crate) cx: &'a mut Context<'b>,
    pub(crate) now: Instant,
    pub(crate) counters: &'a Counters,
    /// When to poll the connection again without a wake-up.
    pub(crate) due: Option<Instant>,
    pub(crate) budget: &'a Budget,
    /// Bytes that the transport has accepted.
    pub(crate) sent_bytes: u64,
    /// Bytes of bodies that were framed.
    pub(crate) body_bytes: u64,
}

impl<'a, 'b> PollContext<'a, 'b> {
    pub(crate) fn new(cx: &'a mut Context<'b>, counters: &'a Counters, budget: &'a Budget) -> Self {
        Self { cx, now: budget.now(), counters, due: None, budget, sent_bytes: 0, body_bytes: 0 }
    }

    /// Polls a part of the connection, such as a stream, which is woken by itself. Also returns when to poll the part without a wake-up.
    pub(crate) fn poll_part<R>(
        &mut self,
        waker: &Waker,
        poll: impl FnOnce(&mut PollContext<'_, '_>) -> R,
    ) -> (R, Option<Instant>) {
        let mut part = PollContext { cx: &mut Context::from_waker(waker), due: None, ..*self };
        let polled = poll(&mut part);
        let due = part.due;
        (self.sent_bytes, self.body_bytes) = (part.sent_bytes, part.body_bytes);
        (polled, due)
    }

    /// Counts framed bytes of a body.
    pub(crate) fn framed(&mut self, bytes: u64) {
        self.body_bytes += bytes;
        self.budget.spend(bytes);
    }

    /// Counts bytes that were received.
    pub(crate) fn received(&mut self, bytes: u64) {
        self.budget.spend(bytes);
        self.counters.received_bytes.add(bytes);
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

    /// Polls a handler. Also returns its interim responses, if `accepts_interim` is set. With `asking`, the handler says to this observer
    /// what it waits for.
    pub(crate) fn poll_handler<R>(
        &mut self,
        accepts_interim: bool,
        asking: Option<Arc<dyn Observer>>,
        poll: impl FnOnce(&mut Context<'_>) -> R,
    ) -> (Result<R, EndReason>, Vec<(StatusCode, HeaderMap)>) {
        self.poll_collecting(accepts_interim, |cx, _| match asking {
            Some(observer) => context::ask(observer, || poll(cx)),
            None => poll(cx),
        })
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
