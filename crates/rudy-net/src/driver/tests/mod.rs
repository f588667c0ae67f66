//! The driver from within.

mod closing;
mod harness;
mod second_protocol;
mod session;
mod toy;
mod transport;

use super::*;
use crate::{ExchangeOutcome, Reply, Request};

struct Nothing;

impl ServiceSource for Nothing {
    type Service = Self;
    type Current = Arc<Self>;

    fn current(&self) -> Arc<Self> {
        unreachable!("never served")
    }
}

impl Service for Nothing {
    fn call(&self, _request: Request, _client: &Client<'_>) -> Reply {
        Response::new(StatusCode::NO_CONTENT).into()
    }

    fn limits(&self) -> &Arc<Limits> {
        unreachable!("never served")
    }

    fn rejected(&self, _client: &Client<'_>, _reason: &str, _outcome: &ExchangeOutcome) {}
}

/// With the 136 bytes that tokio adds and 16 of the engine, the connection's task fills two of its 128-byte cache lines. A field
/// more and every idle connection costs a third.
#[test]
fn a_waiting_connection_fits_its_cache_lines() {
    // A socket has 8 bytes more where debug assertions are on.
    let debug_bytes = if cfg!(debug_assertions) { 8 } else { 0 };
    assert!(size_of::<Serve<Nothing>>() <= 104 + debug_bytes, "{}", size_of::<Serve<Nothing>>());
}

/// The allocator leaves two holes of 104 bytes beside a task and a socket, which are aligned to cache lines: one for the info, one
/// for a response that waits and its body, if that has no more than 56.
#[test]
fn what_a_connection_keeps_fits_beside_its_task() {
    assert!(size_of::<ConnectionInfo>() <= 104, "{}", size_of::<ConnectionInfo>());
    assert!(size_of::<Exchange>() <= 40, "{}", size_of::<Exchange>());
}
