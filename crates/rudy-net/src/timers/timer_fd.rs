//! The one timer of the operating system that a worker has.

use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Rings when its time has come.
///
/// Not tokio's timer: one that is set by a task, which is while the runtime does not sleep, has the runtime write to its
/// own eventfd and go around once more for nothing. Beside streams, which are woken a hundred times a second, that is as many
/// wakes again.
#[derive(Debug)]
pub(crate) struct TimerFd(AsyncFd<OwnedFd>);

impl TimerFd {
    /// An timer_fd that is not set, on the runtime that is entered.
    pub(crate) fn new() -> io::Result<Self> {
        let timer =
            timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?;
        // SAFETY: `timer` owns its descriptor, and nobody replaces or closes it before the `AsyncFd` does.
        #[expect(unsafe_code, reason = "tokio has deprecated its safe constructors")]
        let timer = unsafe { AsyncFd::register_with_interest(timer, Interest::READABLE) }?;
        Ok(Self(timer))
    }

    /// Sets it, or sets it anew.
    pub(super) fn set(&self, until: Instant) {
        // A time of zero would disarm it.
        let left = until.saturating_duration_since(Instant::now()).max(Duration::from_nanos(1));
        let value = Timespec {
            tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: left.subsec_nanos().into(),
        };
        let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: value };
        // It fails for a descriptor that is no timer, or a time that is none.
        let _ = timerfd_settime(self.0.get_ref(), TimerfdTimerFlags::empty(), &once);
    }

    /// Ready when the time has come, or one that was set before.
    pub(super) async fn expired(&self) {
        // It fails only when the runtime ends. It is never read: setting it anew takes the readiness away.
        if let Ok(mut ready) = self.0.readable().await {
            ready.clear_ready();
        }
    }
}
