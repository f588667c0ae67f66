//! As [`faults`](crate::proxy::faults), for an upstream that speaks HTTP/2.

use rudy_tests::http2::{END, END_HEADERS, block, kind};
use rudy_tests::prelude::*;

use crate::proxy::faults::Outcome::{Complete, Error, ErrorOrTruncated, Truncated};
use crate::proxy::faults::{Outcome, check};
use crate::proxy::proxy_http2;

const CASES: &[(&str, Outcome)] = &[
    ("closes", Error(502, "connection_terminated")),
    ("closes-after-the-head", ErrorOrTruncated),
    ("closes-in-a-frame", ErrorOrTruncated),
    ("hangs", Error(504, "http_response_timeout")),
    ("hangs-after-the-head", Truncated),
    ("hangs-in-the-body", Truncated),
    ("resets", Error(502, "connection_terminated")),
    ("resets-in-the-body", ErrorOrTruncated),
    ("refuses", Error(503, "destination_unavailable")),
    ("goes-away", Error(502, "connection_terminated")),
    ("goes-away-in-the-body", Complete("whole")),
    ("sends-garbage", Error(502, "http_protocol_error")),
    ("sends-http1", Error(502, "http_protocol_error")),
    ("sends-data-first", Error(502, "http_protocol_error")),
    ("sends-no-status", Error(502, "http_protocol_error")),
    ("sends-101", Error(502, "http_protocol_error")),
    ("sends-connection", Error(502, "http_protocol_error")),
    ("sends-a-bad-block", Error(502, "http_protocol_error")),
    ("sends-a-push", Error(502, "http_protocol_error")),
    ("sends-many-fields", Error(502, "http_response_header_section_size")),
    ("sends-endless-blocks", Error(502, "http_protocol_error")),
    ("sends-a-1xx-flood", Error(502, "http_protocol_error")),
    ("sends-endless-trailers", ErrorOrTruncated),
    ("sends-a-ping-flood", Error(502, "http_protocol_error")),
    ("sends-more-than-the-window", ErrorOrTruncated),
    ("sends-too-little", ErrorOrTruncated),
    ("sends-too-much", ErrorOrTruncated),
    ("sends-a-reset-after-the-end", Complete("whole")),
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
            peer.send(&rudy_tests::http2::encode(kind::DATA, END, stream, b"12345678")[..12]);
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
        "data-first" => {
            peer.frame(kind::DATA, END, stream, b"data");
            return Then::Continues;
        }
        "no-status" => {
            peer.frame(kind::HEADERS, END | END_HEADERS, stream, &block(&[("x", "y")]));
            return Then::Continues;
        }
        "101" => {
            peer.head(stream, "101", &[], false);
            return Then::Continues;
        }
        "connection" => {
            peer.head(stream, "200", &[("connection", "close")], true);
            return Then::Continues;
        }
        "a-bad-block" => peer.frame(kind::HEADERS, END_HEADERS, stream, &[0xff; 20]),
        "a-push" => peer.frame(5, END_HEADERS, stream, &[0, 0, 0, 2]),
        "many-fields" => {
            let head = [block(&[(":status", "200")]), many()].concat();
            peer.frame(kind::HEADERS, END | END_HEADERS, stream, &head);
            return Then::Continues;
        }
        "endless-blocks" => {
            peer.frame(kind::HEADERS, 0, stream, &block(&[(":status", "200")]));
            for _ in 0..100 {
                peer.frame(kind::CONTINUATION, 0, stream, &many());
            }
        }
        "a-1xx-flood" => {
            (0..200).for_each(|_| peer.head(stream, "102", &[], false));
            return Then::Continues;
        }
        "endless-trailers" => {
            peer.head(stream, "200", &[], false);
            peer.frame(kind::HEADERS, END | END_HEADERS, stream, &many());
            return Then::Continues;
        }
        "a-ping-flood" => (0..5000).for_each(|_| peer.frame(kind::PING, 0, 0, &[0; 8])),
        "more-than-the-window" => {
            peer.head(stream, "200", &[], false);
            (0..200).for_each(|_| peer.frame(kind::DATA, 0, stream, &[b'x'; 16_384]));
            return Then::Continues;
        }
        "too-little" => {
            peer.head(stream, "200", &[("content-length", "5")], false);
            peer.frame(kind::DATA, END, stream, b"123");
            return Then::Continues;
        }
        "too-much" => {
            peer.head(stream, "200", &[("content-length", "5")], false);
            peer.frame(kind::DATA, END, stream, b"1234567890");
            return Then::Continues;
        }
        "a-reset-after-the-end" => {
            peer.respond(stream, "whole");
            peer.frame(kind::RST_STREAM, 0, stream, &0_u32.to_be_bytes());
            return Then::Continues;
        }
        _ => panic!("{what} is unknown"),
    }
    Then::Waits
}

#[test]
fn each_failure_of_an_upstream_has_the_expected_outcome_and_the_next_request_is_served() {
    let upstream = Upstream::start(|peer| {
        let Some(mut connection) = peer.http2(&[]) else { return };
        while let Some((stream, path)) = connection.next_request() {
            match serve(path.strip_prefix("/app/").expect("the prefix of the route"), stream, &mut connection)
            {
                Then::Continues => {}
                Then::Closes => return,
                Then::Waits => return peer.wait_for_end(),
            }
        }
    });
    let url = upstream.url().replace("http", "h2c");
    check(&proxy_http2(&url, "response_timeout = \"1s\"\nstall_timeout = \"1s\"\n"), CASES);
}

#[test]
fn an_upstream_that_sends_no_settings_is_504() {
    let upstream = Upstream::start(UpstreamPeer::wait_for_end);
    let server = proxy_http2(&upstream.url().replace("http", "h2c"), "connect_timeout = \"300ms\"\n");
    let response = server.get("/app/");
    let error = response.field("proxy-status");
    assert_eq!((response.status, error), (504, Some("rudy; error=connection_timeout")));
}

#[test]
fn an_upstream_that_accepts_no_streams_is_502_and_its_connection_closes() {
    let (sender, ends) = mpsc::channel();
    let upstream = Upstream::start(move |peer| {
        if let Some(mut connection) = peer.http2(&[(3, 0)]) {
            sender.send(connection.next_request().is_none()).expect("the test runs");
        }
    });
    let server = proxy_http2(&upstream.url().replace("http", "h2c"), "");
    let response = server.get("/app/");
    let error = response.field("proxy-status");
    assert_eq!((response.status, error), (502, Some("rudy; error=destination_unavailable")));
    assert_eq!(ends.recv(), Ok(true));
}
