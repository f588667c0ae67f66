//! Failures during a response: it is aborted, and never looks complete.

use std::fs::OpenOptions;
use std::io::{Read, Write};
use std::time::SystemTime;

use rudy_service::{EndReason, Limits};

use crate::service::{FILE_BYTES, Server, read_to_close, read_until};
use crate::support::is_serial;

fn server() -> Server {
    Server::start(Limits::default())
}

#[test]
fn a_failing_stream_ends_without_its_last_chunk() {
    let server = server();
    let mut stream = server.send("GET /fail HTTP/1.1\r\nHost: a\r\n\r\n");
    let (response, ended) = read_to_close(&mut stream);
    assert!(ended && response.ends_with("\r\n4\r\npart\r\n"), "without a reset: {response}");
    assert_eq!(server.outcomes.recv().unwrap().end_reason, EndReason::Aborted);
}

#[test]
fn a_failing_stream_without_framing_is_reset() {
    let server = server();
    let mut stream = server.send("GET /fail HTTP/1.0\r\n\r\n");
    let (_, ended) = read_to_close(&mut stream);
    assert!(!ended);
}

#[test]
fn a_response_with_a_shrunken_file_is_aborted() {
    let server = server();
    let mut stream = server.send("GET /file-that-shrank HTTP/1.1\r\nHost: a\r\n\r\n");
    let head = read_until(&mut stream, "\r\n\r\n");
    assert!(head.contains(&format!("content-length: {}\r\n", 2 * FILE_BYTES)), "{head}");
    let mut body = Vec::new();
    stream.read_to_end(&mut body).unwrap();
    assert!(body.len() as u64 <= FILE_BYTES);
}

#[test]
fn a_growing_file_is_sent_as_announced() {
    let server = server();
    let mut stream = server.send("GET /file HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    read_until(&mut stream, "\r\n\r\n");
    // The socket buffers are full; the server waits for the client to read.
    let mut file = OpenOptions::new().append(true).open(server.path.path()).unwrap();
    file.write_all(b"a line of a log").unwrap();
    file.set_modified(SystemTime::UNIX_EPOCH).unwrap();
    let mut body = Vec::new();
    stream.read_to_end(&mut body).unwrap();
    assert_eq!(body.len() as u64, FILE_BYTES);
    assert_eq!(server.outcomes.recv().unwrap().end_reason, EndReason::Completed);
}

#[test]
fn a_response_with_a_file_that_shrinks_is_aborted() {
    let server = server();
    let mut stream = server.send("GET /file HTTP/1.1\r\nHost: a\r\n\r\n");
    read_until(&mut stream, "\r\n\r\n");
    server.path.as_file().set_len(FILE_BYTES - 1).unwrap();
    let mut body = Vec::new();
    stream.read_to_end(&mut body).unwrap();
    assert!((body.len() as u64) < FILE_BYTES);
    assert_eq!(server.outcomes.recv().unwrap().end_reason, EndReason::Aborted);
}

#[test]
fn a_failing_response_does_not_affect_earlier_ones() {
    let server = server();
    let mut stream = server.send("GET / HTTP/1.1\r\nHost: a\r\n\r\nGET /fail HTTP/1.1\r\nHost: a\r\n\r\n");
    read_until(&mut stream, "hello");
    let ended: Vec<_> = server.outcomes.iter().take(2).map(|outcome| outcome.end_reason).collect();
    assert_eq!(ended, [EndReason::Completed, EndReason::Aborted]);
}

#[test]
fn a_panic_in_a_body_aborts_the_response() {
    let server = server();
    let mut stream = server.send("GET /panic-in-body HTTP/1.0\r\n\r\n");
    assert!(
        !read_to_close(&mut stream).1,
        "expected a reset, because a close would look like the end of the body"
    );
    assert_eq!(server.outcomes.recv().unwrap().end_reason, EndReason::Aborted);
}

#[test]
fn a_panic_causes_status_500_and_ends_only_its_connection() {
    if is_serial() {
        return;
    }
    let server = server();
    let mut other = server.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    read_until(&mut other, "hello");
    for path in ["/panic", "/panic-later"] {
        let mut stream = server.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
        let (response, ended) = read_to_close(&mut stream);
        assert!(response.starts_with("HTTP/1.1 500 ") && ended, "{response}");
    }
    other.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    read_until(&mut other, "hello");
    let panics: u64 = server.engine.workers().iter().map(|worker| worker.counters.panics.get()).sum();
    assert_eq!(panics, 2);
}

#[test]
fn a_disconnect_is_the_end_reason_of_its_exchange() {
    let server = server();
    let mut stream = server.send("GET /file HTTP/1.1\r\nHost: a\r\n\r\n");
    read_until(&mut stream, "\r\n\r\n");
    drop(stream);
    let outcome = server.outcomes.recv().unwrap();
    assert_eq!((outcome.end_reason, outcome.status.unwrap().as_u16()), (EndReason::PeerGone, 200));
    assert!(outcome.body_bytes < FILE_BYTES);
}
