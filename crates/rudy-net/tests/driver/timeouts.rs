//! Peers that are slow. The limits are short here, and what is waited for is what the server does, not the clock.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rudy_net::{EndReason, Limits};

use crate::service::{POLLS, Server, read_to_close, read_until};
use crate::support::is_serial;

fn server(change: impl FnOnce(&mut rudy_http::Limits)) -> Server {
    let mut limits = Limits::default();
    change(&mut limits.http);
    Server::start(limits)
}

const SHORT: Duration = Duration::from_millis(150);

#[test]
fn a_head_that_does_not_end_is_answered_408() {
    let server = server(|limits| limits.head_timeout = SHORT);
    let mut stream = server.send("GET / HTTP/1.1\r\nHost");
    let (answer, ended) = read_to_close(&mut stream);
    assert!(answer.starts_with("HTTP/1.1 408 ") && answer.contains("connection: close\r\n"), "{answer}");
    assert!(ended);
    assert!(server.refusals.recv().unwrap().contains("not complete in time"));
}

#[test]
fn an_idle_connection_is_closed_without_a_word() {
    let server = server(|limits| limits.idle_timeout = SHORT);
    let mut stream = server.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    read_until(&mut stream, "hello");
    assert_eq!(read_to_close(&mut stream), (String::new(), true));
}

#[test]
fn a_connection_without_a_first_request_is_closed_without_a_word() {
    let server = server(|limits| limits.first_request_timeout = SHORT);
    assert_eq!(read_to_close(&mut server.connect()), (String::new(), true));
    // A first request has come: the shorter time does not hold any more.
    if !is_serial() {
        let mut stream = server.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        read_until(&mut stream, "hello");
        read_to_close(&mut server.connect());
        stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        read_until(&mut stream, "hello");
    }
}

#[test]
fn a_body_below_its_rate_is_answered_408() {
    let server = server(|limits| limits.rate_grace = SHORT);
    let mut stream = server.send("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nab");
    let (answer, ended) = read_to_close(&mut stream);
    assert!(answer.starts_with("HTTP/1.1 408 ") && ended, "{answer}");
    assert_eq!(server.outcomes.recv().unwrap().status.unwrap().as_u16(), 408);
}

#[test]
fn a_service_that_takes_its_time_does_not_make_its_client_slow() {
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
    // Another connection idles and is closed: by then every deadline of the first would have passed.
    read_to_close(&mut server.connect());
    server.go.notify_waiters();
    read_until(&mut stream, "waited");
}

#[test]
fn a_request_is_cancelled_when_its_client_has_closed_and_nothing_can_be_written() {
    let server = server(|limits| limits.half_close_timeout = SHORT);
    for path in ["/wait", "/silent", "/live/silent"] {
        let stream = server.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
        drop(stream);
        assert_eq!(server.outcomes.recv().unwrap().end_reason, EndReason::PeerGone, "{path}");
    }
}

#[test]
fn a_client_that_has_closed_behind_a_body_that_is_not_read_is_noticed() {
    let server = server(|limits| limits.half_close_timeout = SHORT);
    let post = "POST /hold HTTP/1.1\r\nHost: a\r\nContent-Length: 2000000\r\n\r\n".to_owned();
    let pipelined = "GET /hold HTTP/1.1\r\nHost: a\r\n\r\n".to_owned();
    // More than is read at once and less than the kernel holds, behind which it sees the end.
    let more = "x".repeat(100_000);
    for request in [post.clone(), post + &more, pipelined + &more] {
        drop(server.send(&request));
        assert_eq!(server.outcomes.recv().unwrap().end_reason, EndReason::PeerGone, "{request:.20}");
    }
}

#[test]
fn a_reset_behind_the_end_of_what_a_client_sends_is_noticed() {
    let server = server(|_| {});
    let stream = server.send("GET /wait HTTP/1.1\r\nHost: a\r\n\r\n");
    stream.shutdown(Shutdown::Write).unwrap();
    server.began.recv().unwrap();
    socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO)).unwrap();
    drop(stream);
    assert_eq!(server.outcomes.recv().unwrap().end_reason, EndReason::PeerGone);
}

#[test]
fn a_deadline_of_a_response_that_has_begun_wakes_its_body_no_more() {
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
fn a_client_that_has_closed_its_sending_side_and_reads_is_served_for_as_long_as_it_takes() {
    let server = server(|limits| limits.half_close_timeout = SHORT);
    let mut stream = server.send("GET /live HTTP/1.1\r\nHost: a\r\n\r\n");
    stream.shutdown(Shutdown::Write).unwrap();
    let start = Instant::now();
    while start.elapsed() < 3 * SHORT {
        read_until(&mut stream, "tick\n");
    }
}

#[test]
fn a_client_that_has_closed_its_sending_side_and_does_not_read_is_cut() {
    let server = server(|limits| limits.half_close_timeout = SHORT);
    let stream = server.send("GET /file HTTP/1.1\r\nHost: a\r\n\r\n");
    stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(server.outcomes.recv().unwrap().end_reason, EndReason::PeerGone);
    drop(stream);
}

#[test]
fn a_peer_that_does_not_read_is_cut() {
    let server = server(|limits| limits.send_stall_timeout = SHORT);
    let mut stream = server.send("GET /file HTTP/1.1\r\nHost: a\r\n\r\n");
    let outcome = server.outcomes.recv().unwrap();
    assert_eq!(outcome.end_reason, EndReason::PeerStalled);
    let error = std::io::copy(&mut stream, &mut std::io::sink()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
}

#[test]
fn a_peer_that_reads_steadily_is_not_cut() {
    // The pace of the reader is what is tested: less in a stall time than the socket's buffers hold.
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
    // One idle connection after the other, each closed after its time: longer in all than the stall time.
    let waiting = std::thread::spawn(move || {
        for _ in 0..25 {
            read_to_close(&mut TcpStream::connect(address).unwrap());
        }
    });
    let mut piece = [0; 2 * 1024];
    let (begun, mut read) = (Instant::now(), 0);
    while !waiting.is_finished() {
        // On a busy machine it comes to itself rarely, and then reads what it has missed.
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
fn a_peer_that_reads_too_slowly_is_cut() {
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
fn an_unread_body_is_not_waited_for_for_ever() {
    let server = server(|limits| limits.head_timeout = SHORT);
    let mut stream = server.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n");
    read_until(&mut stream, "hello");
    assert_eq!(read_to_close(&mut stream), (String::new(), true));
    // Whatever comes now comes to nobody.
    let _ = stream.write_all(b"abcde");
}
