//! Requests with bodies.

use std::io::Write;
use std::net::Shutdown;

use rudy_service::Limits;

use crate::service::{Server, read_to_close, read_until};

fn server() -> Server {
    Server::start(Limits::default())
}

#[test]
fn a_body_is_echoed_and_the_connection_stays_open() {
    let server = server();
    let mut stream = server.send("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhel");
    stream.write_all(b"lo").unwrap();
    assert!(read_until(&mut stream, "hello").contains("content-length: 5\r\n"));
    stream.write_all(b"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n").unwrap();
    stream.write_all(b"3\r\nabc\r\n3\r\ndef\r\n0\r\n\r\n").unwrap();
    assert!(read_until(&mut stream, "abcdef").contains("content-length: 6\r\n"));
}

#[test]
fn a_response_can_start_before_the_request_is_complete() {
    let server = server();
    let mut stream =
        server.send("POST /stream-echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
    for word in ["one", "three", "fifteen"] {
        write!(stream, "{:x}\r\n{word}\r\n", word.len()).unwrap();
        read_until(&mut stream, &format!("{:x}\r\n{word}\r\n", word.len()));
    }
    stream.write_all(b"0\r\n\r\n").unwrap();
    read_until(&mut stream, "0\r\n\r\n");
}

#[test]
fn a_large_body_is_streamed_without_buffering() {
    let server = server();
    let mut stream = server.send("POST /stream-echo HTTP/1.1\r\nHost: a\r\nContent-Length: 8000000\r\n\r\n");
    let mut writer = stream.try_clone().unwrap();
    let sender = std::thread::spawn(move || writer.write_all(&vec![b'x'; 8_000_000]).unwrap());
    let response = read_until(&mut stream, "\r\n\r\n");
    assert!(response.contains("content-length: 8000000\r\n"), "{response}");
    let mut body = vec![0; 8_000_000];
    std::io::Read::read_exact(&mut stream, &mut body).unwrap();
    assert!(body.iter().all(|byte| *byte == b'x'));
    sender.join().unwrap();
}

#[test]
fn continue_is_sent_when_the_service_reads() {
    let server = server();
    let mut stream =
        server.send("POST /echo HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
    assert_eq!(read_until(&mut stream, "\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
    stream.write_all(b"hi").unwrap();
    assert!(read_until(&mut stream, "hi").starts_with("HTTP/1.1 200 OK\r\n"));
}

#[test]
fn continue_is_sent_before_a_response_that_reads_the_body() {
    let server = server();
    let mut stream = server
        .send("POST /stream-echo HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
    assert_eq!(read_until(&mut stream, "\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
    stream.write_all(b"hi").unwrap();
    read_until(&mut stream, "hi");
}

#[test]
fn a_body_read_by_another_task_ends_with_its_exchange() {
    let server = server();
    let mut stream = server.send("POST /elsewhere HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nab");
    read_until(&mut stream, "hello");
    assert!(server.body_ends.recv().unwrap().contains("disconnected"));
    // The rest of the body is drained and does not become part of the next request.
    stream.write_all(b"cdeGET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    read_until(&mut stream, "hello");
}

#[test]
fn no_continue_is_sent_if_the_response_needs_no_body() {
    let server = server();
    let mut stream =
        server.send("POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
    let (response, ended) = read_to_close(&mut stream);
    assert!(
        response.starts_with("HTTP/1.1 200 OK\r\n") && response.contains("connection: close\r\n"),
        "{response}"
    );
    assert!(ended);
}

#[test]
fn a_small_unread_body_is_drained() {
    let server = server();
    let mut stream = server.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nab");
    read_until(&mut stream, "hello");
    stream.write_all(b"cdeGET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    assert!(read_until(&mut stream, "hello").starts_with("HTTP/1.1 200 OK\r\n"));
}

#[test]
fn the_response_to_a_large_unread_body_arrives_before_the_close() {
    let server = server();
    let mut stream = server.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9000000\r\n\r\n");
    // Fails if the server has reached its drain limit.
    let _ = stream.write_all(&vec![b'x'; 200_000]);
    let response = read_until(&mut stream, "hello");
    assert!(response.contains("connection: close\r\n"), "{response}");
}

#[test]
fn a_malformed_body_is_rejected_and_the_service_receives_the_error() {
    let server = server();
    let mut stream =
        server.send("POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n");
    let (response, ended) = read_to_close(&mut stream);
    assert!(response.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{response}");
    assert!(response.contains("a chunk size is not a hexadecimal number"), "{response}");
    assert!(ended);
    assert_eq!(server.outcomes.recv().unwrap().status.unwrap().as_u16(), 400);
}

#[test]
fn a_chunked_body_over_the_limit_is_rejected() {
    let limits = Limits {
        http: rudy_http::Limits { body_bytes: 10, ..rudy_http::Limits::default() },
        ..Limits::default()
    };
    let server = Server::start(limits);
    let mut stream = server
        .send("POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n8\r\n12345678\r\n8\r\n");
    assert!(read_to_close(&mut stream).0.starts_with("HTTP/1.1 413 "));
    let mut stream = server.send("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 11\r\n\r\n");
    assert!(read_to_close(&mut stream).0.starts_with("HTTP/1.1 413 "));
    assert!(server.rejections.recv().unwrap().contains("larger than the limit"));
}

#[test]
fn a_disconnect_during_the_body_ends_the_exchange() {
    let server = server();
    let mut stream = server.send("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nab");
    stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(read_to_close(&mut stream), (String::new(), true));
    assert_eq!(server.outcomes.recv().unwrap().end_reason, rudy_service::EndReason::PeerGone);
}
