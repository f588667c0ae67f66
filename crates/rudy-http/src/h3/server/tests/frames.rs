//! Frames on the streams of requests: their types, their order, and their ends.

use super::*;

/// RFC 9114 §4.1, §7.1 and §7.2.8.
#[test]
fn a_frame_in_a_wrong_place_ends_the_connection() {
    let trailers = headers(&[("a", "b")]);
    let of_control = [kind::CANCEL_PUSH, kind::SETTINGS, kind::GOAWAY, kind::MAX_PUSH_ID];
    let of_priority = [kind::PRIORITY_UPDATE, kind::PRIORITY_UPDATE_OF_PUSH];
    let of_http2 = [0x2, 0x6, 0x8, 0x9];
    for kind in [&of_control[..], &of_priority, &of_http2, &[kind::PUSH_PROMISE]].concat() {
        for before in [Vec::new(), post(&[]), [post(&[]), data(b"a")].concat()] {
            let bytes = [before, frame(kind, &[0])].concat();
            end_connection(&[(0, &bytes, false)], ErrorCode::FRAME_UNEXPECTED);
        }
    }
    for bytes in [
        data(b"a"),
        data(b""),
        [post(&[]), trailers.clone(), data(b"a")].concat(),
        [post(&[]), trailers.clone(), trailers.clone()].concat(),
        [post(&[]), data(b"a"), trailers.clone(), data(b"")].concat(),
    ] {
        end_connection(&[(0, &bytes, false)], ErrorCode::FRAME_UNEXPECTED);
    }
}

/// A proxy that passes on what was cut off can be used for request smuggling.
#[test]
fn a_request_that_is_cut_off_is_never_complete() {
    let head = post(&[("content-length", "6")]);
    let unknown = frame(0x21, b"reserved");
    let request =
        [unknown.clone(), head, data(b"abc"), unknown, data(b"def"), headers(&[("t", "1")])].concat();
    let (events, ..) = outcome(&[(0, &request, true)]);
    assert_eq!(events, ["0 POST a /x?y Known(6)", "0 \"abcdef\"", "0 end {\"t\": \"1\"}"]);
    let without_trailers = request.len() - headers(&[("t", "1")]).len();
    for length in (0..request.len()).filter(|length| *length != without_trailers) {
        let mut client = Client::new();
        let result = client.receive(0, &request[..length], true);
        client.end_body();
        let events = client.events.join(", ");
        let has_failed = events.contains("failed");
        assert!(!events.contains("end"), "{length}: {events}");
        assert!(has_failed != result.is_err(), "{length}: {events}, {result:?}");
        if let Err(error) = result {
            assert_eq!(error.code, ErrorCode::FRAME_ERROR, "{length}");
        }
    }
}

/// Without a length, only an end between frames is the end of the body.
#[test]
fn a_body_without_a_length_ends_between_frames() {
    let request = [post(&[]), data(b"abc"), data(b"def")].concat();
    let borders = [post(&[]).len(), post(&[]).len() + 5, request.len()];
    for length in 1..=request.len() {
        let outcome = outcome(&[(0, &request[..length], true)]);
        if borders.contains(&length) {
            assert_eq!(outcome.2, None);
        } else {
            assert_eq!(outcome.2, Some(ErrorCode::FRAME_ERROR), "{length}");
        }
        let is_request = outcome.0.first().is_some_and(|event| event.starts_with("0 POST"));
        assert_eq!(is_request, length >= borders[0], "{length}");
    }
}

#[test]
fn unknown_frames_are_ignored_everywhere() {
    for kind in [0x21, 0x1f * 1000 + 0x21, 0x0a, 0x0e, 0xf0702, varint::MAX] {
        for payload in [&b""[..], b"x", &[0xff; 3000]] {
            let unknown = frame(kind, payload);
            let body = [data(b"a"), unknown.clone(), data(b"b")].concat();
            let trailers = [unknown.clone(), headers(&[("t", "1")]), unknown.clone()].concat();
            let bytes = [unknown.clone(), post(&[]), unknown.clone(), body, trailers].concat();
            lead_to(&[(0, &bytes, true)], &["0 POST a /x?y Chunked", "0 \"ab\"", "0 end {\"t\": \"1\"}"]);
        }
    }
    // Its length alone ends nothing.
    let endless = [number(0x21), number(varint::MAX), vec![0; 100]].concat();
    lead_to(&[(0, &endless, false), (4, &get(), true)], &["4 GET a /x?y Known(0)"]);
    end_connection(&[(0, &endless, true)], ErrorCode::FRAME_ERROR);
}

/// RFC 9000 §16: no integer must have its shortest form.
#[test]
fn types_and_lengths_may_be_longer_than_needed() {
    let section = section(&GET);
    let length = u8::try_from(section.len()).unwrap();
    let head = [&[0x80, 0, 0, 1, 0xc0, 0, 0, 0, 0, 0, 0, length][..], &section].concat();
    lead_to(&[(0, &head, true)], &["0 GET a /x?y Known(0)"]);
}

/// RFC 9000 §3.2: packets can arrive in any order.
#[test]
fn streams_arrive_in_any_order() {
    let events = ["8 GET a /x?y Known(0)", "0 GET a /x?y Known(0)", "4 GET a /x?y Known(0)"];
    lead_to(&[(8, &get(), true), (0, &get(), true), (4, &get(), true)], &events);
}

#[test]
fn streams_of_the_server_are_errors() {
    for stream in [1, 3, 5] {
        assert_eq!(Client::new().error(stream, b"a"), ErrorCode::STREAM_CREATION_ERROR);
    }
}

#[test]
fn a_stream_without_a_request_is_reset() {
    let unknown = frame(0x21, b"x");
    for bytes in [&b""[..], &unknown] {
        let (events, ends, error) = outcome(&[(0, bytes, true)]);
        assert_eq!((events, error), (vec!["0 failed H3_REQUEST_INCOMPLETE".to_owned()], None));
        assert_eq!(ends, [(0, StreamEnd::Reset(ErrorCode::REQUEST_INCOMPLETE))]);
    }
}
