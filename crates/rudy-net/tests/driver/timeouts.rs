//! Slow peers. The limits are short, and the tests wait for the server, not for a clock.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rudy_service::{EndReason, Limits};

use crate::service::{POLLS, Server, read_to_close, read_until};
use crate::support::is_serial;

fn server(change: impl FnOnce(&mut rudy_http::Limits)) -> Server {
    let mut limits = Limits::default();
    change(&mut limits.http);
    Server::start(limits)
}

const SHORT: Duration = Duration::from_millis(150);

#[test]
fn an_incomplete_head_receives_status_408() {
    let server = server(|limits| limits.head_timeout = SHORT);
    let mut stream = server.send("GET / HTTP/1.1\r\nHost");
    let (response, ended) = read_to_close(&mut stream);
    assert!(
        response.starts_with("HTTP/1.1 408 ") && response.contains("connection: close\r\n"),
        "{response}"
    );
    assert!(ended);
    assert!(server.rejections.recv().unwrap().contains("not complete in time"));
}

#[test]
fn an_idle_connection_is_closed_without_a_response() {
    let server = server(|limits| limits.idle_timeout = SHORT);
    let mut stream = server.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    read_until(&mut stream, "hello");
    assert_eq!(read_to_close(&mut stream), (String::new(), true));
}

#[test]
fn a_connection_without_a_request_is_closed_without_a_response() {
    let server = server(|limits| limits.first_request_timeout = SHORT);
    assert_eq!(read_to_close(&mut server.connect()), (String::new(), true));
    // After a first request the shorter timeout no longer applies.
    if !is_serial() {
        let mut stream = server.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        read_until(&mut stream, "hello");
        read_to_close(&mut server.connect());
        stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        read_until(&mut stream, "hello");
    }
}

#[test]
fn a_body_below_the_minimum_rate_receives_status_408() {
    let server = server(|limits| limits.rate_grace = SHORT);
    let mut stream = server.send("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nab");
    let (response, ended) = read_to_close(&mut stream);
    assert!(response.starts_with("HTTP/1.1 408 ") && ended, "{response}");
    assert_eq!(server.outcomes.recv().unwrap().status.unwrap().as_u16(), 408);
}

#[test]
fn a_slow_service_does_not_count_as_a_slow_client() {
    if is_serial() {
        return;
    }
    let server = server(|limits| {
        limits.rate_grace = SHORT;
        limits.send_stall_timeout = SHORT;
        (limits.first_request_timeout, limits.idle_timeout) = (SHORT, SHORT);
        limits.head_timeout = SHORT;
    });
    let mut stream = server.send("POST /wait HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nab");
    server.began.recv().unwrap();
    // Another connection idles until it is closed: by then every deadline of the first has passed.
    read_to_close(&mut server.connect());
    server.go.notify_waiters();
    read_until(&mut stream, "waited");
}

#[test]
fn a_half_closed_client_without_writes_cancels_its_request() {
    let server = server(|limits| limits.half_close_timeout = SHORT);
    for path in ["/wait", "/silent", "/live/silent"] {
        let stream = server.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
        drop(stream);
        assert_eq!(server.outcomes.recv().unwrap().end_reason, EndReason::PeerGone, "{path}");
    }
}

#[test]
fn a_disconnect_behind_an_unread_body_is_detected() {
    let server = server(|limits| limits.half_close_timeout = SHORT);
    let post = "POST /hold HTTP/1.1\r\nHost: a\r\nContent-Length: 2000000\r\n\r\n".to_owned();
    let pipelined = "GET /hold HTTP/1.1\r\nHost: a\r\n\r\n".to_owned();
    // More than one read, and less than the kernel's buffer, so that the end of the input follows.
    let more = "x".repeat(100_000);
    for request in [post.clone(), post + &more, pipelined + &more] {
        drop(server.send(&request));
        assert_eq!(server.outcomes.recv().unwrap().end_reason, EndReason::PeerGone, "{request:.20}");
    }
}

#[test]
fn a_reset_after_a_half_close_is_detected() {
    let server = server(|_| {});
    let stream = server.send("GET /wait HTTP/1.1\r\nHost: a\r\n\r\n");
    stream.shutdown(Shutdown::Write).unwrap();
    server.began.recv().unwrap();
    socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO)).unwrap();
    drop(stream);
    assert_eq!(server.outcomes.recv().unwrap().end_reason, EndReason::PeerGone);
}

#[test]
fn a_deadline_of_the_handler_does_not_wake_the_body() {
    if is_serial() {
        return;
    }
    let server = server(|_| {});
    let mut stream = server.send("GET /silent-after-a-deadline HTTP/1.1\r\nHost: a\r\n\r\n");
    read_until(&mut stream, "\r\n\r\n");
    let mut ticking = server.send("GET /live HTTP/1.1\r\nHost: a\r\n\r\n");
    for _ in 0..20 {
        read_until(&mut ticking, "tick\n");
    }
    let polls = POLLS.load(Ordering::Relaxed);
    assert!(polls < 5, "{polls} polls of a silent body");
}

#[test]
fn a_half_closed_client_that_reads_is_not_timed_out() {
    let server = server(|limits| limits.half_close_timeout = SHORT);
    let mut stream = server.send("GET /live HTTP/1.1\r\nHost: a\r\n\r\n");
    stream.shutdown(Shutdown::Write).unwrap();
    let start = Instant::now();
    while start.elapsed() < 3 * SHORT {
        read_until(&mut stream, "tick\n");
    }
}

#[test]
fn a_half_closed_client_that_does_not_read_is_dropped() {
    let server = server(|limits| limits.half_close_timeout = SHORT);
    let stream = server.send("GET /file HTTP/1.1\r\nHost: a\r\n\r\n");
    stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(server.outcomes.recv().unwrap().end_reason, EndReason::PeerGone);
    drop(stream);
}

#[test]
fn a_peer_that_does_not_read_is_dropped() {
    let server = server(|limits| limits.send_stall_timeout = SHORT);
    let mut stream = server.send("GET /file HTTP/1.1\r\nHost: a\r\n\r\n");
    let outcome = server.outcomes.recv().unwrap();
    assert_eq!(outcome.end_reason, EndReason::PeerStalled);
    let error = std::io::copy(&mut stream, &mut std::io::sink()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
}

#[test]
fn a_peer_that_reads_steadily_is_not_dropped() {
    // The reader's pace is the subject: within a stall timeout it reads less than the socket buffers hold.
    const BYTES_PER_MS: u128 = 128;
    if is_serial() {
        return;
    }
    let server = server(|limits| {
        limits.send_stall_timeout = SHORT * 20;
        limits.first_request_timeout = SHORT;
    });
    let mut stream = server.send("GET /file HTTP/1.1\r\nHost: a\r\n\r\n");
    let address = server.address;
    // Connections idle one after the other, together for longer than the stall timeout.
    let waiting = std::thread::spawn(move || {
        for _ in 0..25 {
            read_to_close(&mut TcpStream::connect(address).unwrap());
        }
    });
    let mut piece = [0; 2 * 1024];
    let (begun, mut read) = (Instant::now(), 0);
    while !waiting.is_finished() {
        // On a busy machine this thread runs rarely, and then catches up.
        while read < begun.elapsed().as_millis() * BYTES_PER_MS {
            stream.read_exact(&mut piece).unwrap();
            read += piece.len() as u128;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(server.outcomes.try_recv().is_err(), "still being sent");
    waiting.join().unwrap();
}

#[test]
fn a_peer_that_reads_too_slowly_is_dropped() {
    let server = server(|limits| {
        limits.rate_grace = SHORT;
        limits.send_rate_min = u32::MAX;
    });
    let mut stream = server.send("GET /file HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut byte = [0];
    stream.read_exact(&mut byte).unwrap();
    assert_eq!(server.outcomes.recv().unwrap().end_reason, EndReason::PeerStalled);
}

#[test]
fn the_wait_for_an_unread_body_is_limited() {
    let server = server(|limits| limits.head_timeout = SHORT);
    let mut stream = server.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n");
    read_until(&mut stream, "hello");
    assert_eq!(read_to_close(&mut stream), (String::new(), true));
    // The server discards this.
    let _ = stream.write_all(b"abcde");
}
