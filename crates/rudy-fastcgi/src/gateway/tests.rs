//! What apps send, as tables: each case in one piece, byte by byte and in every two pieces.

use bytes::BytesMut;
use proptest::prelude::*;

use super::{Event, GatewayConnection};
use crate::record::{Header, Kind, encode_end};
use crate::{Fault, Limits, ProtocolStatus, RequestId, Role};

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
    Limits { management_bytes: 64, ..Limits::default() }
}

/// A connection on which `requests` have begun, all but the last of them over, and that has asked for values if it `asks`.
fn connection(requests: usize, asks: bool) -> GatewayConnection {
    let (mut connection, mut out) = (GatewayConnection::new(), BytesMut::new());
    for round in 1..=requests {
        let id = connection.begin(Role::Responder, true, &mut out);
        if round < requests {
            let mut end = BytesMut::new();
            encode_end(id, 0, ProtocolStatus::RequestComplete, &mut end);
            let (used, event) = connection.decode(&end, &limits()).expect("the request is in progress");
            assert!(used == end.len() && matches!(event, Event::End { .. }));
        }
    }
    if asks {
        connection.query_values(&mut out);
    }
    connection
}

/// The events of `pieces` on such a connection.
fn converse<'a>(requests: usize, asks: bool, pieces: impl IntoIterator<Item = &'a [u8]>) -> String {
    let (limits, mut connection) = (limits(), connection(requests, asks));
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
                Event::Stdout(data) => tell(&mut seen, "out ", data),
                Event::Stderr(data) => tell(&mut seen, "err ", data),
                Event::StdoutEnd => seen.push("out ends".to_owned()),
                Event::StderrEnd => seen.push("err ends".to_owned()),
                Event::End { app_status, protocol_status } => {
                    assert!(connection.is_idle());
                    seen.push(format!("ends {app_status} {protocol_status:?}"));
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

/// Joins the pieces of a stream, wherever it was split.
fn tell(seen: &mut Vec<String>, what: &str, data: &[u8]) {
    assert!(!data.is_empty(), "an empty piece says nothing");
    let data = data.escape_ascii().to_string();
    match seen.last_mut() {
        Some(last) if last.starts_with(what) => last.push_str(&data),
        _ => seen.push(format!("{what}{data}")),
    }
}

/// The case's name, requests that have begun, records of the application, expected events.
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
                "out ab, out ends, err ends, ends 258 RequestComplete",
            ),
            ("an end alone", 1, vec![record(3, 1, &END)], "ends 258 RequestComplete"),
            (
                "the log goes on behind the answer",
                1,
                vec![record(STDOUT, 1, b""), record(STDERR, 1, b"late")],
                "out ends, err late",
            ),
            (
                "an end said twice",
                1,
                vec![record(STDOUT, 1, b""), record(STDOUT, 1, b""), record(STDERR, 1, b"x")],
                "out ends, err x",
            ),
            (
                "section 5.5: rejected, because it has no second request at a time",
                1,
                vec![record(3, 1, &[0, 0, 0, 0, 1, 0, 0, 0])],
                "ends 0 CannotMultiplex",
            ),
            (
                "section 5.5: rejected, because it is overloaded",
                1,
                vec![record(3, 1, &[0, 0, 0, 0, 2, 0, 0, 0])],
                "ends 0 Overloaded",
            ),
            (
                "section 5.5: rejected, because it does not have the role",
                1,
                vec![record(3, 1, &[0xff, 0xff, 0xff, 0xff, 3, 9, 9, 9])],
                "ends 4294967295 UnknownRole",
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
                "a high number",
                1,
                vec![record(3, 65_535, &END)],
                "fault: END_REQUEST came for request 65535, which is not open",
            ),
            (
                "behind its end",
                1,
                vec![record(STDOUT, 1, b""), record(STDOUT, 1, b"x")],
                "out ends, fault: STDOUT of request 1 goes on behind its end",
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
fn late_records_of_the_previous_request_are_skipped() {
    let late =
        [record(STDOUT, 1, b"late"), record(STDOUT, 1, b""), record(STDERR, 1, b"log"), record(3, 1, &END)];
    let with = |before: &[Vec<u8>], after: &[Vec<u8>]| [before, &late, after].concat();
    let (end, next_end) = ([record(3, 1, &END)], [record(STDOUT, 2, b"own"), record(3, 2, &END)]);
    check(
        false,
        &[
            ("between requests", 1, with(&end, &[]), "ends 258 RequestComplete"),
            ("before the next response", 2, with(&[], &next_end), "out own, ends 258 RequestComplete"),
            (
                "within the next response",
                2,
                with(&next_end[..1], &next_end),
                "out ownown, ends 258 RequestComplete",
            ),
            (
                "of two requests before: the id is the current one's again",
                3,
                vec![record(STDERR, 2, b"late"), record(3, 1, &END), record(STDERR, 1, b"late")],
                "ends 258 RequestComplete",
            ),
            (
                "with a content of any length",
                2,
                vec![record(3, 1, b"1"), record(3, 2, &END)],
                "ends 258 RequestComplete",
            ),
        ],
    );
}

#[test]
fn records_of_any_other_request_are_a_fault() {
    let fault = |kind: &str, id: u16| format!("fault: {kind} came for request {id}, which is not open");
    let ended = |kind: &str, id: u16| format!("ends 258 RequestComplete, {}", fault(kind, id));
    for (kind, name, content) in
        [(STDOUT, "STDOUT", &b""[..]), (STDERR, "STDERR", b"a"), (3, "END_REQUEST", &END)]
    {
        let came = |id| record(kind, id, content);
        check(
            false,
            &[
                ("before the first request", 0, vec![came(1)], &fault(name, 1)),
                ("during the first request", 1, vec![came(2)], &fault(name, 2)),
                ("after the first request", 1, vec![record(3, 1, &END), came(2)], &ended(name, 2)),
                ("during the second request", 2, vec![came(3)], &fault(name, 3)),
                ("after the second request", 2, vec![record(3, 2, &END), came(1)], &ended(name, 1)),
                ("the highest id", 2, vec![came(65_535)], &fault(name, 65_535)),
            ],
        );
    }
}

#[test]
fn ids_alternate_on_a_kept_connection() {
    let (mut connection, mut out) = (GatewayConnection::new(), BytesMut::new());
    for expected in [1, 2, 1, 2, 1] {
        assert!(connection.is_idle());
        let id = connection.begin(Role::Responder, true, &mut out);
        assert_eq!(id.get(), expected);
        assert!(!connection.is_idle());
        let end = record(3, expected, &END);
        let (used, event) = connection.decode(&end, &limits()).expect("the request is in progress");
        assert!(matches!(event, Event::End { .. }));
        // The padding.
        assert_eq!(connection.decode(&end[used..], &limits()), Ok((3, Event::More)));
    }
}

#[test]
fn a_close_is_a_fault_only_while_a_request_is_in_progress() {
    assert_eq!(connection(0, true).end_of_input(), Ok(()));
    assert_eq!(connection(2, false).end_of_input(), Err(Fault::Closed));
    let mut ended = connection(1, false);
    assert!(ended.decode(&record(3, 1, &END), &limits()).is_ok());
    assert_eq!(ended.end_of_input(), Ok(()));
}

#[test]
fn what_a_gateway_sends_is_as_section_8_has_it() {
    let begin = |role, keep| {
        let mut out = BytesMut::new();
        GatewayConnection::new().begin(role, keep, &mut out);
        out
    };
    assert_eq!(begin(Role::Filter, true)[..], *b"\x01\x01\0\x01\0\x08\0\0\0\x03\x01\0\0\0\0\0");
    assert_eq!(begin(Role::Authorizer, false)[..], *b"\x01\x01\0\x01\0\x08\0\0\0\x02\0\0\0\0\0\0");
    let mut out = BytesMut::new();
    GatewayConnection::new().query_values(&mut out);
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
