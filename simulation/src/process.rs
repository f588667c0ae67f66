//! A simulated process: what the server asks for the time, chance and tasks.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use parking_lot::Mutex;
use rudy_runtime::Simulation;
use tokio::task::AbortHandle;

/// More polls than any work needs without time passing.
const POLLS_AT_ONCE: u64 = 200_000;

/// How often tasks have been polled.
struct Polls {
    all: u64,
    /// Since the time last passed.
    at_once: u64,
    last: Instant,
}

impl Polls {
    fn new(now: Instant) -> Self {
        Self { all: 0, at_once: 0, last: now }
    }

    /// # Panics
    ///
    /// A task wakes itself without end: in virtual time, nothing else would end the run.
    fn note(&mut self, now: Instant) {
        self.at_once = if now == self.last { self.at_once + 1 } else { 0 };
        self.last = now;
        self.all += 1;
        assert!(self.at_once < POLLS_AT_ONCE, "tasks are polled again and again while no time passes");
    }
}

/// A process. It ends when it is [killed](Self::kill).
pub(crate) struct Process {
    random: Mutex<fastrand::Rng>,
    tasks: Mutex<Vec<AbortHandle>>,
    polls: Mutex<Polls>,
    /// The times of both clocks at the start of the simulation.
    start: (Instant, SystemTime),
    /// By how much the wall clock of the machine is wrong.
    error: &'static ClockError,
}

/// By how many seconds a wall clock is ahead, or behind if it is negative.
pub(crate) type ClockError = AtomicI64;

impl Process {
    /// Creates a process whose chance is that of `random`. It is never freed: its tasks refer to it, and a run has a few.
    #[must_use]
    pub(crate) fn new(
        random: fastrand::Rng,
        start: (Instant, SystemTime),
        error: &'static ClockError,
    ) -> &'static Self {
        let polls = Mutex::new(Polls::new(start.0));
        Box::leak(Box::new(Self { random: Mutex::new(random), tasks: Mutex::default(), polls, start, error }))
    }

    /// Returns how often tasks have been polled.
    #[must_use]
    pub(crate) fn polls(&self) -> u64 {
        self.polls.lock().all
    }

    /// Ends all tasks of the process where they are.
    pub(crate) fn kill(&self) {
        self.tasks.lock().drain(..).for_each(|task| task.abort());
    }
}

impl Simulation for Process {
    fn now(&self) -> Instant {
        tokio::time::Instant::now().into_std()
    }

    fn uptime(&self) -> Duration {
        self.now().saturating_duration_since(self.start.0)
    }

    fn utc(&self) -> SystemTime {
        let (start, date) = self.start;
        let right = date + self.now().saturating_duration_since(start);
        let error = self.error.load(Ordering::Relaxed);
        let size = Duration::from_secs(error.unsigned_abs());
        if error < 0 { right - size } else { right + size }
    }

    fn random(&self) -> u64 {
        self.random.lock().u64(..)
    }

    fn blocking_time(&self) -> Duration {
        Duration::from_micros(self.random.lock().u64(10..5_000))
    }

    fn spawned(&self, task: AbortHandle) {
        let mut tasks = self.tasks.lock();
        if tasks.len() == tasks.capacity() {
            tasks.retain(|task| !task.is_finished());
        }
        tasks.push(task);
    }

    fn polled(&self) {
        self.polls.lock().note(self.now());
    }
}
