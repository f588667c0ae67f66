//! Responses.

use http::header::{self, HeaderName, HeaderValue};
use rudy_message::{LengthError, PreparedHead, Rejection};

use super::*;
use crate::qpack::Decoder;

/// A client that waits for the response to a request.
fn requested(method: &str) -> Client {
    let mut client = Client::new();
    client.end(0, &headers(&[&[(":method", method)], &GET[1..]].concat()));
    client
}

#[test]
fn a_body_of_known_length_has_one_frame() {
    let mut client = requested("GET");
    client.begin(0, 200, Some(6));
    client.sent();
    for piece in [&b"ab"[..], b"", b"cd", b"ef"] {
        assert!(client.connection.is_in_body(0));
        client.piece(0, piece);
    }
    assert!(!client.connection.is_in_body(0));
    assert_eq!(&client.out[..], b"\x00\x06abcdef");
}

/// The length of a frame has 62 bits.
#[test]
fn a_frame_covers_a_body_of_any_size() {
    for (length, head) in [
        (1 << 40, &[0, 0xc0, 0, 1, 0, 0, 0, 0, 0][..]),
        (varint::MAX, &[0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]),
    ] {
        let mut client = requested("GET");
        client.begin(0, 200, Some(length));
        client.sent();
        assert_eq!(client.connection.begin_data(0, length - 1, &mut client.out), Ok(length - 1));
        assert_eq!(client.connection.begin_data(0, 1, &mut client.out), Ok(1));
        assert!(!client.connection.is_in_body(0));
        assert_eq!(client.out, head);
    }
}

#[test]
fn a_body_of_unknown_length_has_a_frame_for_each_piece() {
    let mut client = requested("GET");
    client.begin(0, 200, None);
    for piece in [&b"ab"[..], b"", b"c"] {
        client.piece(0, piece);
    }
    assert!(client.connection.is_in_body(0));
    let trailers = HeaderMap::from_iter([(HeaderName::from_static("t"), HeaderValue::from_static("1"))]);
    client.connection.finish(0, Some(&trailers), &mut client.out).unwrap();
    client.connection.close(0, client.now);
    assert_eq!(client.sent(), ["HEADERS :status: 200", "DATA ab", "DATA c", "HEADERS t: 1"]);
    assert_eq!(client.ends(), [(0, StreamEnd::Finish)]);
}

#[test]
fn a_body_of_another_length_is_an_error() {
    let mut client = requested("GET");
    client.begin(0, 200, Some(3));
    assert_eq!(client.connection.encode_piece(0, b"abcd", &mut client.out), Err(LengthError));
    client.piece(0, b"ab");
    assert_eq!(client.connection.finish(0, None, &mut client.out), Err(LengthError));
    client.connection.close(0, client.now);
    assert_eq!(client.ends(), [], "the response is not complete");
    client.connection.reset(0, ErrorCode::INTERNAL_ERROR, client.now);
    assert_eq!(client.ends(), [(0, StreamEnd::Reset(ErrorCode::INTERNAL_ERROR))]);
    assert!(client.connection.is_idle());
}

#[test]
fn some_responses_have_no_body() {
    for (method, status, length, head) in [
        ("HEAD", 200, Some(5), ":status: 200, content-length: 5"),
        ("GET", 204, Some(5), ":status: 204"),
        ("GET", 304, None, ":status: 304"),
        ("GET", 200, Some(0), ":status: 200, content-length: 0"),
    ] {
        let mut client = requested(method);
        client.begin(0, status, length);
        assert!(!client.connection.is_in_body(0), "{status}");
        // Each request has one response.
        client.begin(0, 500, None);
        client.connection.close(0, client.now);
        assert_eq!(client.sent(), [format!("HEADERS {head}")]);
        assert_eq!(client.ends(), [(0, StreamEnd::Finish)]);
    }
}

#[test]
fn interim_responses_come_before_the_response() {
    let mut client = Client::new();
    client.send(0, &post(&[("expect", "100-continue"), ("content-length", "3")]));
    let fields = HeaderMap::from_iter([(header::LINK, HeaderValue::from_static("</a>"))]);
    let interim = |client: &mut Client, status: u16| {
        let status = StatusCode::from_u16(status).unwrap();
        client.connection.encode_interim(0, status, &fields, &mut client.out)
    };
    client.connection.encode_continue(0, &mut client.out);
    client.connection.encode_continue(0, &mut client.out);
    assert!(interim(&mut client, 103) && !interim(&mut client, 101) && !interim(&mut client, 200));
    client.begin(0, 200, Some(0));
    assert!(!interim(&mut client, 103));
    let sent = [
        "HEADERS :status: 100",
        "HEADERS :status: 103, link: </a>",
        "HEADERS :status: 200, content-length: 0",
    ];
    assert_eq!(client.sent(), sent);
}

/// RFC 9114 §4.2.
#[test]
fn fields_of_the_connection_are_not_sent() {
    let fields = ["connection", "keep-alive", "proxy-connection", "upgrade", "transfer-encoding", "a"]
        .map(|name| (HeaderName::from_static(name), HeaderValue::from_static("x")));
    let headers = HeaderMap::from_iter(fields);
    let prepared = PreparedHead::new(StatusCode::OK, headers.clone());
    for _ in 0..2 {
        for head in [ResponseHead::Fields(StatusCode::OK, &headers), ResponseHead::Prepared(&prepared)] {
            let mut client = requested("GET");
            client.connection.begin(0, head, None, &date(), &mut client.out);
            assert_eq!(client.sent(), ["HEADERS :status: 200, a: x"]);
        }
    }
}

#[test]
fn fields_that_are_added_to_a_prepared_head_follow_it() {
    let field = |name, value| (HeaderName::from_static(name), HeaderValue::from_static(value));
    let prepared = PreparedHead::new(StatusCode::OK, HeaderMap::from_iter([field("a", "x")])).into();
    for age in ["1", "2"] {
        let aged = PreparedHead::with(&prepared, [field("age", age), field("a", "y")]);
        let mut client = requested("GET");
        client.connection.begin(0, ResponseHead::Prepared(&aged), None, &date(), &mut client.out);
        assert_eq!(client.sent(), [format!("HEADERS :status: 200, a: x, age: {age}, a: y")]);
    }
}

#[test]
fn the_date_is_added_once() {
    let dates = |fields: &HeaderMap| {
        let mut client = requested("GET");
        client.connection.begin(
            0,
            ResponseHead::Fields(StatusCode::OK, fields),
            None,
            &date(),
            &mut client.out,
        );
        let mut dates = Vec::new();
        let mut field = |name: &[u8], value: &[u8]| {
            if name == b"date" {
                dates.push(String::from_utf8_lossy(value).into_owned());
            }
        };
        // The type and the length of the frame have three bytes.
        Decoder::new(0).section(&client.out[3..]).unwrap().decode(&mut Vec::new(), &mut field).unwrap();
        dates
    };
    assert_eq!(dates(&HeaderMap::new()), ["Thu, 01 Jan 1970 00:00:00 GMT"]);
    assert_eq!(dates(&HeaderMap::from_iter([(header::DATE, HeaderValue::from_static("x"))])), ["x"]);
}

#[test]
fn a_large_head_has_a_longer_length() {
    for length in [0x3fff - 40, 0x3fff, 0x10000] {
        let mut client = requested("GET");
        let value = HeaderValue::from_bytes(&vec![b'~'; length]).unwrap();
        let headers = HeaderMap::from_iter([(HeaderName::from_static("x"), value)]);
        let head = ResponseHead::Fields(StatusCode::OK, &headers);
        client.out.extend_from_slice(&data(b"before"));
        client.connection.begin(0, head, Some(0), &date(), &mut client.out);
        let sent = client.sent();
        assert_eq!((sent.len(), &*sent[0]), (2, "DATA before"));
        assert!(sent[1].len() > length);
    }
}

#[test]
fn a_rejection_is_a_response_or_a_reset() {
    let mut client = requested("GET");
    let date = date();
    client.connection.reject(0, Rejection::BadTarget, (&date, client.now), &mut client.out);
    let sent = client.sent();
    assert!(sent[0].starts_with("HEADERS :status: 400, ") && sent[1].starts_with("DATA 400 Bad Request: "));
    assert_eq!(client.ends(), [(0, StreamEnd::Finish)]);

    let mut client = requested("HEAD");
    client.connection.reject(0, Rejection::BadTarget, (&date, client.now), &mut client.out);
    assert_eq!((client.sent().len(), client.ends()), (1, vec![(0, StreamEnd::Finish)]));

    let mut client = requested("GET");
    client.begin(0, 200, None);
    client.connection.reject(0, Rejection::BadTarget, (&date, client.now), &mut client.out);
    assert_eq!(client.ends(), [(0, StreamEnd::Reset(ErrorCode::REQUEST_CANCELLED))]);
}

#[test]
fn a_client_may_cancel_its_request_or_the_response() {
    let code = ErrorCode::REQUEST_CANCELLED;
    for is_stop in [false, true] {
        let mut client = requested("GET");
        client.begin(0, 200, None);
        let (now, limits) = (client.now, client.limits.clone());
        let event = if is_stop {
            client.connection.receive_stop(0, code, now, &limits)
        } else {
            client.connection.receive_reset(0, code, now, &limits)
        };
        assert!(matches!(event, Ok(Some(Event::Reset { stream: 0, reason: None, .. }))), "{event:?}");
        assert_eq!(client.ends(), [(0, StreamEnd::Reset(code))]);
        assert!(client.connection.is_idle());
        // Calls for it do nothing.
        client.out.clear();
        client.begin(0, 200, None);
        assert_eq!(client.connection.encode_piece(0, b"a", &mut client.out), Err(LengthError));
        assert_eq!(client.connection.finish(0, None, &mut client.out), Ok(()));
        client.connection.close(0, client.now);
        client.connection.reset(0, code, client.now);
        assert_eq!((client.out.len(), client.ends()), (0, vec![]));
    }
}
