//! The surroundings of a simulated process.

use std::cell::Cell;
use std::marker::PhantomData;
use std::time::{Duration, Instant, SystemTime};

use tokio::task::AbortHandle;

thread_local! {
    /// A reference, because a value with a destructor would need a check of its own at each access.
    static CURRENT: Cell<Option<&'static dyn Simulation>> = const { Cell::new(None) };
}

/// Answers in place of the operating system, for one process of a simulation: whatever runs [inside](Entered).
pub trait Simulation: Sync {
    /// Returns the time of the monotonic clock. A simulation on tokio returns the paused clock of its runtime, so that timers agree.
    fn now(&self) -> Instant;

    /// Returns how long ago the machine was started, by the monotonic clock.
    fn uptime(&self) -> Duration;

    /// Returns the time of the wall clock, which may jump.
    fn utc(&self) -> SystemTime;

    /// Returns the next random number.
    fn random(&self) -> u64;

    /// Returns how long work that blocks waits for its thread and runs.
    fn blocking_time(&self) -> Duration;

    /// Notes a task of the process, to be aborted when the process ends.
    fn spawned(&self, task: AbortHandle);

    /// Notes that a task of the process is about to be polled.
    fn polled(&self);
}

/// The time in which the current thread is inside of a simulated process. Dropping it returns to where the thread was before.
#[derive(Debug)]
pub struct Entered {
    before: Option<Before>,
    /// It belongs to the thread.
    _thread: PhantomData<*const ()>,
}

/// A process that has entered another one, as its parent.
struct Before(&'static dyn Simulation);

impl std::fmt::Debug for Before {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Before")
    }
}

impl Entered {
    /// Enters a process.
    #[must_use]
    pub fn new(simulation: &'static dyn Simulation) -> Self {
        Self { before: CURRENT.replace(Some(simulation)).map(Before), _thread: PhantomData }
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        CURRENT.set(self.before.take().map(|before| before.0));
    }
}

/// Returns the simulated process that the current thread is inside of.
#[inline]
#[must_use]
pub fn current() -> Option<&'static dyn Simulation> {
    CURRENT.get()
}
