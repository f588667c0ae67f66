//! Trailers of requests (RFC 9113 §8.1).

use super::*;

fn events_of(trailers: Vec<u8>) -> Vec<String> {
    let (events, sent, error) = outcome(&[post(1, &[]), trailers].concat());
    assert_eq!(error, None);
    let has_failed = events.last().is_some_and(|event| event.contains("failed"));
    assert_eq!(sent.iter().any(|frame| frame.contains("RST_STREAM")), has_failed);
    events[1..].to_vec()
}

fn trailers(fields: &[(&str, &str)]) -> Vec<String> {
    events_of(headers(1, fields))
}

#[test]
fn trailers_end_a_body() {
    assert_eq!(trailers(&[("checksum", "1"), ("b", "2")]), ["1 end {\"checksum\": \"1\", \"b\": \"2\"}"]);
    assert_eq!(trailers(&[]), ["1 end"]);
}

/// §8.1: a second block without END_STREAM.
#[test]
fn trailers_that_do_not_end_the_stream_are_malformed() {
    let block = frame(kind::HEADERS, flag::END_HEADERS, 1, &block(&[("a", "b")]));
    assert_eq!(events_of(block), ["1 failed PROTOCOL_ERROR"]);
}

/// §8.1: and the rules for fields of §8.2.
#[test]
fn trailers_have_no_pseudo_fields_and_no_invalid_fields() {
    for field in [
        (":path", "/"),
        (":status", "200"),
        ("A", "b"),
        ("", "b"),
        ("a", "b\r\nc: d"),
        ("a", " b"),
        ("connection", "close"),
        ("transfer-encoding", "chunked"),
        ("te", "gzip"),
    ] {
        let mut raw = vec![0, u8::try_from(field.0.len()).unwrap()];
        raw.extend_from_slice(field.0.as_bytes());
        raw.push(u8::try_from(field.1.len()).unwrap());
        raw.extend_from_slice(field.1.as_bytes());
        let block = frame(kind::HEADERS, flag::END_HEADERS | flag::END_STREAM, 1, &raw);
        assert_eq!(events_of(block), ["1 failed PROTOCOL_ERROR"], "{field:?}");
    }
}

/// RFC 9110 §6.5.1.
#[test]
fn fields_for_the_framing_or_the_target_are_not_trailers() {
    for name in ["content-length", "host", "authorization", "content-encoding", "trailer", "cookie", "te"] {
        let value = if name == "te" { "trailers" } else { "1" };
        assert_eq!(trailers(&[(name, value)]), ["1 failed PROTOCOL_ERROR"], "{name}");
    }
}

/// The limit is that of a head: each field counts 32 bytes more.
#[test]
fn trailers_larger_than_the_limit_reset_the_stream() {
    let mut client = Client::with(Limits { head_bytes: 340, ..Limits::default() }, &[]);
    client.send(&[post(1, &[]), post(3, &[])].concat());
    assert_eq!(client.send(&headers(1, &[("a", "b"); 10])).len(), 1);
    assert_eq!(client.send(&headers(3, &[("a", "b"); 11])), ["3 failed ENHANCE_YOUR_CALM"]);
}

#[test]
fn trailers_continue_in_further_frames() {
    let mut input = frame(kind::HEADERS, flag::END_STREAM, 1, &[]);
    for byte in block(&[("a", "b")]) {
        input.extend(frame(kind::CONTINUATION, 0, 1, &[byte]));
    }
    input.extend(frame(kind::CONTINUATION, flag::END_HEADERS, 1, &[]));
    assert_eq!(events_of(input), ["1 end {\"a\": \"b\"}"]);
}
