//! What the thread of a store has to do, and what it has done.

use std::time::{Duration, Instant};

use rudy_runtime::clock;

use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Condvar, Mutex};

/// What the thread has to do.
#[derive(Debug, Default)]
pub(crate) struct Signal {
    work: Mutex<Work>,
    changed: Condvar,
    is_indexed: AtomicBool,
}

#[derive(Debug, Default)]
struct Work {
    scan: bool,
    apply: bool,
    stop: bool,
}

/// The next task of the thread.
pub(crate) enum Task {
    Scan,
    Apply,
    Stop,
}

impl Signal {
    /// Requests a scan.
    pub(crate) fn scan(&self) {
        self.is_indexed.store(false, Ordering::Release);
        self.work.lock().scan = true;
        self.changed.notify_all();
    }

    /// Requests the application of new purges.
    pub(crate) fn apply(&self) {
        self.work.lock().apply = true;
        self.changed.notify_all();
    }

    pub(crate) fn stop(&self) {
        self.work.lock().stop = true;
        self.changed.notify_all();
    }

    /// Whether the index has all objects in the folder.
    pub(crate) fn is_indexed(&self) -> bool {
        self.is_indexed.load(Ordering::Acquire)
    }

    /// Waits until a condition holds after a task of the thread, or the thread stops.
    pub(crate) fn wait_until(&self, condition: impl Fn() -> bool) {
        let mut work = self.work.lock();
        while !condition() && !work.stop {
            self.changed.wait(&mut work);
        }
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.work.lock().stop
    }

    /// Ends a scan that has found all objects.
    pub(crate) fn end_of_scan(&self) {
        self.is_indexed.store(true, Ordering::Release);
        self.end_of_task();
    }

    /// Notifies the waiting threads of the end of a task.
    pub(crate) fn end_of_task(&self) {
        let _work = self.work.lock();
        self.changed.notify_all();
    }

    /// Waits for the next task. At `deadline`, it is to apply purges.
    pub(crate) fn next(&self, deadline: Option<Instant>) -> Task {
        let mut work = self.work.lock();
        loop {
            if work.stop {
                return Task::Stop;
            }
            if std::mem::take(&mut work.scan) {
                return Task::Scan;
            }
            let rest = deadline.map(|deadline| deadline.saturating_duration_since(clock::now()));
            if std::mem::take(&mut work.apply) || rest == Some(Duration::ZERO) {
                return Task::Apply;
            }
            match rest {
                None => self.changed.wait(&mut work),
                Some(rest) => drop(self.changed.wait_for(&mut work, rest)),
            }
        }
    }
}
