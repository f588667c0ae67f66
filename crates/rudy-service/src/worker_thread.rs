//! Which worker of an engine runs on a thread.

use std::cell::Cell;

use tokio::runtime::{Handle, Id};

thread_local! {
    static CURRENT: Cell<Option<WorkerThread>> = const { Cell::new(None) };
}

/// The worker that runs on a thread. The engine sets it when it starts the thread, so that no request has to look it up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkerThread {
    number: usize,
    runtime: Id,
}

impl WorkerThread {
    /// Returns the worker of the current thread; `None` on a thread that is no worker, such as the main one and those for blocking work.
    #[must_use]
    pub fn current() -> Option<Self> {
        CURRENT.get()
    }

    /// Returns its number, from 0 and below the number of workers of its engine. Engines that run at the same
    /// time use the same numbers.
    #[must_use]
    pub fn number(self) -> usize {
        self.number
    }

    /// Makes the current thread the worker with this number, whose connections `runtime` polls.
    pub fn enter(number: usize, runtime: &Handle) {
        CURRENT.set(Some(Self { number, runtime: runtime.id() }));
    }
}

/// Returns the id of the runtime of the current thread, with which its sockets are registered. A worker needs no reference to the
/// runtime for it.
#[must_use]
pub fn current_runtime() -> Option<Id> {
    let of_worker = WorkerThread::current().map(|worker| worker.runtime);
    of_worker.or_else(|| Handle::try_current().ok().map(|handle| handle.id()))
}
