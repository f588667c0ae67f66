//! The content and order of responses, and how the connection ends after them.

use std::io::{Read, Write};
use std::net::Shutdown;

use rudy_service::{EndReason, Limits};

use crate::service::{FILE_BYTES, Server, read_to_close, read_until};
use crate::support::is_serial;

fn server() -> Server {
    Server::start(Limits::default())
}

#[test]
fn pipelined_requests_receive_their_responses_in_order() {
    let server = server();
    let request = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut stream = server.send([request("/"), request("/wait"), request("/pieces"), request("/")].concat());
    read_until(&mut stream, "hello");
    server.began.recv().unwrap();
    server.go.notify_waiters();
    read_until(&mut stream, "waited");
    read_until(&mut stream, "5\r\nthree\r\n0\r\nx-end: yes\r\n\r\n");
    read_until(&mut stream, "hello");
    let ended: Vec<_> =
        server.outcomes.iter().take(4).map(|outcome| (outcome.end_reason, outcome.body_bytes)).collect();
    assert_eq!(ended, [5, 6, 13, 5].map(|bytes| (EndReason::Completed, bytes)));
}

#[test]
fn every_request_of_a_deep_pipeline_receives_a_response() {
    let server = server();
    let mut stream = server.connect();
    let mut writer = stream.try_clone().unwrap();
    let sender = std::thread::spawn(move || {
        writer.write_all(&b"GET / HTTP/1.1\r\nHost: a\r\n\r\n".repeat(20_000)).unwrap();
        writer.shutdown(Shutdown::Write).unwrap();
    });
    let (output, ended) = read_to_close(&mut stream);
    assert_eq!(output.matches("\r\n\r\nhello").count(), 20_000);
    assert!(ended);
    sender.join().unwrap();
}

#[test]
fn a_half_closed_client_receives_its_response() {
    let server = server();
    let mut stream = server.send("GET /wait HTTP/1.1\r\nHost: a\r\n\r\n");
    stream.shutdown(Shutdown::Write).unwrap();
    server.began.recv().unwrap();
    server.go.notify_waiters();
    let (response, ended) = read_to_close(&mut stream);
    assert!(response.ends_with("waited") && ended, "{response}");
}

#[test]
fn a_reset_ends_the_exchange_of_a_waiting_service() {
    let server = server();
    let stream = server.send("GET /wait HTTP/1.1\r\nHost: a\r\n\r\n");
    server.began.recv().unwrap();
    socket2::SockRef::from(&stream).set_linger(Some(std::time::Duration::ZERO)).unwrap();
    drop(stream);
    assert_eq!(server.outcomes.recv().unwrap().end_reason, EndReason::PeerGone);
}

#[test]
fn a_large_file_arrives_complete_after_its_head() {
    let server = server();
    let mut stream = server.send("GET /file HTTP/1.1\r\nHost: a\r\n\r\n");
    read_until(&mut stream, "\r\n\r\n");
    let copied = std::io::copy(&mut (&mut stream).take(FILE_BYTES), &mut std::io::sink()).unwrap();
    assert_eq!(copied, FILE_BYTES);
    stream.write_all(b"GET /parts HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    assert!(read_until(&mut stream, "<\0\0\0>").contains("content-length: 5\r\n"));
    stream
        .write_all(b"HEAD /file HTTP/1.1\r\nHost: a\r\n\r\nGET /large HTTP/1.1\r\nHost: a\r\n\r\n")
        .unwrap();
    let head = read_until(&mut stream, "\r\n\r\n");
    assert!(head.contains(&format!("content-length: {FILE_BYTES}\r\n")), "{head}");
    read_until(&mut stream, "\r\n\r\n");
    let mut large = vec![0; 1 << 20];
    stream.read_exact(&mut large).unwrap();
    assert!(large.iter().all(|byte| *byte == b'x'));
}

/// A poll sends up to 512 KiB, so the file takes at least 128 polls. A driver that sends all that the socket
/// accepts would yield two or three times in all.
#[test]
fn a_fast_download_does_not_block_other_connections() {
    if is_serial() {
        return;
    }
    // On a busy machine the other client is often late. The faulty driver would fail every time.
    let is_shared = (0..20).any(|_| responses_during_a_download() > 20);
    assert!(is_shared, "at most 20 responses during each of 20 downloads");
}

fn responses_during_a_download() -> u32 {
    let server = Server::start_on(1, Limits::default());
    let mut download = server.send("GET /file HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    let mut other = server.connect();
    let reader = std::thread::spawn(move || std::io::copy(&mut download, &mut std::io::sink()).unwrap());
    let mut responses = 0;
    while !reader.is_finished() {
        other.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        read_until(&mut other, "hello");
        responses += 1;
    }
    assert!(reader.join().unwrap() > FILE_BYTES);
    responses
}

#[test]
fn a_stream_ends_with_the_connection_in_http_1_0() {
    let server = server();
    let mut stream = server.send("GET /pieces HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    let (response, ended) = read_to_close(&mut stream);
    assert!(
        response.ends_with("\r\n\r\none,two,three") && response.contains("connection: close\r\n"),
        "{response}"
    );
    assert!(ended);
}

#[test]
fn an_invalid_change_of_protocol_receives_status_500() {
    let server = server();
    let upgrade = "Host: a\r\nConnection: upgrade\r\nUpgrade: shout\r\n";
    for request in [
        format!("GET /switch-to-nothing HTTP/1.1\r\n{upgrade}\r\n"),
        format!("GET /upgrade HTTP/1.0\r\n{upgrade}\r\n"),
        format!("POST /upgrade HTTP/1.1\r\n{upgrade}Content-Length: 5\r\n\r\n"),
    ] {
        let (response, ended) = read_to_close(&mut server.send(&request));
        assert!(response.starts_with("HTTP/1.1 500 ") && ended, "{request}{response}");
    }
}

#[test]
fn an_upgrade_receives_the_bytes_after_its_request_and_closes_properly() {
    let server = server();
    let mut stream =
        server.send("GET /upgrade HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: shout\r\n\r\nhel");
    stream.write_all(b"lo\n").unwrap();
    let (response, ended) = read_to_close(&mut stream);
    assert!(response.starts_with("HTTP/1.1 101 Switching Protocols\r\nupgrade: shout\r\n"), "{response}");
    assert!(
        response.contains("connection: upgrade\r\n") && response.ends_with("\r\n\r\nHELLO\n"),
        "{response}"
    );
    assert!(ended);
}
