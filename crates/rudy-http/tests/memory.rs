//! What a connection holds while its client waits, counted where memory is allocated.

mod counting;

use std::sync::atomic::Ordering;
use std::time::{Instant, SystemTime};

use bytes::BytesMut;
use http::{HeaderMap, StatusCode};
use rudy_http::Limits;
use rudy_http::h1::{DateLine, Event, ResponseHead, ServerConnection};

use crate::counting::HELD;

const CONNECTIONS: usize = 100;
/// What a driver could read at once.
const READ_BYTES: usize = 64 * 1024;
const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
const POST: &[u8] = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n";
const CHUNKED: &[u8] = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";

/// One test, so that little else allocates.
#[test]
fn a_connection_holds_what_is_left_over_and_as_much_as_a_head_may_have_at_most() {
    let head_bytes = Limits::default().head_bytes;
    // A buffer has room for a quarter more than it holds.
    let full = head_bytes + head_bytes / 4;
    let pipeline = GET.repeat(1000);
    let requests = |bytes: usize| bytes / GET.len();
    for (name, sent, answered, most) in [
        ("a part of a head", b"GET / HT".to_vec(), 0, 64),
        ("a request", GET.to_vec(), 0, 64),
        ("the last of a pipeline", pipeline.clone(), 999, 64),
        ("the last of a pipeline but one", pipeline.clone(), 998, 2 * GET.len()),
        ("a part of a head behind a pipeline", [&pipeline, &b"GET / HT"[..]].concat(), 1000, 64),
        ("a pipeline that is answered", pipeline.clone(), 1000, 64),
        ("the first of a pipeline", pipeline.clone(), 0, full),
        ("one in the middle of a pipeline", pipeline.clone(), requests(head_bytes / 2), full),
        ("a body that is not read", [POST, &pipeline].concat(), 0, full),
        ("chunks that are not read", [CHUNKED, &b"1\r\na\r\n".repeat(20_000)].concat(), 0, full),
    ] {
        let held = held_by_each(&sent, answered);
        assert!(held <= most, "{name}: {held} bytes, of {most} at most");
    }
}

/// Memory in bytes of one of many connections whose clients have sent `sent`, after `answered` responses.
fn held_by_each(sent: &[u8], answered: usize) -> usize {
    let mut connections = Vec::with_capacity(CONNECTIONS);
    let before = HELD.load(Ordering::Relaxed);
    for _ in 0..CONNECTIONS {
        connections.push(connection(sent, answered));
    }
    (HELD.load(Ordering::Relaxed) - before) / CONNECTIONS
}

/// A connection whose driver reads whenever there is room, and has sent `answered` responses.
fn connection(mut sent: &[u8], answered: usize) -> ServerConnection {
    let (limits, now) = (Limits::default(), Instant::now());
    let date = DateLine::new(SystemTime::UNIX_EPOCH);
    let mut machine = ServerConnection::new(now);
    let mut out = BytesMut::new();
    let mut left = answered;
    loop {
        let (read, rest) = sent.split_at(machine.input_room(&limits).min(READ_BYTES).min(sent.len()));
        sent = rest;
        let event = machine.receive(read, now, &limits).expect("the requests are in order");
        let is_request = matches!(event, Some(Event::Request(_)));
        if is_request && left > 0 {
            left -= 1;
            let head = ResponseHead::Fields(StatusCode::OK, &HeaderMap::new());
            machine.begin(head, Some(0), &limits, &date, &mut out);
            machine.finish(None, now, &mut out).expect("nothing was promised");
            out.clear();
        } else if read.is_empty() && (!is_request || left == 0) {
            return machine;
        }
    }
}
