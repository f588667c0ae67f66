//! Responses (RFC 9113 §8.1, RFC 9110 §15.2).

use http::{HeaderName, HeaderValue};
use rudy_message::{LengthError, Rejection};

use super::*;

fn requested(method: &str) -> Client {
    let mut client = Client::new();
    client.send(&headers(1, &[&[(":method", method)], &GET[1..]].concat()));
    client
}

#[test]
fn the_last_byte_of_a_known_length_ends_the_stream() {
    let mut client = requested("GET");
    client.begin(1, 200, Some(3));
    assert_eq!(client.send_body(1, 2), 2);
    assert!(client.connection.is_in_body(1));
    assert_eq!(client.send_body(1, 1), 1);
    assert!(!client.connection.is_in_body(1));
    client.connection.finish(1, None, &mut client.out).unwrap();
    assert_eq!(client.sent(), ["1 HEADERS :status: 200, content-length: 3", "1 DATA 2", "1 DATA 1 end"]);
}

#[test]
fn a_body_of_an_unknown_length_ends_with_an_empty_frame() {
    let mut client = requested("GET");
    client.begin(1, 200, None);
    client.send_body(1, 2);
    client.connection.finish(1, None, &mut client.out).unwrap();
    assert_eq!(client.sent(), ["1 HEADERS :status: 200", "1 DATA 2", "1 DATA 0 end"]);
}

/// RFC 9110 §8.6, §9.3.2, §15.3.5 and §15.4.5.
#[test]
fn responses_without_content_end_with_their_head() {
    for (method, status, length, expected) in [
        ("HEAD", 200, Some(5), "1 HEADERS :status: 200, content-length: 5 end"),
        ("HEAD", 200, None, "1 HEADERS :status: 200 end"),
        ("GET", 204, Some(0), "1 HEADERS :status: 204 end"),
        ("GET", 204, None, "1 HEADERS :status: 204 end"),
        ("GET", 304, Some(5), "1 HEADERS :status: 304 end"),
        ("GET", 200, Some(0), "1 HEADERS :status: 200, content-length: 0 end"),
    ] {
        let mut client = requested(method);
        client.begin(1, status, length);
        assert!(!client.connection.is_in_body(1));
        client.connection.finish(1, Some(&trailers()), &mut client.out).unwrap();
        assert_eq!(client.sent(), [expected], "{method} {status}");
        client.connection.close(1, client.now);
        assert!(client.connection.is_idle());
    }
}

fn trailers() -> HeaderMap {
    [(HeaderName::from_static("a"), HeaderValue::from_static("b"))].into_iter().collect()
}

#[test]
fn trailers_end_a_response() {
    let mut client = requested("GET");
    client.begin(1, 200, None);
    client.connection.finish(1, Some(&trailers()), &mut client.out).unwrap();
    assert_eq!(client.sent(), ["1 HEADERS :status: 200", "1 HEADERS a: b end"]);
}

/// §8.1.1: the client would treat it as malformed.
#[test]
fn a_body_has_the_length_of_its_head() {
    let mut client = requested("GET");
    client.begin(1, 200, Some(3));
    client.sent();
    assert_eq!(client.connection.begin_data(1, 4, &mut client.out), Err(LengthError));
    client.send_body(1, 2);
    assert_eq!(client.connection.encode_piece(1, b"ab", &mut client.out), Err(LengthError));
    assert_eq!(client.connection.finish(1, None, &mut client.out), Err(LengthError));
    assert_eq!(client.sent(), ["1 DATA 2"]);
}

#[test]
fn a_response_has_one_head_and_begins_with_it() {
    let mut client = requested("GET");
    assert_eq!(client.connection.begin_data(1, 1, &mut client.out), Err(LengthError));
    client.connection.finish(1, None, &mut client.out).unwrap();
    assert_eq!(client.sent(), [""; 0]);
    client.begin(1, 200, None);
    client.begin(1, 404, None);
    client.connection.finish(1, None, &mut client.out).unwrap();
    client.begin(1, 404, None);
    assert_eq!(client.sent(), ["1 HEADERS :status: 200", "1 DATA 0 end"]);
}

/// §8.1: a client may not have sent the whole request. Some clients drop the response if the server resets the stream.
#[test]
fn the_rest_of_a_request_is_discarded_after_its_response() {
    let mut client = Client::with(Limits { drain_bytes: 10, ..Limits::default() }, &[]);
    client.send(&[post(1, &[]), post(3, &[]), post(5, &[])].concat());
    for stream in [1, 3, 5] {
        client.respond(stream, b"no");
    }
    assert_eq!(client.sent()[..2], ["1 HEADERS :status: 200, content-length: 2", "1 DATA 2 end"]);
    // It ends in time.
    assert_eq!(client.send(&[data(1, b"0123456789"), last_data(1, b"")].concat()), [""; 0]);
    assert_eq!(client.sent(), ["PING rudy bdp"]);
    // It is too long.
    assert_eq!(client.send(&data(3, b"0123456789a")), [""; 0]);
    assert_eq!(client.sent(), ["3 RST_STREAM NO_ERROR"]);
    // It is too slow.
    let deadline = client.connection.deadline(&client.limits);
    assert_eq!(deadline, Some(client.now + client.limits.head_timeout));
    client.connection.expire(client.now, &client.limits, &mut client.out);
    assert!(!client.connection.is_idle());
    client.now += client.limits.head_timeout;
    client.connection.expire(client.now, &client.limits, &mut client.out);
    assert_eq!(client.sent(), ["5 RST_STREAM NO_ERROR"]);
    assert!(client.connection.is_idle());
}

/// RFC 9110 §10.1.1.
#[test]
fn a_client_that_waits_receives_100_continue_once() {
    let mut client = Client::new();
    client.send(&[post(1, &[("expect", "100-continue")]), post(3, &[])].concat());
    for _ in 0..2 {
        client.connection.encode_continue(1, &mut client.out);
        client.connection.encode_continue(3, &mut client.out);
    }
    assert_eq!(client.sent(), ["1 HEADERS :status: 100"]);
    client.send(&post(5, &[("expect", "100-continue")]));
    client.begin(5, 200, None);
    client.connection.encode_continue(5, &mut client.out);
    assert_eq!(client.sent(), ["5 HEADERS :status: 200"]);
}

/// RFC 9110 §15.2; RFC 9113 §8.6 excludes 101.
#[test]
fn interim_responses_come_before_the_response() {
    let mut client = requested("GET");
    let interim = |client: &mut Client, status| {
        let status = StatusCode::from_u16(status).unwrap();
        client.connection.encode_interim(1, status, &trailers(), &mut client.out)
    };
    assert_eq!(
        [100, 101, 103, 103, 200].map(|status| interim(&mut client, status)),
        [false, false, true, true, false]
    );
    client.begin(1, 200, Some(0));
    assert!(!interim(&mut client, 103));
    let expected = ["1 HEADERS :status: 103, a: b", "1 HEADERS :status: 103, a: b"];
    assert_eq!(client.sent()[..2], expected);
}

/// §4.3 and §8.2.2.
#[test]
fn a_head_larger_than_a_frame_continues_and_has_no_fields_of_the_connection() {
    let mut client = requested("GET");
    let mut fields = trailers();
    for name in ["connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"] {
        fields.insert(HeaderName::from_static(name), HeaderValue::from_static("x"));
    }
    // Bytes that the Huffman code makes longer.
    fields.insert("large", HeaderValue::from_bytes(&vec![b'~'; 40_000]).unwrap());
    let head = ResponseHead::Fields(StatusCode::OK, &fields);
    client.connection.begin(1, head, Some(0), &date(), &mut client.out);
    let out = client.out.split();
    let frames = frames(&out);
    let kinds: Vec<_> = frames.iter().map(|(head, _)| (head.kind, head.flags, head.stream)).collect();
    assert_eq!(
        kinds,
        [(kind::HEADERS, flag::END_STREAM, 1), (kind::CONTINUATION, 0, 1), (kind::CONTINUATION, 4, 1)]
    );
    assert!(frames.iter().all(|(head, _)| head.length <= 16_384));
    let block: Vec<u8> = frames.iter().flat_map(|(_, payload)| payload.iter().copied()).collect();
    let names: Vec<_> = client.fields(&block);
    let names: Vec<_> = names.iter().map(|field| field.rsplit_once(": ").unwrap().0).collect();
    assert_eq!(names, [":status", "a", "large", "content-length"]);
}

#[test]
fn calls_for_a_stream_that_the_client_has_cancelled_do_nothing() {
    let mut client = requested("GET");
    client.send(&reset_frame(1, ErrorCode::CANCEL));
    client.begin(1, 200, None);
    assert_eq!(client.connection.begin_data(1, 1, &mut client.out), Err(LengthError));
    assert_eq!(client.connection.encode_piece(1, b"a", &mut client.out), Err(LengthError));
    assert_eq!(client.connection.finish(1, None, &mut client.out), Ok(()));
    client.connection.encode_continue(1, &mut client.out);
    client.connection.close(1, client.now);
    client.reset(1, ErrorCode::CANCEL);
    client.connection.reject(1, Rejection::BadHost, (&date(), client.now), &mut client.out);
    assert_eq!(client.sent(), [""; 0]);
}

#[test]
fn a_rejection_is_a_response_with_a_text() {
    let mut client = Client::new();
    client.send(&[get(1), post(3, &[])].concat());
    let reject = |client: &mut Client, stream| {
        client.connection.reject(stream, Rejection::BadHost, (&date(), client.now), &mut client.out);
        client.sent()
    };
    let sent = reject(&mut client, 1);
    assert!(sent[0].starts_with("1 HEADERS :status: 400") && sent[1].ends_with("end") && sent.len() == 2);
    assert_eq!(reject(&mut client, 3).len(), 2);
    client.send(&last_data(3, b""));
    assert!(client.connection.is_idle());
    // A response that has begun cannot be replaced.
    client.send(&get(5));
    client.begin(5, 200, None);
    client.sent();
    assert_eq!(reject(&mut client, 5), ["5 RST_STREAM CANCEL"]);
    // Without a window for the text, the head must do.
    client.send(&settings_frame(&[(4, 10)]));
    client.send(&get(7));
    client.sent();
    let sent = reject(&mut client, 7);
    assert!(sent[0].starts_with("7 HEADERS :status: 400"));
    assert_eq!(sent[1..], ["7 RST_STREAM CANCEL"]);
    assert!(client.connection.is_idle());
}
