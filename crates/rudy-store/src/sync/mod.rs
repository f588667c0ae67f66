//! The locks and atomics of a store. Those of its tests are controlled by `shuttle` in models of threads.

#[cfg(test)]
mod cache;

#[cfg(not(test))]
pub(crate) use std::sync::atomic;

#[cfg(not(test))]
pub(crate) use parking_lot::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard};
#[cfg(not(test))]
pub(crate) use quick_cache::sync::Cache;
#[cfg(test)]
pub(crate) use rudy_test_sync::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, atomic};

#[cfg(test)]
pub(crate) use self::cache::Cache;
