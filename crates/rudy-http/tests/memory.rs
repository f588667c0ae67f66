//! Measures the memory that a connection holds while its client waits, with a counting allocator.

mod counting;

use std::sync::atomic::Ordering;
use std::time::{Instant, SystemTime};

use bytes::BytesMut;
use http::{HeaderMap, StatusCode};
use rudy_http::Limits;
use rudy_http::h1::{Event, ServerConnection};
use rudy_message::{DateLine, ResponseHead};

use crate::counting::HELD;

const CONNECTIONS: usize = 100;
/// The most that the caller reads at once.
const READ_BYTES: usize = 64 * 1024;
const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
const POST: &[u8] = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n";
const CHUNKED: &[u8] = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";

/// The only test of this binary, so that no other test allocates.
#[test]
fn a_connection_buffers_unconsumed_input_up_to_the_size_of_a_head() {
    let head_bytes = Limits::default().head_bytes;
    // The capacity of a buffer is at most a quarter more than its length.
    let full = head_bytes + head_bytes / 4;
    let pipeline = GET.repeat(1000);
    let requests = |bytes: usize| bytes / GET.len();
    for (name, sent, responses, most) in [
        ("an incomplete head", b"GET / HT".to_vec(), 0, 64),
        ("a request", GET.to_vec(), 0, 64),
        ("the last request of a pipeline", pipeline.clone(), 999, 64),
        ("the last two requests of a pipeline", pipeline.clone(), 998, 2 * GET.len()),
        ("an incomplete head after a pipeline", [&pipeline, &b"GET / HT"[..]].concat(), 1000, 64),
        ("a pipeline with all responses", pipeline.clone(), 1000, 64),
        ("the first request of a pipeline", pipeline.clone(), 0, full),
        ("a request in the middle of a pipeline", pipeline.clone(), requests(head_bytes / 2), full),
        ("a body that is not read", [POST, &pipeline].concat(), 0, full),
        ("chunks that are not read", [CHUNKED, &b"1\r\na\r\n".repeat(20_000)].concat(), 0, full),
    ] {
        let held = held_by_each(&sent, responses);
        assert!(held <= most, "{name}: {held} bytes, expected at most {most}");
    }
}

/// Returns the memory per connection in bytes, after the client has sent `sent` and received `responses` responses.
fn held_by_each(sent: &[u8], responses: usize) -> usize {
    let mut connections = Vec::with_capacity(CONNECTIONS);
    let before = HELD.load(Ordering::Relaxed);
    for _ in 0..CONNECTIONS {
        connections.push(connection(sent, responses));
    }
    (HELD.load(Ordering::Relaxed) - before) / CONNECTIONS
}

/// Creates a connection whose caller reads as much as possible and has sent `responses` responses.
fn connection(mut sent: &[u8], responses: usize) -> ServerConnection {
    let (limits, now) = (Limits::default(), Instant::now());
    let date = DateLine::new(SystemTime::UNIX_EPOCH);
    let mut connection = ServerConnection::new(now);
    let mut out = BytesMut::new();
    let mut left = responses;
    loop {
        let (read, rest) = sent.split_at(connection.input_room(&limits).min(READ_BYTES).min(sent.len()));
        sent = rest;
        let event = connection.receive(read, now, &limits).expect("the requests are valid");
        let is_request = matches!(event, Some(Event::Request(_)));
        if is_request && left > 0 {
            left -= 1;
            let head = ResponseHead::Fields(StatusCode::OK, &HeaderMap::new());
            connection.begin(head, Some(0), &limits, &date, &mut out);
            connection.finish(None, now, &mut out).expect("the body is empty");
            out.clear();
        } else if read.is_empty() && (!is_request || left == 0) {
            return connection;
        }
    }
}
