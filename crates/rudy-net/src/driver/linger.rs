//! Closes a connection, with a timer of the worker.

use std::task::{Context, Poll};

use rudy_runtime::clock;
use rudy_service::Limits;

use crate::close::{CloseMode, Closing};
use crate::timers::Timer;
use crate::transport::Stream;

/// A closing connection.
pub(super) struct Linger {
    closing: Closing,
    timer: Timer,
}

impl Linger {
    pub(super) fn new(io: Stream, mode: CloseMode, limits: &Limits, timer: Timer) -> Self {
        Self { closing: Closing::new(io, mode, limits.into(), clock::now()), timer }
    }

    /// Ready when the close need not wait any more; dropping the value completes it.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let polled = self.closing.poll(cx, clock::now());
        if polled.is_pending() {
            self.timer.set(self.closing.deadline(), cx.waker());
        }
        polled
    }
}
