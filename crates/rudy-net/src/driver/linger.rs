//! The end of a connection that is served: the close, on the worker's timers.

use std::task::{Context, Poll};
use std::time::Instant;

use crate::Limits;
use crate::close::{CloseMode, Closing};
use crate::timers::Timer;
use crate::transport::Stream;

/// A connection that is being closed.
pub(super) struct Linger {
    closing: Closing,
    timer: Timer,
}

impl Linger {
    pub(super) fn new(io: Stream, mode: CloseMode, limits: &Limits, timer: Timer) -> Self {
        Self { closing: Closing::new(io, mode, limits.linger(), Instant::now()), timer }
    }

    /// Ready when nothing has to wait any more: the drop does the rest.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let polled = self.closing.poll(cx, Instant::now());
        if polled.is_pending() {
            self.timer.set(self.closing.deadline(), cx.waker());
        }
        polled
    }
}
