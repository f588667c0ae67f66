//! A simulated process: what the server asks for the time, chance and tasks.

use std::time::{Duration, Instant, SystemTime};

use parking_lot::Mutex;
use rudy_runtime::Simulation;
use tokio::task::AbortHandle;

/// A process. It ends when it is [killed](Self::kill).
pub(crate) struct Process {
    random: Mutex<fastrand::Rng>,
    tasks: Mutex<Vec<AbortHandle>>,
    /// The times of both clocks at the start of the simulation.
    start: (Instant, SystemTime),
}

impl Process {
    /// Creates a process whose chance is that of `random`. It is never freed: its tasks refer to it, and a run has a few.
    #[must_use]
    pub(crate) fn new(random: fastrand::Rng, start: (Instant, SystemTime)) -> &'static Self {
        Box::leak(Box::new(Self { random: Mutex::new(random), tasks: Mutex::default(), start }))
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

    fn utc(&self) -> SystemTime {
        let (start, date) = self.start;
        date + self.now().saturating_duration_since(start)
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
}
