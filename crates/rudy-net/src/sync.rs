//! The locks and atomics of what several threads use at once. Those of tests are controlled by `shuttle` in models of threads.

#[cfg(not(test))]
pub(crate) use std::sync::atomic;

#[cfg(not(test))]
pub(crate) use parking_lot::{Condvar, Mutex, MutexGuard};
#[cfg(test)]
pub(crate) use rudy_test_sync::{Condvar, Mutex, MutexGuard, atomic};
