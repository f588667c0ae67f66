//! An app that breaks off, hangs, or answers what it should not, in each phase.

use std::sync::mpsc::Sender;

use rudy_fastcgi::ProtocolStatus;
use rudy_net::engine::Model;
use rudy_tests::fastcgi::{App, Peer};
use rustix::process::Signal;

use crate::site::{Site, wait_for_end};

/// What a client gets.
#[derive(Debug, PartialEq, Eq)]
enum Gets {
    /// An answer of the server's own.
    Refusal(u16),
    /// The app's answer, whole.
    Whole(&'static str),
    /// The head of the app's answer, and of its body so much.
    Cut(&'static str),
    /// A refusal where the server sees the end before it has begun to answer, else what is cut.
    RefusalOrCut(&'static str),
}

use Gets::{Cut, Refusal, RefusalOrCut, Whole};

/// A path, and what comes of it.
const CASES: &[(&str, Gets)] = &[
    ("/app/closes-before-reading", Refusal(502)),
    ("/app/closes-after-reading", Refusal(502)),
    ("/app/closes-in-the-head", Refusal(502)),
    ("/app/closes-after-the-head", RefusalOrCut("")),
    ("/app/closes-in-the-body", RefusalOrCut("half")),
    ("/app/closes-in-a-record", RefusalOrCut("ab")),
    ("/app/closes-before-the-end", Whole("all of it")),
    ("/app/closes-before-the-end-with-length", Whole("all of it")),
    ("/soon/hangs-before-reading", Refusal(504)),
    ("/soon/hangs-after-reading", Refusal(504)),
    ("/soon/hangs-in-the-head", Refusal(504)),
    ("/soon/hangs-after-the-head", Cut("")),
    ("/soon/hangs-in-the-body", Cut("half")),
    ("/soon/hangs-before-the-end", Whole("all of it")),
    ("/app/speaks-http", Refusal(502)),
    ("/app/answers-nothing", Refusal(502)),
    ("/app/answers-another-request", Refusal(502)),
    ("/app/sends-late-records", Whole("fine")),
    ("/app/has-no-head", Refusal(502)),
    ("/app/has-a-head-without-end", Refusal(502)),
    ("/app/has-a-wrong-status", Refusal(502)),
    ("/app/sends-garbage-in-the-body", RefusalOrCut("half")),
    ("/app/says-too-much", Whole("12345")),
    ("/app/says-too-much-later", Whole("12345")),
    ("/app/says-too-little", Cut("123")),
    ("/app/says-too-little-at-once", Cut("123")),
    ("/app/is-overloaded", Refusal(503)),
    ("/app/cannot-multiplex", Refusal(502)),
    ("/app/has-another-role", Refusal(502)),
    ("/app/floods-stderr", Whole("fine")),
    ("/app/answers-without-end-of-stdout", Whole("fine")),
];

const HEAD: &[u8] = b"Content-Type: text/plain\r\n\r\n";

fn serve(name: &str, peer: &mut Peer, tell: &Sender<String>) -> bool {
    let (verb, phase) = name[1..].split_once('-').expect("a name has two parts");
    if matches!(verb, "closes" | "hangs") {
        go_so_far(phase, peer);
        return verb == "hangs" && wait_for_end(peer, tell);
    }
    peer.body();
    match name {
        "/speaks-http" => peer.send_raw(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
        "/answers-nothing" => peer.respond(b""),
        // STDOUT of request 7: the requests of a connection are 1 and 2 by turns.
        "/answers-another-request" => peer.send_raw(b"\x01\x06\x00\x07\x00\x04\x04\x00abcd\0\0\0\0"),
        "/sends-late-records" => {
            peer.late_records(b"of the request before");
            peer.stdout(&[HEAD, b"fi"].concat());
            peer.late_records(b"of the request before");
            peer.respond(b"ne");
        }
        "/has-no-head" => peer.respond(b"hello, world\r\nthis is a page\r\n"),
        "/has-a-head-without-end" => peer.respond(&[b"X-".to_vec(), vec![b'a'; 200_000]].concat()),
        "/has-a-wrong-status" => peer.respond(b"Status: fine\r\n\r\n"),
        "/sends-garbage-in-the-body" => {
            peer.stdout(&[HEAD, b"half"].concat());
            peer.send_raw(b"garbage that is no record");
        }
        "/says-too-much" => peer.respond(b"Content-Type: text/plain\r\nContent-Length: 5\r\n\r\n1234567890"),
        "/says-too-much-later" => {
            peer.stdout(b"Content-Type: text/plain\r\nContent-Length: 5\r\n\r\n123");
            peer.respond(b"4567890");
        }
        "/says-too-little" => {
            peer.stdout(b"Content-Type: text/plain\r\nContent-Length: 5\r\n\r\n");
            peer.respond(b"123");
        }
        "/says-too-little-at-once" => {
            peer.respond(b"Content-Type: text/plain\r\nContent-Length: 5\r\n\r\n123");
        }
        "/is-overloaded" => peer.end(ProtocolStatus::Overloaded),
        "/cannot-multiplex" => peer.end(ProtocolStatus::CannotMultiplex),
        "/has-another-role" => peer.end(ProtocolStatus::UnknownRole),
        "/floods-stderr" => {
            for _ in 0..1000 {
                peer.stderr(&b"PHP Warning: something is wrong again\n".repeat(500));
            }
            peer.respond(&[HEAD, b"fine"].concat());
        }
        "/says-100-lines" => {
            peer.stderr(&b"PHP Warning: something is wrong\n".repeat(100));
            peer.respond(&[HEAD, b"fine"].concat());
        }
        "/answers-without-end-of-stdout" => {
            peer.stdout(&[HEAD, b"fine"].concat());
            peer.end(ProtocolStatus::RequestComplete);
        }
        _ => panic!("{name} is not known"),
    }
    // Where the server has had enough it closes the connection, and the next request does not come.
    true
}

/// Serves a request up to a phase.
fn go_so_far(phase: &str, peer: &mut Peer) {
    if phase == "before-reading" {
        return;
    }
    peer.body();
    match phase {
        "after-reading" => {}
        "in-the-head" => peer.stdout(b"Content-Ty"),
        "after-the-head" => peer.stdout(HEAD),
        "in-the-body" => peer.stdout(&[HEAD, b"half"].concat()),
        // The header of a record of 1000 bytes, and two of them.
        "in-a-record" => {
            peer.stdout(HEAD);
            peer.send_raw(b"\x01\x06\x00\x01\x03\xe8\x00\x00ab");
        }
        "before-the-end" => {
            peer.stdout(&[HEAD, b"all of it"].concat());
            peer.stdout_end();
        }
        "before-the-end-with-length" => {
            peer.stdout(b"Content-Type: text/plain\r\nContent-Length: 9\r\n\r\nall of it");
            peer.stdout_end();
        }
        _ => panic!("the phase {phase} is not known"),
    }
}

/// What a client gets for a GET.
fn get(site: &Site, target: &str) -> (u16, Vec<u8>, bool) {
    let request = format!("GET {target} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n");
    let bytes = site.server.exchange(request.as_bytes());
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").expect("a head comes") + 4;
    let head = std::str::from_utf8(&bytes[..end]).expect("a head is text");
    let status = head[9..12].parse().expect("a status");
    if !head.contains("chunked") {
        let length = head.split("content-length: ").nth(1).and_then(|rest| rest.lines().next());
        let length = length.map_or(0, |length| length.parse().expect("a number"));
        return (status, bytes[end..].to_vec(), bytes.len() - end == length);
    }
    let (mut rest, mut body) = (&bytes[end..], Vec::new());
    while let Some(line) = rest.windows(2).position(|two| two == b"\r\n") {
        let size = std::str::from_utf8(&rest[..line]).expect("a size is text");
        let size = usize::from_str_radix(size, 16).expect("a size");
        if size == 0 {
            return (status, body, true);
        }
        body.extend_from_slice(&rest[line + 2..][..size]);
        rest = &rest[line + 2 + size + 2..];
    }
    (status, body, false)
}

#[test]
fn whatever_an_app_does_wrong_its_client_hears_and_the_next_is_served() {
    let site = Site::start(Model::PerCore, serve);
    site.all_places_are_free(Model::PerCore, "the start");
    let before = site.descriptors();
    for (target, gets) in CASES {
        let (status, body, is_whole) = get(&site, target);
        let body = String::from_utf8(body).expect("text");
        let got = (status, is_whole, body.as_str());
        match *gets {
            Refusal(expected) => {
                assert_eq!((status, is_whole), (expected, true), "{target}: {body}");
            }
            Whole(text) => assert_eq!(got, (200, true, text), "{target}"),
            RefusalOrCut(_) if status == 502 => assert!(is_whole, "{target}"),
            RefusalOrCut(text) => {
                assert!(status == 200 && !is_whole && text.starts_with(&body), "{target}: {got:?}");
            }
            Cut(text) => assert_eq!(got, (200, false, text), "{target}"),
        }
        site.all_places_are_free(Model::PerCore, target);
        site.descriptors_fall_to(before + 2, target);
    }
}

#[test]
fn an_app_that_closes_what_it_accepts_is_no_gateway() {
    let app = App::start(drop);
    let mut server = Site::server(Model::PerCore, &app, "");
    assert_eq!(server.get("/app/x").status, 502);
    server.wait_for_line("GET /app/x from 127.0.0.1");
}

#[test]
fn the_log_says_what_an_app_does_wrong_with_the_request_and_the_client() {
    for (target, says) in [
        ("/app/closes-after-reading", "GET /app/closes-after-reading from 127.0.0.1"),
        ("/soon/hangs-in-the-body", "GET /soon/hangs-in-the-body from 127.0.0.1"),
        ("/app/says-too-little", "Content-Length of the response is 5, but only 3 bytes were received"),
        (
            "/app/says-too-much",
            "Content-Length of the response is 5, but the body is longer: the rest was dropped",
        ),
        ("/app/floods-stderr", "stderr: PHP Warning: something is wrong again"),
        ("/app/floods-stderr", "bytes were dropped: more than 10 lines or 8192 bytes per second"),
    ] {
        // What is said once is counted from then on, so each is asked of a server of its own.
        let mut site = Site::start(Model::PerCore, serve);
        let _ = get(&site, target);
        site.server.wait_for_line(says);
    }
}

#[test]
fn the_stderr_of_all_requests_to_an_app_is_bounded_together() {
    let mut site = Site::start(Model::PerCore, serve);
    for _ in 0..20 {
        assert_eq!(get(&site, "/app/says-100-lines").0, 200);
    }
    site.server.signal(Signal::TERM);
    let (_, log) = site.server.wait();
    let lines = log.matches("stderr: PHP Warning").count();
    // As many as are taken at once, and a few for the seconds that it took.
    assert!((500..1000).contains(&lines), "{lines} of 2000 lines are logged");
    assert!(log.contains("bytes were dropped"), "{log}");
}
