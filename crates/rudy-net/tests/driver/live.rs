//! Live bodies, whose pieces arrive over time.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::time::{Duration, Instant};

use rudy_net::Counters;
use rudy_service::{EndReason, Limits};

use crate::service::live_body::{INTERVAL, LARGE};
use crate::service::{Server, read_to_close, read_until};
use crate::support::{PATIENCE, eventually, sum};

fn server() -> Server {
    let mut limits = Limits::default();
    // With a silent body, this timeout detects a disconnect.
    limits.http.half_close_timeout = Duration::from_millis(150);
    Server::start(limits)
}

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n")
}

#[test]
fn each_piece_is_sent_alone_when_it_is_due() {
    let server = server();
    let start = Instant::now();
    let mut stream = server.send(get("/live"));
    read_until(&mut stream, "\r\n\r\n");
    for _ in 0..5 {
        assert_eq!(read_until(&mut stream, "tick\n\r\n"), "5\r\ntick\n\r\n");
    }
    assert!(start.elapsed() >= 5 * INTERVAL, "never early");
}

#[test]
fn the_connection_stays_open_after_the_body() {
    let server = server();
    let mut stream = server.send(get("/live/three") + &get("/"));
    let text = read_until(&mut stream, "hello");
    assert_eq!(text.matches("tick\n").count(), 3, "{text}");
    assert!(text.contains("tick\n\r\n0\r\n\r\nHTTP/1.1 200 OK\r\n"), "{text}");
    assert_eq!(server.outcomes.recv().unwrap().body_bytes, 15);
}

#[test]
fn earlier_pipelined_responses_are_sent_at_once() {
    let server = server();
    let mut stream = server.send(get("/") + &get("/live"));
    read_until(&mut stream, "hello");
    assert_eq!(server.outcomes.recv().unwrap().end_reason, EndReason::Completed);
    read_until(&mut stream, "tick\n");
}

#[test]
fn http_1_0_receives_an_unframed_body_until_the_close() {
    let server = server();
    let (text, ended) = read_to_close(&mut server.send("GET /live/three HTTP/1.0\r\n\r\n"));
    assert!(ended && text.ends_with("\r\n\r\ntick\ntick\ntick\n"), "{text}");
}

#[test]
fn a_head_request_receives_only_the_head() {
    let server = server();
    let mut stream = server.send("HEAD /live HTTP/1.1\r\nHost: a\r\n\r\n".to_owned() + &get("/"));
    let text = read_until(&mut stream, "hello");
    assert!(!text.contains("tick"), "{text}");
}

#[test]
fn a_peer_too_far_behind_is_dropped_and_counted() {
    let server = server();
    let mut stream = server.send(get("/live/large"));
    assert_eq!(server.outcomes.recv().unwrap().end_reason, EndReason::PeerStalled);
    assert_eq!(sum(&*server.engine, |counters: &Counters| &counters.dropped), 1);
    let (_, ended) = read_to_close(&mut stream);
    assert!(!ended, "expected a reset");
}

#[test]
fn a_slow_peer_within_the_limits_receives_everything() {
    let server = server();
    let mut stream = server.send("GET /live/large-and-patient HTTP/1.0\r\n\r\n");
    read_until(&mut stream, "\r\n\r\n");
    let mut pieces = vec![0; 3 * LARGE.len()];
    stream.read_exact(&mut pieces).unwrap();
    assert!(pieces.iter().all(|byte| *byte == b'x'));
}

#[test]
fn a_disconnect_from_a_silent_body_is_detected() {
    let server = server();
    let mut stream = server.send(get("/live/silent"));
    read_until(&mut stream, "\r\n\r\n");
    drop(stream);
    assert_eq!(server.outcomes.recv().unwrap().end_reason, EndReason::PeerGone);
}

/// The end of the input may be behind more data than the server buffers, or behind an unread body.
#[test]
fn a_disconnect_behind_unread_input_is_detected() {
    let pipelined = get("/live/silent") + &"x".repeat(Limits::default().http.head_bytes + 1);
    let half_a_body = "POST /live/silent HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nx".to_owned();
    let chunk_without_end =
        "POST /live/silent HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n".to_owned();
    for request in [pipelined, half_a_body, chunk_without_end] {
        let server = server();
        let mut stream = server.send(&request);
        read_until(&mut stream, "\r\n\r\n");
        drop(stream);
        let outcome = server.outcomes.recv_timeout(PATIENCE);
        assert_eq!(outcome.unwrap().end_reason, EndReason::PeerGone, "{request:.40}");
    }
}

#[test]
fn a_disconnect_ends_the_body() {
    let server = server();
    let mut stream = server.send(get("/live"));
    read_until(&mut stream, "tick\n");
    drop(stream);
    assert_eq!(server.outcomes.recv().unwrap().end_reason, EndReason::PeerGone);
    eventually("the connection is closed", || sum(&*server.engine, |counters| &counters.closed) == 1);
}

#[test]
fn a_half_closed_peer_keeps_receiving() {
    let server = server();
    let mut stream = server.send(get("/live/three"));
    stream.shutdown(Shutdown::Write).unwrap();
    let (text, ended) = read_to_close(&mut stream);
    assert!(ended && text.ends_with("tick\n\r\n0\r\n\r\n"), "{text}");
}

#[test]
fn input_during_a_body_is_buffered_up_to_a_limit() {
    let server = server();
    let mut stream = server.send(get("/live"));
    stream.set_nonblocking(true).unwrap();
    let mut sent = 0;
    // Full when the server stops reading.
    while let Ok(bytes) = stream.write(LARGE) {
        sent += bytes;
    }
    stream.set_nonblocking(false).unwrap();
    for _ in 0..3 {
        read_until(&mut stream, "tick\n");
    }
    let received = sum(&*server.engine, |counters| &counters.received_bytes);
    // One read may return more than is buffered later.
    let most = 64 * 1024 + Limits::default().http.head_bytes as u64;
    assert!(received <= most && sent as u64 > most, "{received} of {sent} bytes were read");
}

#[test]
fn a_panic_in_the_body_aborts_only_its_response() {
    let server = server();
    let mut stream = server.send(get("/live/panic"));
    let (text, ended) = read_to_close(&mut stream);
    assert!(ended && !text.ends_with("0\r\n\r\n"), "{text}");
    assert_eq!(sum(&*server.engine, |counters| &counters.panics), 1);
    read_until(&mut server.send(get("/")), "hello");
}

#[test]
fn a_stopping_server_ends_the_body_properly() {
    let server = server();
    let mut stream = server.send(get("/live"));
    read_until(&mut stream, "tick\n");
    let stopped = block_on(server.engine.stop(Duration::from_mins(1)));
    assert_eq!(stopped.aborted, 0);
    let (text, ended) = read_to_close(&mut stream);
    assert!(ended && text.ends_with("0\r\n\r\n"), "{text}");
}

fn block_on<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}
