//! Locks and atomics for tests, with the methods of `parking_lot` and `std`.
//!
//! In a model ([`check_random`]), `shuttle` decides at each use of them which thread continues, and finds deadlocks. In other tests, they
//! are real ones: most tests of a crate have sockets, files or threads of the system. All threads of a model are one thread of the system,
//! so a model must not wait for anything else, and a lock that is not from here must be free wherever it uses one from here.

pub mod atomic;
mod condvar;
mod mutex;
mod rwlock;

use std::sync::Arc;

pub use condvar::{Condvar, WaitTimeoutResult};
pub use mutex::{Mutex, MutexGuard};
pub use rwlock::{RwLock, RwLockReadGuard, RwLockWriteGuard};
pub use shuttle::future::block_on;
pub use shuttle::{check_random, thread};

/// Runs a number of threads of a model to their end, and passes each its number.
pub fn run(threads: usize, thread: impl Fn(usize) + Send + Sync + 'static) {
    let thread = Arc::new(thread);
    let run = |number| {
        let thread = thread.clone();
        thread::spawn(move || thread(number))
    };
    join((0..threads).map(run).collect::<Vec<_>>());
}

/// Waits for threads of a model.
pub fn join(threads: impl IntoIterator<Item = thread::JoinHandle<()>>) {
    for thread in threads {
        thread.join().expect("shuttle ends the model at the first panic");
    }
}

/// Whether the current thread is one of a model.
fn is_in_model() -> bool {
    shuttle::current::try_get_current_task().is_some()
}
