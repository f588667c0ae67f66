//! The synchronization primitives of the pool. Tests use those of `shuttle`, which runs threads in random orders and can
//! replay a failing order from its seed.

#[cfg(test)]
pub(crate) use shuttle::sync::{Mutex, MutexGuard, atomic};
#[cfg(not(test))]
pub(crate) use std::sync::{Mutex, MutexGuard, atomic};
