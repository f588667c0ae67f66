//! The primitives that the pool shares between threads. The tests take those of `shuttle`, which runs the threads in random
//! orders, and finds an order that breaks an invariant again by its seed.

#[cfg(test)]
pub(crate) use shuttle::sync::{Mutex, MutexGuard, atomic};
#[cfg(not(test))]
pub(crate) use std::sync::{Mutex, MutexGuard, atomic};
