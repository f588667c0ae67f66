//! What apps send, as tables: each case in one piece, byte by byte and in every two pieces.

use bytes::BytesMut;
use proptest::prelude::*;

use super::{Event, GatewayConnection};
use crate::record::{Header, Kind, encode_end, encode_stream, encode_stream_end};
use crate::{Fault, Limits, ProtocolStatus, RequestId, Role};

fn id(number: u16) -> RequestId {
    RequestId::new(number).expect("not zero")
}

/// A record byte by byte, with three bytes of padding where it has content, which no encoder of ours writes.
fn record(kind: u8, number: u16, content: &[u8]) -> Vec<u8> {
    let content_bytes = u16::try_from(content.len()).expect("a short content");
    let padding_bytes = if content.is_empty() { 0 } else { 3 };
    let header =
        Header { kind: Kind::from_number(kind), id: RequestId::new(number), content_bytes, padding_bytes };
    let mut bytes = header.encode().to_vec();
    bytes.extend_from_slice(content);
    bytes.extend(std::iter::repeat_n(0xff, padding_bytes.into()));
    bytes
}

const STDOUT: u8 = 6;
const STDERR: u8 = 7;
const END: [u8; 8] = [0, 0, 1, 2, 0, 0, 0, 0];

fn limits() -> Limits {
    Limits { management_bytes: 64, open_requests: 3, ..Limits::default() }
}

/// What a gateway sees that has so many requests open, and has asked for values where it `asks`.
fn converse<'a>(requests: usize, asks: bool, pieces: impl IntoIterator<Item = &'a [u8]>) -> String {
    let (limits, mut out) = (limits(), BytesMut::new());
    let mut connection = GatewayConnection::new();
    for _ in 0..requests {
        connection.begin(Role::Responder, true, &limits, &mut out).expect("so many are allowed");
    }
    if asks {
        connection.ask_values(&mut out);
    }
    let (mut pending, mut seen) = (Vec::new(), Vec::<String>::new());
    'pieces: for piece in pieces {
        pending.extend_from_slice(piece);
        let mut rest = &pending[..];
        loop {
            let (used, event) = match connection.decode(rest, &limits) {
                Ok(decoded) => decoded,
                Err(fault) => {
                    seen.push(format!("fault: {fault}"));
                    let behind = connection.decode(&pending, &limits);
                    assert_eq!(behind, Ok((0, Event::More)), "nothing is read behind a fault");
                    break 'pieces;
                }
            };
            rest = &rest[used..];
            match event {
                Event::Stdout { id, data } => tell(&mut seen, &format!("{id} out "), data),
                Event::Stderr { id, data } => tell(&mut seen, &format!("{id} err "), data),
                Event::StdoutEnd { id } => seen.push(format!("{id} out ends")),
                Event::StderrEnd { id } => seen.push(format!("{id} err ends")),
                Event::End { id, app_status, protocol_status } => {
                    assert!(!connection.is_open(id));
                    seen.push(format!("{id} ends {app_status} {protocol_status:?}"));
                }
                Event::Values(values) => {
                    let values = (values.max_connections, values.max_requests, values.multiplexes);
                    seen.push(format!("{values:?}"));
                }
                Event::UnknownType(number) => seen.push(format!("unknown {number}")),
                Event::More => break,
            }
        }
        pending = rest.to_vec();
        assert!(pending.len() <= 64 + 8, "it leaves more than it may");
    }
    seen.join(", ")
}

/// Pieces of a stream belong together, however they came.
fn tell(seen: &mut Vec<String>, what: &str, data: &[u8]) {
    assert!(!data.is_empty(), "an empty piece says nothing");
    let data = data.escape_ascii().to_string();
    match seen.last_mut() {
        Some(last) if last.starts_with(what) => last.push_str(&data),
        _ => seen.push(format!("{what}{data}")),
    }
}

/// What it is, how many requests are open, what the app sends, what is seen.
type Case<'a> = (&'a str, usize, Vec<Vec<u8>>, &'a str);

fn check(asks: bool, cases: &[Case<'_>]) {
    for (what, requests, records, expected) in cases {
        let bytes = records.concat();
        assert_eq!(converse(*requests, asks, [&bytes[..]]), *expected, "{what}");
        assert_eq!(converse(*requests, asks, bytes.chunks(1)), *expected, "{what}: byte by byte");
        for at in 0..=bytes.len() {
            let (first, second) = bytes.split_at(at);
            assert_eq!(converse(*requests, asks, [first, second]), *expected, "{what}: split at {at}");
        }
    }
}

#[test]
fn streams_and_ends() {
    check(
        false,
        &[
            (
                "section 5.3: a stream of two records, both ends said",
                1,
                vec![
                    record(STDOUT, 1, b"a"),
                    record(STDOUT, 1, b"b"),
                    record(STDOUT, 1, b""),
                    record(STDERR, 1, b""),
                    record(3, 1, &END),
                ],
                "1 out ab, 1 out ends, 1 err ends, 1 ends 258 RequestComplete",
            ),
            ("an end alone", 1, vec![record(3, 1, &END)], "1 ends 258 RequestComplete"),
            (
                "the log goes on behind the answer",
                1,
                vec![record(STDOUT, 1, b""), record(STDERR, 1, b"late")],
                "1 out ends, 1 err late",
            ),
            (
                "an end said twice",
                1,
                vec![record(STDOUT, 1, b""), record(STDOUT, 1, b""), record(STDERR, 1, b"x")],
                "1 out ends, 1 err x",
            ),
            (
                "section 3.3: several requests, interleaved",
                2,
                vec![
                    record(STDOUT, 2, b"two"),
                    record(STDOUT, 1, b"one"),
                    record(3, 1, &END),
                    record(STDOUT, 2, b"2"),
                ],
                "2 out two, 1 out one, 1 ends 258 RequestComplete, 2 out 2",
            ),
            (
                "section 5.5: each way to be refused",
                3,
                vec![
                    record(3, 1, &[0, 0, 0, 0, 1, 0, 0, 0]),
                    record(3, 2, &[0, 0, 0, 0, 2, 0, 0, 0]),
                    record(3, 3, &[0xff, 0xff, 0xff, 0xff, 3, 9, 9, 9]),
                ],
                "1 ends 0 CannotMultiplex, 2 ends 0 Overloaded, 3 ends 4294967295 UnknownRole",
            ),
            ("section 4.2", 0, vec![record(11, 0, &[9, 0, 0, 0, 0, 0, 0, 0])], "unknown 9"),
        ],
    );
}

#[test]
fn values() {
    let names = b"\x0e\x01FCGI_MAX_CONNS9\x0d\x02FCGI_MAX_REQS50\x0f\x01FCGI_MPXS_CONNS1";
    check(
        true,
        &[
            ("all three", 0, vec![record(10, 0, names)], "(Some(9), Some(50), Some(true))"),
            ("none", 0, vec![record(10, 0, b"")], "(None, None, None)"),
            (
                "in the long form, not understood, unknown",
                0,
                vec![record(
                    10,
                    0,
                    b"\x80\0\0\x0d\x80\0\0\x02FCGI_MAX_REQS+5\x01\x01ab\x0f\x01FCGI_MPXS_CONNS0",
                )],
                "(None, None, Some(false))",
            ),
            (
                "an answer twice to one question",
                0,
                vec![record(10, 0, b""), record(10, 0, b"")],
                "(None, None, None), fault: GET_VALUES_RESULT came, and nobody has asked for values",
            ),
            ("cut", 0, vec![record(10, 0, b"\x01\x05a")], "fault: names and values end in the middle of one"),
            (
                "cut in a length",
                0,
                vec![record(10, 0, b"\x80\x00")],
                "fault: names and values end in the middle of one",
            ),
            (
                "too many",
                0,
                vec![record(10, 0, &[b'x'; 65])],
                "fault: GET_VALUES_RESULT has 65 bytes, more than the limit of 64",
            ),
        ],
    );
}

#[test]
fn faults() {
    check(
        false,
        &[
            (
                "another protocol",
                1,
                vec![b"H".to_vec()],
                "fault: a record begins with \"H\", not with version 1 of FastCGI: is it another protocol?",
            ),
            (
                "never begun",
                1,
                vec![record(STDOUT, 2, b"a")],
                "fault: STDOUT came for request 2, which is not open",
            ),
            (
                "over already",
                1,
                vec![record(3, 1, &END), record(STDERR, 1, b"")],
                "1 ends 258 RequestComplete, fault: STDERR came for request 1, which is not open",
            ),
            (
                "a high number",
                1,
                vec![record(3, 65_535, &END)],
                "fault: END_REQUEST came for request 65535, which is not open",
            ),
            (
                "behind its end",
                1,
                vec![record(STDOUT, 1, b""), record(STDOUT, 1, b"x")],
                "1 out ends, fault: STDOUT of request 1 goes on behind its end",
            ),
            (
                "no number",
                1,
                vec![record(STDOUT, 0, b"a")],
                "fault: STDOUT is about a request, and came without its number",
            ),
            (
                "a number",
                1,
                vec![record(10, 1, b"")],
                "fault: GET_VALUES_RESULT is about the connection, and came for request 1",
            ),
            (
                "unasked",
                0,
                vec![record(10, 0, b"")],
                "fault: GET_VALUES_RESULT came, and nobody has asked for values",
            ),
            (
                "short",
                1,
                vec![record(3, 1, b"1234")],
                "fault: END_REQUEST has 4 bytes of content, and has to have 8",
            ),
            (
                "empty",
                0,
                vec![record(11, 0, b"")],
                "fault: UNKNOWN_TYPE has 0 bytes of content, and has to have 8",
            ),
            (
                "status",
                1,
                vec![record(3, 1, &[4; 8])],
                "fault: request 1 ends with protocol status 4; 0 to 3 are known",
            ),
            (
                "a gateway's record",
                1,
                vec![record(5, 1, b"a")],
                "fault: STDIN came, which is not for this end of a connection",
            ),
            (
                "no record",
                1,
                vec![record(12, 1, b"a")],
                "fault: type 12 came, which is not for this end of a connection",
            ),
        ],
    );
}

#[test]
fn the_lowest_free_number_is_handed_out_and_no_more_than_the_limit() {
    let (limits, mut out) = (limits(), BytesMut::new());
    let mut connection = GatewayConnection::new();
    let mut begin = |connection: &mut GatewayConnection| {
        connection.begin(Role::Responder, true, &limits, &mut out).map(RequestId::get)
    };
    assert_eq!([(); 4].map(|()| begin(&mut connection)), [Some(1), Some(2), Some(3), None]);
    for free in [2, 1, 3] {
        let end = record(3, free, &END);
        let (used, event) = connection.decode(&end, &limits).expect("it is open");
        assert!(matches!(event, Event::End { id, .. } if id.get() == free));
        // The padding.
        assert_eq!(connection.decode(&end[used..], &limits), Ok((3, Event::More)));
        assert_eq!(connection.open_requests(), 2);
        assert_eq!(begin(&mut connection), Some(free));
    }
    assert_eq!(connection.end_of_input(), Err(Fault::Closed { open: 3 }));
}

#[test]
fn as_many_requests_may_be_open_as_there_are_numbers() {
    let (limits, mut out) = (Limits { open_requests: u16::MAX, ..limits() }, BytesMut::new());
    let mut connection = GatewayConnection::new();
    for number in 1..=u16::MAX {
        let begun = connection.begin(Role::Responder, true, &limits, &mut out);
        assert_eq!(begun, Some(id(number)));
    }
    assert_eq!(connection.begin(Role::Responder, true, &limits, &mut out), None);
}

#[test]
fn what_a_gateway_sends_is_as_section_8_has_it() {
    let (limits, mut out) = (limits(), BytesMut::new());
    let mut connection = GatewayConnection::new();
    connection.begin(Role::Filter, true, &limits, &mut out).expect("nothing is open");
    connection.begin(Role::Authorizer, false, &limits, &mut out).expect("one is open");
    connection.abort(id(2), &mut out);
    let begin_keep = b"\x01\x01\0\x01\0\x08\0\0\0\x03\x01\0\0\0\0\0";
    let begin = b"\x01\x01\0\x02\0\x08\0\0\0\x02\0\0\0\0\0\0";
    assert_eq!(out, [&begin_keep[..], begin, b"\x01\x02\0\x02\0\0\0\0"].concat());
    out.clear();
    connection.ask_values(&mut out);
    let names = b"\x0e\0FCGI_MAX_CONNS\x0d\0FCGI_MAX_REQS\x0f\0FCGI_MPXS_CONNS";
    assert_eq!(out, [&b"\x01\x09\0\0\0\x30\0\0"[..], names].concat());
}

/// Records that are right in a lucky order, and a few bytes that are not.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let kind = prop_oneof![8 => 6..8_u8, 2 => Just(3), 1 => 0..13_u8];
    let word = prop_oneof![
        12 => (kind, 0..4_u16, proptest::collection::vec(any::<u8>(), 0..20)).prop_map(|(kind, number, content)| {
            let content = if kind == 3 { END.to_vec() } else { content };
            record(kind, number, &content)
        }),
        1 => proptest::collection::vec(any::<u8>(), 0..20),
    ];
    proptest::collection::vec(word, 0..10).prop_map(|words| words.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn splits_make_no_difference(input in bytes(), requests in 0..4_usize, asks: bool, piece_bytes in 1..40_usize) {
        // What a fault shows of other bytes is what there was of them.
        let shown = |text: String| text.split("begins with").next().unwrap_or_default().to_owned();
        let whole = shown(converse(requests, asks, [&input[..]]));
        prop_assert_eq!(shown(converse(requests, asks, input.chunks(1))), whole.clone());
        prop_assert_eq!(shown(converse(requests, asks, input.chunks(piece_bytes))), whole);
    }
}

#[test]
fn what_an_app_says_of_a_request_that_it_has_given_up_is_nobodys() {
    let limits = Limits::default();
    let mut connection = GatewayConnection::new();
    let mut out = BytesMut::new();
    let given_up = connection.begin(Role::Responder, true, &limits, &mut out).unwrap();
    connection.abort(given_up, &mut out);
    // Go ends it at once, and its handler goes on: what it says, and a second end.
    let mut answer = BytesMut::new();
    encode_end(given_up, 0, ProtocolStatus::RequestComplete, &mut answer);
    let (used, event) = connection.decode(&answer, &limits).unwrap();
    assert!(matches!(event, Event::End { .. }));
    assert_eq!((used, connection.open_requests()), (answer.len(), 0));
    let next = connection.begin(Role::Responder, true, &limits, &mut out).unwrap();
    assert_ne!(next, given_up);
    answer.clear();
    encode_stream(Kind::Stdout, given_up, b"of another", &mut answer);
    encode_stream_end(Kind::Stdout, given_up, &mut answer);
    encode_end(given_up, 0, ProtocolStatus::RequestComplete, &mut answer);
    let whole = answer.len();
    encode_stream(Kind::Stdout, next, b"its own", &mut answer);
    let (used, event) = connection.decode(&answer, &limits).unwrap();
    assert_eq!(event, Event::Stdout { id: next, data: b"its own" });
    assert!(used > whole);
}

#[test]
fn a_connection_runs_out_of_numbers_that_are_not_used_again() {
    let limits = Limits::default();
    let mut connection = GatewayConnection::new();
    let mut answer = BytesMut::new();
    for _ in 0..1000 {
        let id = connection.begin(Role::Responder, true, &limits, &mut BytesMut::new()).unwrap();
        connection.abort(id, &mut BytesMut::new());
        answer.clear();
        encode_end(id, 0, ProtocolStatus::RequestComplete, &mut answer);
        connection.decode(&answer, &limits).unwrap();
    }
    assert!(!connection.has_room(&limits));
    assert_eq!(connection.begin(Role::Responder, true, &limits, &mut BytesMut::new()), None);
}
