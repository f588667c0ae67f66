//! What the thread of a store has to do, and what it has done.

use std::future::poll_fn;
use std::pin::pin;
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use rudy_runtime::{clock, sleep_until};

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
    resize: bool,
    scan: bool,
    apply: bool,
    stop: bool,
    /// The number of sweeps that were requested, and that have begun.
    sweeps: u64,
    begun: u64,
    /// The number of the last sweep that has ended, and whether it was successful.
    swept: (u64, bool),
    /// The task in place of the thread, while it waits.
    waker: Option<Waker>,
}

/// The next task of the thread.
pub(crate) enum Task {
    Resize,
    Scan,
    Apply,
    /// Apply all purges to all objects.
    Sweep,
    Stop,
}

impl Work {
    /// Takes the next task, `rest` before the deadline.
    fn take(&mut self, rest: Option<Duration>) -> Option<Task> {
        if self.stop {
            return Some(Task::Stop);
        }
        if std::mem::take(&mut self.resize) {
            return Some(Task::Resize);
        }
        if std::mem::take(&mut self.scan) {
            return Some(Task::Scan);
        }
        if self.begun < self.sweeps {
            self.begun = self.sweeps;
            return Some(Task::Sweep);
        }
        let is_due = std::mem::take(&mut self.apply) || rest == Some(Duration::ZERO);
        is_due.then_some(Task::Apply)
    }
}

impl Signal {
    /// Requests a scan.
    pub(crate) fn scan(&self) {
        self.is_indexed.store(false, Ordering::Release);
        self.change(|work| work.scan = true);
    }

    /// Requests that the index gets a new capacity.
    pub(crate) fn resize(&self) {
        self.change(|work| work.resize = true);
    }

    /// Requests the application of new purges.
    pub(crate) fn apply(&self) {
        self.change(|work| work.apply = true);
    }

    /// Requests a sweep, and waits for its end. Returns whether it was successful.
    pub(crate) fn sweep(&self) -> bool {
        let mut number = 0;
        self.change(|work| {
            work.sweeps += 1;
            number = work.sweeps;
        });
        let mut work = self.work.lock();
        while work.swept.0 < number && !work.stop {
            self.changed.wait(&mut work);
        }
        work.swept.0 >= number && work.swept.1
    }

    /// Ends the sweeps that have begun.
    pub(crate) fn end_of_sweep(&self, is_successful: bool) {
        let mut work = self.work.lock();
        work.swept = (work.begun, is_successful);
    }

    pub(crate) fn stop(&self) {
        self.change(|work| work.stop = true);
    }

    fn change(&self, change: impl FnOnce(&mut Work)) {
        let waker = {
            let mut work = self.work.lock();
            change(&mut work);
            work.waker.take()
        };
        self.changed.notify_all();
        if let Some(waker) = waker {
            waker.wake();
        }
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
            let rest = deadline.map(|deadline| deadline.saturating_duration_since(clock::now()));
            if let Some(task) = work.take(rest) {
                return task;
            }
            match rest {
                None => self.changed.wait(&mut work),
                Some(rest) => drop(self.changed.wait_for(&mut work, rest)),
            }
        }
    }
    /// As [`Self::next`], for the task that a simulation has in place of the thread.
    pub(crate) async fn next_in_task(&self, deadline: Option<Instant>) -> Task {
        let mut due = pin!(sleep_until(deadline));
        poll_fn(|cx| {
            let mut work = self.work.lock();
            let rest = deadline.map(|deadline| deadline.saturating_duration_since(clock::now()));
            if let Some(task) = work.take(rest) {
                return Poll::Ready(task);
            }
            work.waker = Some(cx.waker().clone());
            due.as_mut().poll(cx).map(|()| Task::Apply)
        })
        .await
    }
}
