//! Bodies of requests (RFC 9113 §8.1).

use rudy_message::Rejection;

use super::*;

const PING: &str = "PING rudy bdp";
const RESET: &str = "1 RST_STREAM PROTOCOL_ERROR";

#[test]
fn a_body_arrives_in_pieces() {
    let input = [
        post(1, &[("content-length", "5")]),
        data(1, b"ab"),
        frame(kind::DATA, flag::PADDED, 1, b"\x02cde\0\0"),
        headers(1, &[("checksum", "1")]),
        get(3),
    ];
    leads_to(
        &input.concat(),
        &["1 POST a /x?y Known(5)", "1 \"abcde\"", "1 end {\"checksum\": \"1\"}", "3 GET a /x?y Known(0)"],
        &[PING],
    );
}

/// The end of the stream is on the last byte, on an empty frame, on padding or on the head.
#[test]
fn a_body_ends_with_the_stream() {
    let padded = frame(kind::DATA, flag::PADDED | flag::END_STREAM, 1, b"\x03ab\0\0\0");
    for end in [last_data(1, b"ab"), [data(1, b"ab"), last_data(1, b"")].concat(), padded] {
        let input = [post(1, &[]), end].concat();
        leads_to(&input, &["1 POST a /x?y Chunked", "1 \"ab\"", "1 end"], &[PING]);
    }
    leads_to(&[post(1, &[]), last_data(1, b"")].concat(), &["1 POST a /x?y Chunked", "1 end"], &[]);
}

/// Bodies of several streams alternate.
#[test]
fn bodies_of_streams_are_independent() {
    let input =
        [post(1, &[]), post(3, &[]), data(1, b"a"), data(3, b"b"), last_data(1, b"c"), last_data(3, b"")];
    let events =
        ["1 POST a /x?y Chunked", "3 POST a /x?y Chunked", "1 \"a\"", "3 \"b\"", "1 \"c\"", "1 end", "3 end"];
    leads_to(&input.concat(), &events, &[PING]);
}

/// §8.1.1.
#[test]
fn a_body_has_the_length_of_its_head() {
    for (length, body, is_right) in [
        ("3", last_data(1, b"abc"), true),
        ("3", [data(1, b"ab"), last_data(1, b"c")].concat(), true),
        ("3", [data(1, b"abc"), last_data(1, b"")].concat(), true),
        ("3", [data(1, b"abc"), headers(1, &[("a", "b")])].concat(), true),
        ("0", last_data(1, b""), true),
        ("2", last_data(1, b"abc"), false),
        ("4", last_data(1, b"abc"), false),
        ("2", data(1, b"abc"), false),
        ("0", data(1, b"a"), false),
        ("1", last_data(1, b""), false),
        ("4", [data(1, b"abc"), headers(1, &[("a", "b")])].concat(), false),
    ] {
        let (events, sent, error) = outcome(&[post(1, &[("content-length", length)]), body].concat());
        assert_eq!(error, None);
        let has_failed = events.last().is_some_and(|event| event == "1 failed PROTOCOL_ERROR");
        assert_eq!(
            (has_failed, sent.contains(&RESET.to_owned())),
            (!is_right, !is_right),
            "{length}: {events:?}"
        );
    }
}

/// §8.1.1: the stream ends with the head.
#[test]
fn a_request_without_a_body_has_no_length() {
    let with = |length| headers(1, &[&GET[..], &[("content-length", length)]].concat());
    leads_to(&with("0"), &["1 GET a /x?y Known(0)"], &[]);
    leads_to(&with("1"), &["1 failed PROTOCOL_ERROR"], &[RESET]);
}

#[test]
fn lengths_that_differ_or_are_no_number_are_rejected() {
    for lengths in [&["1", "2"][..], &["1", "1"], &["-1"], &["+1"], &["1,1"], &["a"], &[""]] {
        let fields: Vec<_> = lengths.iter().map(|length| ("content-length", *length)).collect();
        let (events, sent, error) = outcome(&post(1, &fields));
        assert_eq!((error, &sent[..]), (None, &[][..]));
        assert_eq!(events, ["1 rejected 400 Bad Request"], "{lengths:?}");
    }
}

#[test]
fn a_body_larger_than_the_limit_is_rejected() {
    let too_large = |stream| post(stream, &[("content-length", "16777217")]);
    leads_to(&too_large(1), &["1 rejected 413 Payload Too Large"], &[]);
    let mut client = Client::with(Limits { body_bytes: 10, ..Limits::default() }, &[]);
    client.send(&post(1, &[]));
    assert_eq!(client.send(&data(1, b"0123456789")), ["1 \"0123456789\""]);
    client.sent();
    assert_eq!(client.send(&last_data(1, b"a")), ["1 rejected 413 Payload Too Large"]);
    client.connection.reject(1, Rejection::BodyTooLarge, (&date(), client.now), &mut client.out);
    let [head, body] = &client.sent()[..] else { panic!() };
    assert!(head.contains(":status: 413") && body.ends_with("end"));
    assert!(client.connection.is_idle(), "the request has ended");
    client.send(&post(3, &[]));
    client.send(&data(3, b"0123456789a"));
    client.connection.reject(3, Rejection::BodyTooLarge, (&date(), client.now), &mut client.out);
    client.sent();
    // The rest is discarded.
    assert_eq!(client.send(&data(3, b"abc")), [""; 0]);
    assert_eq!(client.send(&last_data(3, b"abc")), [""; 0]);
    assert!(client.connection.is_idle());
}
