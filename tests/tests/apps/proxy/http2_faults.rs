//! As [`faults`](crate::proxy::faults), for an upstream that speaks HTTP/2.

use rudy_tests::prelude::*;

use crate::proxy::faults::Outcome::{Complete, Error, ErrorOrTruncated, Truncated};
use crate::proxy::faults::{Outcome, check};
use crate::proxy::{assert_error, proxy_h2c};

/// The errors, each with the cases that have it.
const ERRORS: [(u16, &str, &str); 6] = [
    (502, "connection_terminated", "closes resets goes-away"),
    (504, "http_response_timeout", "hangs"),
    (503, "destination_unavailable", "refuses"),
    (
        502,
        "http_protocol_error",
        "sends-garbage sends-http1 sends-data-first sends-no-status sends-101 sends-connection",
    ),
    (
        502,
        "http_protocol_error",
        "sends-a-bad-block sends-a-push sends-endless-blocks sends-a-1xx-flood sends-a-ping-flood",
    ),
    (502, "http_response_header_section_size", "sends-many-fields"),
];

/// The outcomes of the other cases.
const OTHERS: [(Outcome, &str); 4] = [
    (ErrorOrTruncated, "closes-after-the-head closes-in-a-frame resets-in-the-body sends-endless-trailers"),
    (ErrorOrTruncated, "sends-more-than-the-window sends-too-little sends-too-much"),
    (Truncated, "hangs-after-the-head hangs-in-the-body"),
    (Complete("whole"), "goes-away-in-the-body sends-a-reset-after-the-end"),
];

/// What a case does with its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Then {
    Continues,
    Closes,
    /// Waits until the proxy closes the connection.
    Waits,
}

/// Sends what a case is named after.
fn serve(name: &str, stream: u32, peer: &mut Http2Connection) -> Then {
    let length = |length| [("content-length", length)];
    match name {
        "fine" => peer.respond(stream, "fine"),
        "closes" => return Then::Closes,
        "closes-after-the-head" => {
            peer.head(stream, "200", &length("8"), false);
            return Then::Closes;
        }
        "closes-in-a-frame" => {
            peer.head(stream, "200", &length("8"), false);
            peer.send(&encode(kind::DATA, END, stream, b"12345678")[..12]);
            return Then::Closes;
        }
        "hangs" => {}
        "hangs-after-the-head" => peer.head(stream, "200", &length("8"), false),
        "hangs-in-the-body" => begin_body(stream, peer),
        "resets" => peer.frame(kind::RST_STREAM, 0, stream, &2_u32.to_be_bytes()),
        "resets-in-the-body" => {
            begin_body(stream, peer);
            peer.frame(kind::RST_STREAM, 0, stream, &2_u32.to_be_bytes());
        }
        "refuses" => peer.frame(kind::RST_STREAM, 0, stream, &7_u32.to_be_bytes()),
        "goes-away" => go_away(stream - 1, peer),
        "goes-away-in-the-body" => {
            peer.head(stream, "200", &length("5"), false);
            go_away(stream, peer);
            peer.frame(kind::DATA, END, stream, b"whole");
            return Then::Waits;
        }
        _ => return send(name.strip_prefix("sends-").expect("a known case"), stream, peer),
    }
    Then::Continues
}

fn begin_body(stream: u32, peer: &mut Http2Connection) {
    peer.head(stream, "200", &[("content-length", "8")], false);
    peer.frame(kind::DATA, 0, stream, b"half");
}

fn go_away(last: u32, peer: &mut Http2Connection) {
    peer.frame(kind::GOAWAY, 0, 0, &[last.to_be_bytes(), 0_u32.to_be_bytes()].concat());
}

fn send(what: &str, stream: u32, peer: &mut Http2Connection) -> Then {
    let many = || block(&vec![("x", "y"); 1000]);
    match what {
        "garbage" => peer.send(&[0xff; 100]),
        "http1" => peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
        "a-bad-block" => peer.frame(kind::HEADERS, END_HEADERS, stream, &[0xff; 20]),
        "a-push" => peer.frame(5, END_HEADERS, stream, &[0, 0, 0, 2]),
        "endless-blocks" => {
            peer.frame(kind::HEADERS, 0, stream, &block(&[(":status", "200")]));
            (0..100).for_each(|_| peer.frame(kind::CONTINUATION, 0, stream, &many()));
        }
        "a-ping-flood" => (0..5000).for_each(|_| peer.frame(kind::PING, 0, 0, &[0; 8])),
        _ => {
            match what {
                "data-first" => peer.frame(kind::DATA, END, stream, b"data"),
                "no-status" => peer.frame(kind::HEADERS, END | END_HEADERS, stream, &block(&[("x", "y")])),
                "101" => peer.head(stream, "101", &[], false),
                "connection" => peer.head(stream, "200", &[("connection", "close")], true),
                "many-fields" => {
                    let head = [block(&[(":status", "200")]), many()].concat();
                    peer.frame(kind::HEADERS, END | END_HEADERS, stream, &head);
                }
                "a-1xx-flood" => (0..200).for_each(|_| peer.head(stream, "102", &[], false)),
                "endless-trailers" => {
                    peer.head(stream, "200", &[], false);
                    peer.frame(kind::HEADERS, END | END_HEADERS, stream, &many());
                }
                "more-than-the-window" => {
                    peer.head(stream, "200", &[], false);
                    (0..200).for_each(|_| peer.frame(kind::DATA, 0, stream, &[b'x'; 16_384]));
                }
                "too-little" | "too-much" => {
                    let body = if what == "too-little" { &b"123"[..] } else { b"1234567890" };
                    peer.head(stream, "200", &[("content-length", "5")], false);
                    peer.frame(kind::DATA, END, stream, body);
                }
                "a-reset-after-the-end" => {
                    peer.respond(stream, "whole");
                    peer.frame(kind::RST_STREAM, 0, stream, &0_u32.to_be_bytes());
                }
                _ => panic!("{what} is unknown"),
            }
            return Then::Continues;
        }
    }
    Then::Waits
}

#[test]
fn each_failure_of_an_upstream_has_the_expected_outcome_and_the_next_request_is_served() {
    let upstream = Upstream::start(|peer| {
        let Some(mut connection) = peer.http2(&[]) else { return };
        while let Some((stream, path)) = connection.next_request() {
            let name = path.strip_prefix("/app/").expect("the prefix of the route");
            match serve(name, stream, &mut connection) {
                Then::Continues => {}
                Then::Closes => return,
                Then::Waits => return peer.wait_for_end(),
            }
        }
    });
    let errors = ERRORS.map(|(status, kind, names)| (Error(status, kind), names));
    let cases: Vec<_> = errors.into_iter().chain(OTHERS).flat_map(Outcome::of_each).collect();
    check(&proxy_h2c(&upstream, "response_timeout = \"1s\"\nstall_timeout = \"1s\"\n"), &cases);
}

#[test]
fn an_upstream_that_sends_no_settings_is_504() {
    let upstream = Upstream::start(UpstreamPeer::wait_for_end);
    let server = proxy_h2c(&upstream, "connect_timeout = \"300ms\"\n");
    assert_error(&server.get("/app/"), 504, "connection_timeout");
}

#[test]
fn an_upstream_that_accepts_no_streams_is_502_and_its_connection_closes() {
    let (sender, ends) = mpsc::channel();
    let upstream = Upstream::start(move |peer| {
        if let Some(mut connection) = peer.http2(&[(3, 0)]) {
            sender.send(connection.next_request().is_none()).expect("the test runs");
        }
    });
    let server = proxy_h2c(&upstream, "");
    assert_error(&server.get("/app/"), 502, "destination_unavailable");
    assert_eq!(ends.recv(), Ok(true));
}
