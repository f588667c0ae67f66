//! Locks and atomics for tests, with the methods of `parking_lot` and `std`.
//!
//! In a model ([`check`]), `shuttle` decides at each use of them which thread continues, and finds deadlocks. In other tests, they
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
use shuttle::scheduler::{PctScheduler, RandomScheduler};
pub use shuttle::thread;
use shuttle::{Config, Runner};

/// The stack of a thread of a model, in bytes. Calls that open and read files need more than the 32 KiB that are the default.
const STACK_BYTES: usize = 256 * 1024;

/// The changes of thread in an order with few of them. With more, orders are too many.
const CHANGES: usize = 3;

/// Runs a model in a number of random orders. In half of them, any thread continues at each step. In the others, a thread continues as
/// long as it can, but for a few changes: some faults need that one stops at an instruction while others do all that they have to.
///
/// A failure prints its order, which [`shuttle::replay`] repeats.
pub fn check(model: impl Fn() + Send + Sync + 'static, orders: usize) {
    let mut config = Config::new();
    config.stack_size = STACK_BYTES;
    // All orderings of atomics are the same in a model, which is known.
    config.silence_warnings = true;
    let model = Arc::new(model);
    let again = model.clone();
    Runner::new(RandomScheduler::new(orders / 2), config.clone()).run(move || model());
    Runner::new(PctScheduler::new(CHANGES, orders / 2), config).run(move || again());
}

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

#[cfg(test)]
mod tests {
    use super::atomic::{AtomicUsize, Ordering};
    use super::*;

    #[test]
    #[should_panic(expected = "an update is lost")]
    fn a_model_finds_an_update_between_two_uses_of_an_atomic() {
        let model = || {
            let count = Arc::new(AtomicUsize::new(0));
            let shared = count.clone();
            run(2, move |_| {
                let before = shared.load(Ordering::SeqCst);
                shared.store(before + 1, Ordering::SeqCst);
            });
            assert_eq!(count.load(Ordering::SeqCst), 2, "an update is lost");
        };
        check(model, 100);
    }

    /// Waits until a flag is set, by a thread that may notify before the flag is looked at and after.
    fn wait_for_a_flag(holds_the_lock: bool) {
        let shared = Arc::new((AtomicUsize::new(0), Mutex::new(()), Condvar::new()));
        let setter = shared.clone();
        let sets = thread::spawn(move || {
            setter.0.store(1, Ordering::SeqCst);
            let _lock = holds_the_lock.then(|| setter.1.lock());
            setter.2.notify_all();
        });
        let mut lock = shared.1.lock();
        while shared.0.load(Ordering::SeqCst) == 0 {
            shared.2.wait(&mut lock);
        }
        drop(lock);
        join([sets]);
    }

    #[test]
    fn a_notification_with_the_lock_is_never_lost() {
        check(|| wait_for_a_flag(true), 1_000);
    }

    #[test]
    #[should_panic(expected = "deadlock")]
    fn a_model_finds_a_notification_that_is_lost() {
        check(|| wait_for_a_flag(false), 1_000);
    }

    #[test]
    fn the_locks_are_real_ones_outside_of_models() {
        let shared = (Mutex::new(0), RwLock::new(0), Condvar::new());
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    *shared.1.write() += 1;
                    *shared.0.lock() += 1;
                    shared.2.notify_all();
                });
            }
            let mut count = shared.0.lock();
            while *count < 4 {
                shared.2.wait(&mut count);
            }
        });
        assert_eq!(*shared.1.read(), 4);
    }
}
