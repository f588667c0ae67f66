//! The faults.

use std::any::Any;
use std::sync::Mutex;

/// All faults: each is the argument of an [`is_planted`] in the server.
pub const FAULTS: &[&str] = &[
    "a permit that is not given back",
    "a request that is repeated although it must not be",
    "a timeout that does not end the request",
    "a forgotten cancel",
    "a connection that is used again in the middle of a response",
    "a body that is complete when its connection ends",
    "a byte that is sent twice",
    "a listener that an upgrade closes",
    "a timer that is not told of an earlier deadline",
    "a stop that does not wait for requests",
    "a connection that stays counted",
    "a request that a reset does not end",
    "a record of an application that is lost",
    "an end that is announced before the last response",
    "an address that a reload closes",
    "a change by a POST that the cache does not see",
    "a purge that is lost",
    "a damaged file that is used",
    "a half-written record",
    "a certificate that expires before it is renewed",
    "a new certificate that is not used",
    "a lock that two processes have",
    "a challenge that is not answered",
    "a time of renewal that is that of another certificate",
    // The last one: the number is one of the whole program, and would be a fault of all later ones.
    "bytes of a request body that stay counted",
];

static PLANTED: Mutex<&str> = Mutex::new("");

/// Plants a fault in place of the one before.
///
/// # Panics
///
/// The fault is not one of [`FAULTS`].
pub fn plant(fault: &'static str) {
    assert!(fault.is_empty() || FAULTS.contains(&fault), "no fault is called {fault}");
    *PLANTED.lock().expect("no thread panics with it") = fault;
}

/// Returns whether a fault is planted.
///
/// # Panics
///
/// The fault is not one of [`FAULTS`].
#[must_use]
pub fn is_planted(fault: &str) -> bool {
    debug_assert!(FAULTS.contains(&fault), "{fault} is not one of the faults");
    *PLANTED.lock().expect("no thread panics with it") == fault
}

/// Keeps a value that a planted fault does not drop.
///
/// # Panics
///
/// Never: no thread panics with the lock.
pub fn lose<T: Send + 'static>(value: T) {
    static LOST: Mutex<Vec<Box<dyn Any + Send>>> = Mutex::new(Vec::new());
    LOST.lock().expect("no thread panics with it").push(Box::new(value));
}
