//! The faults.

use std::any::Any;
use std::sync::Mutex;

/// All faults: each is the argument of an [`is_planted`] in the server.
pub const FAULTS: &[&str] = &[
    "a permit that is not given back",
    "a timeout that does not end the request",
    "a connection that is used again in the middle of a response",
    "a body that is complete when its connection ends",
    "a byte that is sent twice",
    "a listener that an upgrade closes",
    "a timer that is not told of an earlier deadline",
    "a stop that does not wait for requests",
    "a connection that stays counted",
    "a request that a reset does not end",
    "a record of an application that is lost",
    "an address that a reload closes",
    "a change by a POST that the cache does not see",
    "a purge that is lost",
    "a damaged file that is used",
    "a half-written record",
    "a certificate that expires before it is renewed",
    "a new certificate that is not used",
    "a lock that two processes have",
    "a challenge that is not answered",
    "a stream over QUIC that is not told of room",
    "an end over QUIC before the last response has arrived",
    "a connection over QUIC that keeps its place",
    // Fixes of the past, reverted: the comments name the commits.
    // 81f5c8be: requests that are not safe went to an application again when a kept connection had ended.
    "a request that is repeated although it must not be",
    // 15fba60d: applications kept the requests of clients that had gone.
    "a forgotten cancel",
    // 75107971: responses over HTTP/2 broke in a reload.
    "an end that is announced before the last response",
    // bdfc149a: after a purge, requests received what an application had begun to send before it.
    "a request that joins one from before a purge or a change",
    // d30c04ab: validated responses had their old age while another process stored.
    "fields of a 304 that are lost if they cannot be stored",
    // 0e6fc9cf: a client could send HTTP/2 byte by byte without an end.
    "reads of a few bytes that are not counted",
    // 60387b7d: requests of clients that were gone went on after these had ended their side.
    "a client of HTTP/2 that is gone after its end",
    // 2de2be5c: purges of a prefix with upper-case letters or the default port had no effect.
    "a prefix of purges in another spelling",
    // 9b266a2b: the cache stored nothing after a reload that changed it.
    "a prepared response that keeps a store",
    // 7a506833: empty lines kept a connection of HTTP/1.1 forever.
    "an empty line that extends a timeout",
    // 550547be: a reload could not use a port that an earlier one had given up.
    "a port that a closed listener keeps",
    // c5abf07f: of several processes with one state folder, each ordered the certificate again after another one had renewed it.
    // 0b5b928e: requests that waited for a failed validation got the stale response, whatever they permitted.
    "a stale response for a request that joins one that may have it",
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
