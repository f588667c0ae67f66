//! Heads of requests.

use http::{Method, Version};

use super::*;

#[test]
fn a_head_is_that_of_http_1_with_its_version() {
    let mut client = Client::new();
    let head = headers(&[&GET[..], &[("cookie", "a=1"), ("cookie", "b=2"), ("priority", "u=1, i")]].concat());
    let mut bytes = &head[..];
    let (now, limits) = (client.now, client.limits.clone());
    let event = client.connection.receive(0, &mut bytes, true, &mut client.buffers, now, &limits);
    let Ok(Some(Event::Request { stream: 0, head, priority })) = event else { panic!("{event:?}") };
    assert_eq!((head.version(), head.host(), priority.urgency), (Version::HTTP_3, &b"a"[..], 1));
    assert!(priority.incremental);
    let cookies: Vec<_> = head.lines_named(&http::header::COOKIE).collect();
    assert_eq!(cookies, [b"a=1; b=2"]);
}

/// RFC 9114 §4.1.2: a stream error.
#[test]
fn a_malformed_head_resets_its_stream() {
    for fields in [
        &[(":method", "GET")][..],
        &[&GET[..], &[(":path", "/")]].concat(),
        &[&[("a", "b")], &GET[..]].concat(),
        &[&GET[..], &[("connection", "close")]].concat(),
        &[&GET[..], &[("transfer-encoding", "chunked")]].concat(),
        &[&GET[..], &[("host", "b")]].concat(),
        &[&GET[..], &[("a", "b\r\nc: d")]].concat(),
        &[(":method", "CONNECT"), (":protocol", "websocket"), GET[1], GET[2], GET[3]],
    ] {
        let bytes = headers(fields);
        let (events, ends, error) = outcome(&[(0, &bytes, true), (4, &get(), true)]);
        assert_eq!(error, None);
        assert_eq!(events, ["0 failed H3_MESSAGE_ERROR", "4 GET a /x?y Known(0)"], "{fields:?}");
        assert_eq!(ends, [(0, StreamEnd::Reset(ErrorCode::MESSAGE_ERROR))]);
    }
}

#[test]
fn a_section_that_cannot_be_decoded_ends_the_connection() {
    for section in [&b""[..], b"\0", b"\x01\0", b"\x02\x81", b"\0\0\x80", b"\0\0\xff\x24", b"\0\0\x51\x05/"] {
        let bytes = frame(kind::HEADERS, section);
        end_connection(&[(0, &bytes, false)], ErrorCode::QPACK_DECOMPRESSION_FAILED);
    }
}

#[test]
fn a_head_over_a_limit_is_rejected() {
    let long = "x".repeat(20_000);
    for (more, status) in [
        (vec![("a", &*long)], 431),
        (vec![("a", "b"); 120], 431),
        (vec![("content-length", "a")], 400),
        (vec![("content-length", "99999999999999")], 413),
    ] {
        let bytes = headers(&[&GET[..], &more].concat());
        lead_to(&[(0, &bytes, false)], &[&format!("0 rejected {status}")]);
    }
    let target = [GET[0], GET[1], (":path", &*format!("/{}", "x".repeat(10_000))), GET[3]];
    lead_to(&[(0, &headers(&target), true)], &["0 rejected 414"]);
}

#[test]
fn the_size_of_a_section_is_limited_before_it_is_stored() {
    let most = 2 * Limits::default().head_bytes as u64;
    let head = |length: u64| [number(kind::HEADERS), number(length)].concat();
    lead_to(&[(0, &head(most), false)], &[]);
    end_connection(&[(0, &head(most + 1), false)], ErrorCode::EXCESSIVE_LOAD);
}

#[test]
fn a_tunnel_is_a_connect_request_with_a_path() {
    let mut client = Client::new();
    client.connection = ServerConnection::new(client.now, true, &client.limits);
    let protocol = (":protocol", "websocket");
    let bytes = headers(&[(":method", "CONNECT"), protocol, GET[1], GET[2], GET[3]]);
    let (now, limits) = (client.now, client.limits.clone());
    let event = client.connection.receive(0, &mut &bytes[..], false, &mut client.buffers, now, &limits);
    let Ok(Some(Event::Request { head, .. })) = event else { panic!("{event:?}") };
    assert_eq!((head.method(), head.target()), (&Method::CONNECT, &b"/x?y"[..]));
    assert_eq!(head.into_request().uri().path(), "/x");
    // RFC 9114 §4.4.
    assert_eq!(client.error(0, &headers(&[("t", "1")])), ErrorCode::FRAME_UNEXPECTED);
}

#[test]
fn a_head_must_be_complete_in_time() {
    let mut client = Client::new();
    let start = client.now;
    let timeout = client.limits.head_timeout;
    assert_eq!(client.send(8, &get()[..10]), [""; 0]);
    client.now += timeout / 2;
    assert_eq!(client.end(12, &get()), ["12 GET a /x?y Known(0)"]);
    // The streams before one are open as soon as it is.
    assert_eq!(client.connection.deadline(&client.limits), Some(start + timeout));
    client.connection.expire(start + timeout * 3 / 4, &client.limits);
    assert_eq!(client.ends(), []);
    client.connection.expire(start + timeout, &client.limits);
    let rejected = StreamEnd::Reset(ErrorCode::REQUEST_REJECTED);
    assert_eq!(client.ends(), [(0, rejected), (4, rejected), (8, rejected)]);
    assert_eq!(client.connection.deadline(&client.limits), None);
    assert_eq!(client.send(8, &get()[10..]), [""; 0]);
    client.respond(12, b"");
    assert!(client.connection.is_idle());
}

#[test]
fn more_streams_than_the_limit_are_rejected() {
    let mut client = Client::with(Limits {
        http2: crate::h2::Limits { streams: 2, ..crate::h2::Limits::DEFAULT },
        ..Limits::default()
    });
    client.end(0, &get());
    client.end(4, &get());
    assert_eq!(client.end(8, &get()), [""; 0]);
    assert_eq!(client.ends(), [(8, StreamEnd::Reset(ErrorCode::REQUEST_REJECTED))]);
    client.respond(0, b"");
    client.ends();
    assert_eq!(client.end(12, &get()), ["12 GET a /x?y Known(0)"]);
}
