//! The locks of this crate. Those of its tests are controlled by `shuttle` in models of threads.

#[cfg(not(test))]
pub(crate) use parking_lot::Mutex;
#[cfg(test)]
pub(crate) use rudy_test_sync::Mutex;
