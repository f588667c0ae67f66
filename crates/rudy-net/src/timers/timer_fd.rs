//! The operating system timer of a worker.

use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// A `timerfd`.
///
/// A tokio timer that a task sets makes the runtime write to its own eventfd, and poll again without any work.
/// With streams, which wake the worker a hundred times a second, that would double the wake-ups.
#[derive(Debug)]
pub(crate) struct TimerFd(AsyncFd<OwnedFd>);

impl TimerFd {
    /// Creates a timer that is not set, on the current runtime.
    pub(crate) fn new() -> io::Result<Self> {
        let timer =
            timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?;
        // SAFETY: `timer` owns its descriptor, and nothing replaces or closes it before the `AsyncFd` does.
        #[expect(unsafe_code, reason = "the safe constructors of tokio are deprecated")]
        let timer = unsafe { AsyncFd::register_with_interest(timer, Interest::READABLE) }?;
        Ok(Self(timer))
    }

    /// Sets the timer; replaces the previous time.
    pub(super) fn set(&self, until: Instant) {
        // Zero would disarm the timer.
        let left = until.saturating_duration_since(Instant::now()).max(Duration::from_nanos(1));
        let value = Timespec {
            tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: left.subsec_nanos().into(),
        };
        let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: value };
        // Fails only for a descriptor that is not a timer, or an invalid time.
        let _ = timerfd_settime(self.0.get_ref(), TimerfdTimerFlags::empty(), &once);
    }

    /// Ready when the timer, or an earlier setting of it, has expired.
    pub(super) async fn expired(&self) {
        // Fails only when the runtime ends. The timer is never read: setting it again clears its readiness.
        if let Ok(mut ready) = self.0.readable().await {
            ready.clear_ready();
        }
    }
}
