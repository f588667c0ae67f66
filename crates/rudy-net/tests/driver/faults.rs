//! What breaks in the middle: the answer is cut, and nobody can take it for a whole one.

use std::io::{Read, Write};

use rudy_net::{EndReason, Limits};

use crate::service::{FILE_BYTES, Server, read_to_close, read_until};
use crate::support::is_serial;

fn server() -> Server {
    Server::start(Limits::default())
}

#[test]
fn a_stream_that_fails_is_cut_without_its_last_chunk() {
    let server = server();
    let mut stream = server.send("GET /fail HTTP/1.1\r\nHost: a\r\n\r\n");
    let (answer, ended) = read_to_close(&mut stream);
    assert!(!ended && !answer.ends_with("0\r\n\r\n"), "{answer}");
    assert_eq!(server.outcomes.recv().unwrap().end_reason, EndReason::Aborted);
}

#[test]
fn a_stream_that_fails_is_reset_where_its_end_would_be_the_close() {
    let server = server();
    let mut stream = server.send("GET /fail HTTP/1.0\r\n\r\n");
    let (_, ended) = read_to_close(&mut stream);
    assert!(!ended);
}

#[test]
fn a_file_that_shrank_is_cut_before_its_length() {
    let server = server();
    let mut stream = server.send("GET /file-that-shrank HTTP/1.1\r\nHost: a\r\n\r\n");
    let head = read_until(&mut stream, "\r\n\r\n");
    assert!(head.contains(&format!("content-length: {}\r\n", 2 * FILE_BYTES)), "{head}");
    let mut body = Vec::new();
    assert!(stream.read_to_end(&mut body).is_err(), "reset, not ended");
    assert!(body.len() as u64 <= FILE_BYTES);
}

#[test]
fn a_file_that_changes_in_place_is_cut() {
    let server = server();
    let mut stream = server.send("GET /file HTTP/1.1\r\nHost: a\r\n\r\n");
    read_until(&mut stream, "\r\n\r\n");
    // The socket buffers are full of what has been sent so far; the rest waits for us to read.
    let mut file = server.path.reopen().unwrap();
    file.write_all(b"changed").unwrap();
    let mut body = Vec::new();
    assert!(stream.read_to_end(&mut body).is_err(), "reset, not ended");
    assert!((body.len() as u64) < FILE_BYTES);
    assert_eq!(server.outcomes.recv().unwrap().end_reason, EndReason::Aborted);
}

#[test]
fn an_answer_that_fails_does_not_take_those_before_it_along() {
    let server = server();
    let mut stream = server.send("GET / HTTP/1.1\r\nHost: a\r\n\r\nGET /fail HTTP/1.1\r\nHost: a\r\n\r\n");
    read_until(&mut stream, "hello");
    let ended: Vec<_> = server.outcomes.iter().take(2).map(|outcome| outcome.end_reason).collect();
    assert_eq!(ended, [EndReason::Completed, EndReason::Aborted]);
}

#[test]
fn a_panic_in_a_body_cuts_the_answer() {
    let server = server();
    let mut stream = server.send("GET /panic-in-body HTTP/1.0\r\n\r\n");
    assert!(!read_to_close(&mut stream).1, "reset: its end would pass for the end of the body");
    assert_eq!(server.outcomes.recv().unwrap().end_reason, EndReason::Aborted);
}

#[test]
fn a_panic_is_answered_500_and_ends_only_its_connection() {
    if is_serial() {
        return;
    }
    let server = server();
    let mut other = server.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    read_until(&mut other, "hello");
    for path in ["/panic", "/panic-later"] {
        let mut stream = server.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
        let (answer, ended) = read_to_close(&mut stream);
        assert!(answer.starts_with("HTTP/1.1 500 ") && ended, "{answer}");
    }
    other.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    read_until(&mut other, "hello");
    let panics: u64 = server.engine.workers().iter().map(|worker| worker.counters.panics.get()).sum();
    assert_eq!(panics, 2);
}

#[test]
fn an_answer_that_the_peer_leaves_is_told_so() {
    let server = server();
    let mut stream = server.send("GET /file HTTP/1.1\r\nHost: a\r\n\r\n");
    read_until(&mut stream, "\r\n\r\n");
    drop(stream);
    let outcome = server.outcomes.recv().unwrap();
    assert_eq!((outcome.end_reason, outcome.status.unwrap().as_u16()), (EndReason::PeerGone, 200));
    assert!(outcome.body_bytes < FILE_BYTES);
}
