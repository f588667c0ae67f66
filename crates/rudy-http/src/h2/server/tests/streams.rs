//! The states of streams (RFC 9113 §5.1).

use super::*;

const PROTOCOL: ErrorCode = ErrorCode::PROTOCOL_ERROR;
const CLOSED: ErrorCode = ErrorCode::STREAM_CLOSED;

/// §5.1: idle.
#[test]
fn frames_for_an_idle_stream_end_the_connection() {
    for frame in [data(3, b"a"), last_data(3, b""), reset_frame(3, ErrorCode::CANCEL), window_update(3, 1)] {
        ends_connection(&frame, PROTOCOL);
        ends_connection(&[get(1), frame].concat(), PROTOCOL);
    }
}

/// §5.1: PRIORITY is allowed in every state, and changes nothing.
#[test]
fn priority_is_allowed_in_every_state() {
    leads_to(&[priority(5, 3), get(1)].concat(), &["1 GET a /x?y Known(0)"], &[]);
    let mut client = Client::new();
    client.send(&[get(1), get(3)].concat());
    client.respond(1, b"");
    client.sent();
    assert_eq!(client.send(&[priority(1, 0), priority(3, 1), priority(2, 1)].concat()), [""; 0]);
    assert_eq!(client.sent(), [""; 0]);
}

/// §5.1.1.
#[test]
fn a_client_opens_streams_with_odd_and_increasing_numbers() {
    ends_connection(&get(2), PROTOCOL);
    ends_connection(&[get(1), get(4)].concat(), PROTOCOL);
    ends_connection(&[get(5), get(4)].concat(), PROTOCOL);
    ends_connection(&[get(5), get(3)].concat(), CLOSED);
    leads_to(
        &[get(1), get(7), get(0x7fff_ffff)].concat(),
        &["1 GET a /x?y Known(0)", "7 GET a /x?y Known(0)", "2147483647 GET a /x?y Known(0)"],
        &[],
    );
}

/// §5.1: a server opens no streams, so that even ones are always idle.
#[test]
fn frames_for_a_stream_of_the_server_end_the_connection() {
    for frame in [
        data(2, b"a"),
        reset_frame(2, ErrorCode::CANCEL),
        window_update(2, 1),
        headers(2, &[("a", "b")]),
        priority(2, 2),
        priority_update(2, "u=1"),
        priority_update(0, "u=1"),
    ] {
        ends_connection(&[get(5), frame].concat(), PROTOCOL);
    }
}

/// §5.1: half-closed (remote).
#[test]
fn frames_after_the_end_of_a_request_reset_the_stream() {
    for frame in [data(1, b"a"), last_data(1, b""), headers(1, &[("a", "b")])] {
        let (events, sent, error) = outcome(&[get(1), frame].concat());
        assert_eq!(error, None);
        assert_eq!(events, ["1 GET a /x?y Known(0)", "1 failed STREAM_CLOSED"]);
        assert_eq!(sent.last().map(String::as_str), Some("1 RST_STREAM STREAM_CLOSED"));
    }
}

/// §5.1: closed, after both sides have ended the stream.
#[test]
fn data_for_a_closed_stream_is_an_error_of_the_stream() {
    let mut client = Client::new();
    client.send(&get(1));
    client.respond(1, b"hi");
    client.sent();
    assert_eq!(client.send(&data(1, b"a")), ["1 failed STREAM_CLOSED"]);
    assert_eq!(client.sent(), ["PING rudy bdp", "1 RST_STREAM STREAM_CLOSED"]);
    // The frames in transit after the reset are ignored.
    assert_eq!(client.send(&[data(1, b"a"), last_data(1, b"")].concat()), [""; 0]);
    assert_eq!(client.sent(), [""; 0]);
}

/// §5.1: closed.
#[test]
fn headers_for_a_closed_stream_end_the_connection() {
    let mut client = Client::new();
    client.send(&get(1));
    client.respond(1, b"hi");
    assert_eq!(client.error(&headers(1, &[("a", "b")])), CLOSED);
}

/// §5.1: closed. A WINDOW_UPDATE or RST_STREAM can have been in transit.
#[test]
fn window_updates_and_resets_of_a_closed_stream_are_ignored() {
    let mut client = Client::new();
    client.send(&get(1));
    client.respond(1, b"hi");
    client.sent();
    let late = [window_update(1, 5), reset_frame(1, ErrorCode::CANCEL)].concat();
    assert_eq!(client.send(&late), [""; 0]);
    assert_eq!(client.sent(), [""; 0]);
    // §6.9: an increment of 0 is an error in any case.
    assert_eq!(client.send(&window_update(1, 0)), ["1 failed PROTOCOL_ERROR"]);
}

/// §5.1 and §6.4: closed by RST_STREAM of the client.
#[test]
fn frames_after_a_reset_by_the_client_are_errors() {
    let cancelled = [post(1, &[]), reset_frame(1, ErrorCode::CANCEL)].concat();
    leads_to(&cancelled, &["1 POST a /x?y Chunked", "1 cancelled CANCEL"], &[]);
    ends_connection(&[&cancelled[..], &headers(1, &[("a", "b")])].concat(), CLOSED);
    let (events, frames, error) = outcome(&[&cancelled[..], &last_data(1, b"")].concat());
    assert_eq!((events.last().map(String::as_str), error), (Some("1 failed STREAM_CLOSED"), None));
    assert_eq!(frames, ["1 RST_STREAM STREAM_CLOSED"]);
}

/// §5.1 and §6.4: closed by RST_STREAM of this side.
#[test]
fn frames_in_transit_after_a_reset_by_the_server_are_ignored() {
    let mut client = Client::new();
    client.send(&post(1, &[]));
    client.reset(1, ErrorCode::CANCEL);
    client.sent();
    let late = [
        data(1, b"abc"),
        window_update(1, 1),
        headers(1, &[(":path", "malformed")]),
        reset_frame(1, ErrorCode::CANCEL),
        // The rest of the input is still read.
        get(3),
    ];
    assert_eq!(client.send(&late.concat()), ["3 GET a /x?y Known(0)"]);
    assert_eq!(client.sent(), ["PING rudy bdp"]);
}

/// All streams can be reset by the server while their bodies arrive.
#[test]
fn as_many_resets_are_remembered_as_there_are_concurrent_streams() {
    let mut client = Client::new();
    for number in 0..client.limits.http2.streams {
        client.send(&post(2 * number + 1, &[]));
    }
    for number in 0..client.limits.http2.streams {
        client.reset(2 * number + 1, ErrorCode::CANCEL);
    }
    client.sent();
    for number in 0..client.limits.http2.streams {
        assert_eq!(client.send(&data(2 * number + 1, &[0; 100])), [""; 0]);
    }
    assert_eq!(client.sent(), ["PING rudy bdp"]);
}

/// §5.1.2.
#[test]
fn a_stream_above_the_limit_is_refused() {
    let mut limits = Limits::default();
    limits.http2.streams = 2;
    let mut client = Client::with(limits, &[]);
    client.send(&[get(1), post(3, &[])].concat());
    assert_eq!(client.send(&post(5, &[])), ["5 failed REFUSED_STREAM"]);
    assert_eq!(client.sent(), ["5 RST_STREAM REFUSED_STREAM"]);
    assert_eq!(client.send(&[data(5, b"abc"), headers(5, &[("a", "b")])].concat()), [""; 0]);
    client.respond(1, b"");
    assert_eq!(client.send(&get(7)), ["7 GET a /x?y Known(0)"]);
    // A refused block is decoded, because it may change the table.
    let indexed = |stream| {
        frame(
            kind::HEADERS,
            flag::END_HEADERS | flag::END_STREAM,
            stream,
            &[&block(&GET)[..], b"\x40\x01a\x01b"].concat(),
        )
    };
    assert_eq!(client.send(&indexed(9)), ["9 failed REFUSED_STREAM"]);
    client.respond(7, b"");
    let from_table = [&block(&GET)[..], &[0xbe]].concat();
    let request = frame(kind::HEADERS, flag::END_HEADERS | flag::END_STREAM, 11, &from_table);
    assert_eq!(client.send(&request), ["11 GET a /x?y Known(0)"]);
}

/// RFC 7540 §5.3.1, which h2spec tests.
#[test]
fn a_stream_that_depends_on_itself_is_reset() {
    let reset = ["1 RST_STREAM PROTOCOL_ERROR"];
    leads_to(
        &[post(1, &[]), priority(1, 1)].concat(),
        &["1 POST a /x?y Chunked", "1 failed PROTOCOL_ERROR"],
        &reset,
    );
    let with_priority = |stream: u32| {
        let flags = flag::END_HEADERS | flag::END_STREAM | flag::PRIORITY;
        frame(kind::HEADERS, flags, stream, &[&stream.to_be_bytes()[..], &[0], &block(&GET)].concat())
    };
    leads_to(&with_priority(1), &["1 failed PROTOCOL_ERROR"], &reset);
    ends_connection(&with_priority(4), PROTOCOL);
    // RST_STREAM is not allowed for an idle stream (RFC 9113 §6.4).
    ends_connection(&priority(3, 3), PROTOCOL);
    // The stream is closed.
    leads_to(&[with_priority(1), priority(1, 1)].concat(), &["1 failed PROTOCOL_ERROR"], &reset);
}

/// RFC 9218 §7.1.
#[test]
fn a_priority_update_changes_an_open_stream() {
    let input = [priority_update(1, "u=5"), get(1), priority_update(1, "u=1, i"), priority_update(3, "u=2")];
    leads_to(&input.concat(), &["1 GET a /x?y Known(0)", "1 urgency 1"], &[]);
}

/// §5.4.2: the errors of a stream leave the others as they are.
#[test]
fn an_error_of_a_stream_does_not_affect_others() {
    let input = [post(1, &[]), headers(3, &[("a", "b")]), last_data(1, b"hi"), get(5)].concat();
    let (events, _, error) = outcome(&input);
    assert_eq!(error, None);
    assert_eq!(
        events,
        ["1 POST a /x?y Chunked", "3 failed PROTOCOL_ERROR", "1 \"hi\"", "1 end", "5 GET a /x?y Known(0)"]
    );
}
