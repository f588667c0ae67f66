//! An app that closes, hangs or violates the protocol in each phase.

use rudy_fastcgi::ProtocolStatus;
use rudy_tests::prelude::*;

use crate::fastcgi::site::{Site, wait_for_end};

/// The outcome for the client.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    /// An error response from the server.
    Error(u16),
    /// The app's complete response.
    Complete(&'static str),
    /// The head of the app's response and this part of its body.
    Truncated(&'static str),
    /// An error response if the server notices the failure before it has begun to respond, else a truncated response.
    ErrorOrTruncated(&'static str),
}

use Outcome::{Complete, Error, ErrorOrTruncated, Truncated};

/// A path, the outcome of requests below it, and their names.
const CASES: &[(&str, Outcome, &str)] = &[
    ("/app", Error(502), "closes-before-reading closes-after-reading closes-in-the-head"),
    ("/app", Error(502), "speaks-http sends-nothing responds-to-another-request has-no-head"),
    ("/app", Error(502), "has-a-head-without-end has-an-invalid-status"),
    ("/app", Error(502), "cannot-multiplex rejects-the-role"),
    ("/app", ErrorOrTruncated(""), "closes-after-the-head"),
    ("/app", ErrorOrTruncated("half"), "closes-in-the-body sends-garbage-in-the-body"),
    ("/app", ErrorOrTruncated("ab"), "closes-in-a-record"),
    ("/app", Complete("all of it"), "closes-before-the-end closes-before-the-end-with-length"),
    ("/soon", Error(504), "hangs-before-reading hangs-after-reading hangs-in-the-head"),
    ("/soon", Truncated(""), "hangs-after-the-head"),
    ("/soon", Truncated("half"), "hangs-in-the-body"),
    ("/soon", Complete("all of it"), "hangs-before-the-end"),
    ("/app", Complete("fine"), "sends-late-records floods-stderr omits-end-of-stdout"),
    ("/app", Complete("12345"), "sends-too-much sends-too-much-later"),
    ("/app", Truncated("123"), "sends-too-little sends-too-little-at-once"),
    ("/app", Error(503), "is-overloaded"),
];

const HEAD: &[u8] = b"Content-Type: text/plain\r\n\r\n";

fn serve(name: &str, peer: &mut Peer, sender: &Sender<String>) -> bool {
    let (verb, phase) = name[1..].split_once('-').expect("a name has two parts");
    if matches!(verb, "closes" | "hangs") {
        serve_up_to(phase, peer);
        return verb == "hangs" && wait_for_end(peer, sender);
    }
    peer.body();
    match name {
        "/speaks-http" => peer.send_raw(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
        "/sends-nothing" => peer.respond(b""),
        // STDOUT of request 7. The ids of a connection alternate between 1 and 2.
        "/responds-to-another-request" => peer.send_raw(b"\x01\x06\x00\x07\x00\x04\x04\x00abcd\0\0\0\0"),
        "/sends-late-records" => {
            peer.late_records(b"of the request before");
            peer.stdout(&[HEAD, b"fi"].concat());
            peer.late_records(b"of the request before");
            peer.respond(b"ne");
        }
        "/has-no-head" => peer.respond(b"hello, world\r\nthis is a page\r\n"),
        "/has-a-head-without-end" => peer.respond(&[b"X-".to_vec(), vec![b'a'; 200_000]].concat()),
        "/has-an-invalid-status" => peer.respond(b"Status: fine\r\n\r\n"),
        "/sends-garbage-in-the-body" => {
            peer.stdout(&[HEAD, b"half"].concat());
            peer.send_raw(b"garbage that is not a record");
        }
        "/sends-too-much" => peer.respond(b"Content-Type: text/plain\r\nContent-Length: 5\r\n\r\n1234567890"),
        "/sends-too-much-later" => {
            peer.stdout(b"Content-Type: text/plain\r\nContent-Length: 5\r\n\r\n123");
            peer.respond(b"4567890");
        }
        "/sends-too-little" => {
            peer.stdout(b"Content-Type: text/plain\r\nContent-Length: 5\r\n\r\n");
            peer.respond(b"123");
        }
        "/sends-too-little-at-once" => {
            peer.respond(b"Content-Type: text/plain\r\nContent-Length: 5\r\n\r\n123");
        }
        "/is-overloaded" => peer.end(ProtocolStatus::Overloaded),
        "/cannot-multiplex" => peer.end(ProtocolStatus::CannotMultiplex),
        "/rejects-the-role" => peer.end(ProtocolStatus::UnknownRole),
        "/floods-stderr" => {
            for _ in 0..1000 {
                peer.stderr(&b"PHP Warning: something is wrong again\n".repeat(500));
            }
            peer.respond(&[HEAD, b"fine"].concat());
        }
        "/logs-100-lines" => {
            peer.stderr(&b"PHP Warning: something is wrong\n".repeat(100));
            peer.respond(&[HEAD, b"fine"].concat());
        }
        "/omits-end-of-stdout" => {
            peer.stdout(&[HEAD, b"fine"].concat());
            peer.end(ProtocolStatus::RequestComplete);
        }
        _ => panic!("{name} is unknown"),
    }
    // After a violation the server closes the connection, so there is no next request.
    true
}

/// Serves a request up to a phase.
fn serve_up_to(phase: &str, peer: &mut Peer) {
    if phase == "before-reading" {
        return;
    }
    peer.body();
    match phase {
        "after-reading" => {}
        "in-the-head" => peer.stdout(b"Content-Ty"),
        "after-the-head" => peer.stdout(HEAD),
        "in-the-body" => peer.stdout(&[HEAD, b"half"].concat()),
        // The header of a record of 1000 bytes, and two of these bytes.
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
        _ => panic!("the phase {phase} is unknown"),
    }
}

/// Sends a GET. Returns the status, the body, and whether the body is complete.
fn get(site: &Site, target: &str) -> (u16, Vec<u8>, bool) {
    let request = format!("GET {target} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n");
    let bytes = site.server.exchange(request.as_bytes());
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").expect("the response has a head") + 4;
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
fn each_failure_of_an_app_has_the_expected_outcome_and_the_next_request_is_served() {
    let site = Site::start(Model::PerCore, serve);
    site.assert_all_connections_free(Model::PerCore, "the start");
    let before = site.descriptors();
    let cases = CASES.iter().flat_map(|(path, outcome, names)| {
        names.split(' ').map(move |name| (format!("{path}/{name}"), outcome))
    });
    for (target, outcome) in cases {
        let (status, body, is_whole) = get(&site, &target);
        let body = String::from_utf8(body).expect("text");
        let got = (status, is_whole, body.as_str());
        match *outcome {
            Error(expected) => {
                assert_eq!((status, is_whole), (expected, true), "{target}: {body}");
            }
            Complete(text) => assert_eq!(got, (200, true, text), "{target}"),
            ErrorOrTruncated(_) if status == 502 => assert!(is_whole, "{target}"),
            ErrorOrTruncated(text) => {
                assert!(status == 200 && !is_whole && text.starts_with(&body), "{target}: {got:?}");
            }
            Truncated(text) => assert_eq!(got, (200, false, text), "{target}"),
        }
        site.assert_all_connections_free(Model::PerCore, &target);
        site.wait_for_descriptors(before + 2, &target);
    }
}

#[test]
fn an_app_that_closes_each_connection_is_502() {
    let app = App::start(drop);
    let mut server = Site::server(Model::PerCore, &app, "");
    assert_eq!(server.get("/app/x").status, 502);
    server.wait_for_line("GET /app/x from 127.0.0.1");
}

#[test]
fn a_safe_request_that_an_app_drops_reaches_another_address() {
    for (method, status) in [("GET", 200), ("POST", 502)] {
        let broken = App::start(|mut peer| drop(peer.request()));
        let sound = App::serve(|peer, _| peer.respond(&[HEAD, b"fine"].concat()));
        let addresses = format!("{}\", \"{}", broken.address(), sound.address());
        let config = format!(
            "listen = \"127.0.0.1:0\"\n[[site]]\n[[site.route]]\npath = \"/*\"\nfastcgi = {{ address = [\"{addresses}\"] }}\n"
        );
        let server = Server::build().config(&config).start();
        assert_eq!(server.send_body(method, "/a", "").status, status);
        assert_eq!((broken.accepted(), sound.accepted()), (1, usize::from(status == 200)), "{method}");
    }
}

#[test]
fn the_log_describes_a_failure_with_the_request_and_the_client() {
    for (target, expected) in [
        ("/app/closes-after-reading", "GET /app/closes-after-reading from 127.0.0.1"),
        ("/soon/hangs-in-the-body", "GET /soon/hangs-in-the-body from 127.0.0.1"),
        ("/app/sends-too-little", "Content-Length of the response is 5, but only 3 bytes were received"),
        (
            "/app/sends-too-much",
            "Content-Length of the response is 5, but the body is longer: the rest was dropped",
        ),
        ("/app/floods-stderr", "stderr: PHP Warning: something is wrong again"),
        ("/app/floods-stderr", "bytes were dropped: more than 10 lines or 8192 bytes per second"),
    ] {
        // A repeated log line is only counted, so each case needs a new server.
        let mut site = Site::start(Model::PerCore, serve);
        let _ = get(&site, target);
        site.server.wait_for_line(expected);
    }
}

#[test]
fn the_stderr_rate_limit_applies_to_all_requests_of_an_app() {
    let mut site = Site::start(Model::PerCore, serve);
    for _ in 0..20 {
        assert_eq!(get(&site, "/app/logs-100-lines").0, 200);
    }
    let log = site.server.stop();
    let lines = log.matches("stderr: PHP Warning").count();
    // The initial burst, and a few lines for each second of the test.
    assert!((500..1000).contains(&lines), "{lines} of 2000 lines are logged");
    assert!(log.contains("bytes were dropped"), "{log}");
}
