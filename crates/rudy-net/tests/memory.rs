//! The memory of a connection that waits for a response while its client sends more, or between two requests,
//! measured at the allocator.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

#[path = "../../rudy-http/tests/counting/mod.rs"]
mod counting;
#[path = "engine/support.rs"]
#[expect(dead_code, reason = "shared with the engine's tests, which use more of it")]
mod support;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use http::StatusCode;
use rudy_net::listen::BoundAddress;
use rudy_service::{Client, ExchangeOutcome, Limits, Peer, Reply, Request, Response, Service};

use crate::counting::HELD;
use crate::support::{engine_of, eventually, listen, sum};

const CONNECTIONS: usize = 50;
/// The connection's task, its exchange, and its handler.
const SMALL: usize = 3 * 1024;

/// Responds only to `/now`; other requests wait until the connection is dropped.
struct Silent(Arc<Limits>);

impl Service for Silent {
    fn is_trusted_proxy(&self, _peer: &Peer) -> bool {
        true
    }

    fn call(&self, request: Request, _client: &Client<'_>) -> Reply {
        if request.uri().path() == "/now" {
            return Response::new(StatusCode::NO_CONTENT).into();
        }
        let request = request.into_owned();
        Reply::Later(Box::pin(async move {
            let _body_that_is_not_read = request;
            std::future::pending().await
        }))
    }

    fn limits(&self) -> &Arc<Limits> {
        &self.0
    }

    fn rejected(&self, _client: &Client<'_>, _reason: &str, _outcome: &ExchangeOutcome) {}
}

/// One test, so that little else allocates.
#[test]
fn a_waiting_connection_buffers_at_most_the_head_limit() {
    const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    const POST: &str = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n";
    const CHUNKED: &str = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    let head_bytes = Limits::default().http.head_bytes;
    // A buffer grows by at most a quarter more than its content.
    let full = head_bytes + head_bytes / 4 + SMALL;
    let pipeline = GET.repeat(60 * 1024 / GET.len());
    for (name, request, most) in [
        ("nothing", GET.to_owned(), SMALL),
        ("a pipeline", pipeline.clone(), full),
        ("a body that is not read", POST.to_owned() + &pipeline, full),
        ("chunks that are not read", CHUNKED.to_owned() + &"1\r\na\r\n".repeat(10_000), full),
    ] {
        let held = held_by_each("127.0.0.1:0", &request);
        assert!(held <= most, "{name}: {held} bytes, of {most} at most");
    }
    a_proxy_protocol_header_holds_no_memory();
}

fn a_proxy_protocol_header_holds_no_memory() {
    const NOW: &str = "GET /now HTTP/1.1\r\nHost: a\r\n\r\n";
    // The longest version 1 header.
    let address = "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff";
    let header = format!("PROXY TCP6 {address} {address} 65535 65535\r\n");
    let idle = held_by_each("127.0.0.1:0", NOW);
    let behind_header = held_by_each("127.0.0.1:0,proxy_protocol", &format!("{header}{NOW}"));
    assert!(behind_header <= idle, "{behind_header} bytes, {idle} without a header");
}

/// Returns the memory per connection, for many connections whose clients have sent `request` and wait.
fn held_by_each(address: &str, request: &str) -> usize {
    let at_start = HELD.load(Ordering::Relaxed);
    let (engine, _) = engine_of(1, Silent(Arc::default()));
    let BoundAddress::Ip(address) = listen(&*engine, address) else { panic!("TCP") };
    let connect = || {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        stream
    };
    // Performs one-time allocations: the thread's buffers, the first block of the timers.
    let first: Vec<_> = (0..64).map(|_| connect()).collect();
    let requests = |count: usize| {
        eventually("the requests arrive", || sum(&*engine, |counters| &counters.requests) == count as u64);
    };
    requests(first.len());
    let mut streams = Vec::with_capacity(CONNECTIONS);
    let before = HELD.load(Ordering::Relaxed);
    streams.extend((0..CONNECTIONS).map(|_| connect()));
    requests(first.len() + CONNECTIONS);
    // A later connection has been rejected, so the others have read all that they buffer.
    let mut last = TcpStream::connect(address).unwrap();
    last.write_all(b"bad\r\n\r\n").unwrap();
    last.read_to_end(&mut Vec::new()).unwrap();
    let held = HELD.load(Ordering::Relaxed).saturating_sub(before) / CONNECTIONS;
    drop((engine, streams, first));
    // Otherwise the next measurement would begin with the memory of this one. What a process allocates once may stay.
    eventually("the connections end", || HELD.load(Ordering::Relaxed) < at_start + CONNECTIONS * SMALL / 4);
    held
}
