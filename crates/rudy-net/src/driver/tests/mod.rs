//! Unit tests of the driver.

mod calls;
mod closing;
mod fairness;
mod harness;
mod http2;
mod second_protocol;
mod session;
mod slow_reader;
mod stored;
mod tls;
mod toy;
mod transport;
mod wakes;

use rudy_service::{ExchangeOutcome, Limits, Reply, Request};

use super::connection::ConnectionInfo;
use super::*;

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

/// With the 136 bytes that tokio adds and 16 of the engine, the task of a connection fills two of its
/// 128-byte cache lines. One more field would make every idle connection a third larger.
#[test]
fn a_waiting_connection_fits_its_cache_lines() {
    // A socket has 8 more bytes with debug assertions.
    let debug_bytes = if cfg!(debug_assertions) { 8 } else { 0 };
    assert!(size_of::<Serve<Nothing>>() <= 104 + debug_bytes, "{}", size_of::<Serve<Nothing>>());
}

/// The allocator leaves two gaps of 104 bytes after a task and a socket, which are aligned to cache lines.
/// One holds the connection's static data, the other a waiting response with a body of up to 56 bytes.
#[test]
fn the_boxes_of_a_connection_fit_in_the_gaps_of_the_allocator() {
    assert!(size_of::<ConnectionInfo>() <= 104, "{}", size_of::<ConnectionInfo>());
    assert!(size_of::<Exchange>() <= 40, "{}", size_of::<Exchange>());
}
