//! Bodies and trailers of requests.

use super::*;

#[test]
fn a_body_has_the_length_of_its_head() {
    let head = post(&[("content-length", "3")]);
    let whole = [&head[..], &data(b"ab"), &data(b"c")].concat();
    lead_to(&[(0, &whole, true)], &["0 POST a /x?y Known(3)", "0 \"abc\"", "0 end"]);
    lead_to(&[(0, &whole, false), (0, b"", true)], &["0 POST a /x?y Known(3)", "0 \"abc\"", "0 end"]);
    let trailers = headers(&[("t", "1")]);
    for (body, ends) in [
        (data(b"ab"), true),
        (data(b"abcd"), false),
        ([data(b"abc"), data(b"d")].concat(), false),
        ([data(b"ab"), trailers].concat(), false),
        (Vec::new(), true),
    ] {
        let bytes = [&head[..], &body].concat();
        let (events, sent, error) = outcome(&[(0, &bytes, ends)]);
        assert_eq!(error, None);
        assert_eq!(events.last().map(String::as_str), Some("0 failed H3_MESSAGE_ERROR"), "{body:?}");
        assert_eq!(sent, [(0, StreamEnd::Reset(ErrorCode::MESSAGE_ERROR))]);
    }
}

#[test]
fn a_body_without_a_length_ends_with_its_stream() {
    lead_to(&[(0, &get(), false), (0, b"", true)], &["0 GET a /x?y Chunked", "0 end"]);
    let zero = post(&[("content-length", "0")]);
    lead_to(&[(0, &zero, false), (0, b"", true)], &["0 POST a /x?y Chunked", "0 end"]);
    let empty = [post(&[]), data(b""), data(b"")].concat();
    lead_to(&[(0, &empty, true)], &["0 POST a /x?y Chunked", "0 end"]);
}

#[test]
fn trailers_end_a_body() {
    let trailers = |fields: &[(&str, &str)]| [post(&[]), data(b"a"), headers(fields)].concat();
    let start = ["0 POST a /x?y Chunked", "0 \"a\""];
    lead_to(&[(0, &trailers(&[("t", "1")]), true)], &[start[0], start[1], "0 end {\"t\": \"1\"}"]);
    lead_to(&[(0, &trailers(&[]), false), (0, b"", true)], &[start[0], start[1], "0 end"]);
    for field in [(":path", "/"), ("content-length", "1"), ("T", "1"), ("connection", "close"), ("t", "\r")] {
        let bytes = [post(&[]), frame(kind::HEADERS, &uppercase(field))].concat();
        lead_to(&[(0, &bytes, true)], &[start[0], "0 failed H3_MESSAGE_ERROR"]);
    }
    let large = "x".repeat(20_000);
    let bytes = [post(&[]), headers(&[("t", &large)])].concat();
    lead_to(&[(0, &bytes, true)], &[start[0], "0 failed H3_EXCESSIVE_LOAD"]);
}

/// A section with a field whose name may be upper case.
fn uppercase((name, value): (&str, &str)) -> Vec<u8> {
    let length = |text: &str| u8::try_from(text.len()).unwrap();
    let name_length = match length(name) {
        short @ 0..7 => vec![0x20 | short],
        long => vec![0x27, long - 7],
    };
    [&[0, 0][..], &name_length, name.as_bytes(), &[length(value)], value.as_bytes()].concat()
}

#[test]
fn a_body_over_the_limit_is_rejected() {
    let mut client = Client::with(Limits { body_bytes: 5, ..Limits::default() });
    assert_eq!(client.send(0, &post(&[])), ["0 POST a /x?y Chunked"]);
    assert_eq!(client.send(0, &data(b"abcde")), ["0 \"abcde\""]);
    assert_eq!(client.send(0, &data(b"f")), ["0 rejected 413"]);
    let date = date();
    client.connection.reject(0, rudy_message::Rejection::BodyTooLarge, (&date, client.now), &mut client.out);
    assert!(client.sent()[0].contains(":status: 413"));
    assert_eq!(client.ends(), [(0, StreamEnd::Finish), (0, StreamEnd::Stop(ErrorCode::NO_ERROR))]);
}

/// RFC 9114 §4.1.
#[test]
fn an_early_response_stops_the_rest_of_its_request() {
    let mut client = Client::new();
    client.send(0, &post(&[("content-length", "100")]));
    client.send(0, &data(&[0; 50]));
    client.respond(0, b"no");
    assert_eq!(client.ends(), [(0, StreamEnd::Finish), (0, StreamEnd::Stop(ErrorCode::NO_ERROR))]);
    assert!(client.connection.is_idle());
    // What was in transit is ignored, whatever it is.
    assert_eq!(client.send(0, &[0xff; 100]), [""; 0]);
    assert_eq!(client.end(0, b""), [""; 0]);
    assert_eq!(client.ends(), []);
}

/// A service may respond as soon as it has the last piece of a body.
#[test]
fn a_response_to_the_last_piece_stops_nothing() {
    let mut client = Client::new();
    client.send(0, &post(&[]));
    let (mut bytes, now, limits) = (&data(b"a")[..], client.now, client.limits.clone());
    let event = client.connection.receive(0, &mut bytes, true, &mut client.buffers, now, &limits);
    assert!(matches!(event, Ok(Some(Event::Data { ends: true, .. }))), "{event:?}");
    client.respond(0, b"");
    assert_eq!(client.ends(), [(0, StreamEnd::Finish)]);
    assert_eq!(client.end(0, b""), [""; 0]);
}

/// Trailers end the request, but not its stream.
#[test]
fn a_stream_that_does_not_end_after_trailers_is_stopped() {
    for (ends, expected) in [(true, 1), (false, 2)] {
        let mut client = Client::new();
        let request = [post(&[]), headers(&[("t", "1")])].concat();
        client.try_send(0, &request, ends).unwrap();
        client.respond(0, b"");
        assert_eq!(client.ends().len(), expected);
    }
}

/// The fault is where the body exceeds its length, however the input is split. Otherwise, its frame is cut off.
#[test]
fn a_body_that_is_too_long_is_malformed_before_its_frame_is_cut_off() {
    let cut_off = &data(b"abcdef")[..7];
    let request = |length: &str| [post(&[("content-length", length)]), cut_off.to_vec()].concat();
    lead_to(&[(0, &request("3"), true)], &["0 POST a /x?y Known(3)", "0 failed H3_MESSAGE_ERROR"]);
    end_connection(&[(0, &request("5"), true)], ErrorCode::FRAME_ERROR);
}
