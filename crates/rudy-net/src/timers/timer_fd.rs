//! The operating system timer of a worker.

use std::future::poll_fn;
use std::io;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rudy_runtime::clock;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::time::{Sleep, sleep_until};

/// A `timerfd`; in a simulation, whose clock the kernel does not know, a timer of the runtime.
///
/// A tokio timer that a task sets makes the runtime write to its own eventfd, and poll again without any work.
/// With streams, which wake the worker a hundred times a second, that would double the wake-ups.
#[derive(Debug)]
pub(crate) enum TimerFd {
    Kernel(AsyncFd<OwnedFd>),
    Runtime(Mutex<Pin<Box<Sleep>>>),
}

impl TimerFd {
    /// Creates a timer that is not set, on the current runtime.
    pub(crate) fn new() -> io::Result<Self> {
        if rudy_runtime::current().is_some() {
            return Ok(Self::Runtime(Mutex::new(Box::pin(sleep_until(clock::now().into())))));
        }
        let timer =
            timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?;
        // SAFETY: `timer` owns its descriptor, and nothing replaces or closes it before the `AsyncFd` does.
        #[expect(unsafe_code, reason = "the safe constructors of tokio are deprecated")]
        let timer = unsafe { AsyncFd::register_with_interest(timer, Interest::READABLE) }?;
        Ok(Self::Kernel(timer))
    }

    /// Sets the timer; replaces the previous time.
    pub(super) fn set(&self, until: Instant) {
        match self {
            Self::Kernel(timer) => set(timer, until),
            Self::Runtime(timer) => timer.lock().as_mut().reset(until.into()),
        }
    }

    /// Ready when the timer, or an earlier setting of it, has expired.
    pub(super) async fn expired(&self) {
        match self {
            // Fails only when the runtime ends. The timer is never read: setting it again clears its readiness.
            Self::Kernel(timer) => {
                if let Ok(mut ready) = timer.readable().await {
                    ready.clear_ready();
                }
            }
            Self::Runtime(timer) => poll_fn(|cx| timer.lock().as_mut().poll(cx)).await,
        }
    }
}

fn set(timer: &AsyncFd<OwnedFd>, until: Instant) {
    // Zero would disarm the timer.
    let left = until.saturating_duration_since(clock::now()).max(Duration::from_nanos(1));
    let value = Timespec {
        tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: left.subsec_nanos().into(),
    };
    let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: value };
    // Fails only for a descriptor that is not a timer, or an invalid time.
    let _ = timerfd_settime(timer.get_ref(), TimerfdTimerFlags::empty(), &once);
}
