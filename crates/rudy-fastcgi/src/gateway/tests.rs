//! Tables of records from an app. Each case runs in one piece, byte by byte, and split in two at every position.

use bytes::BytesMut;
use proptest::prelude::*;

use super::{Event, GatewayConnection};
use crate::record::{Header, Kind, encode_end};
use crate::{Fault, Limits, ProtocolStatus, RequestId, Role};

/// Encodes a record with three bytes of padding after any content, which our encoder never does.
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

/// Returns a connection on which `requests` have begun and all but the last have ended. Queries values if `queries`.
fn connection(requests: usize, queries: bool) -> GatewayConnection {
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
    if queries {
        connection.query_values(&mut out);
    }
    connection
}

/// Returns the events of `pieces` on such a connection.
fn decode_events<'a>(requests: usize, queries: bool, pieces: impl IntoIterator<Item = &'a [u8]>) -> String {
    let (limits, mut connection) = (limits(), connection(requests, queries));
    let (mut pending, mut seen) = (Vec::new(), Vec::<String>::new());
    'pieces: for piece in pieces {
        pending.extend_from_slice(piece);
        let mut rest = &pending[..];
        loop {
            let (used, event) = match connection.decode(rest, &limits) {
                Ok(decoded) => decoded,
                Err(fault) => {
                    seen.push(format!("fault: {fault}"));
                    let next = connection.decode(&pending, &limits);
                    assert_eq!(next, Ok((0, Event::More)), "nothing after a fault is decoded");
                    break 'pieces;
                }
            };
            rest = &rest[used..];
            match event {
                Event::Stdout(data) => record_piece(&mut seen, "out ", data),
                Event::Stderr(data) => record_piece(&mut seen, "err ", data),
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
        assert!(pending.len() <= 64 + 8, "the rest is longer than documented");
    }
    seen.join(", ")
}

/// Records a piece of a stream. Joins consecutive pieces, however they were split.
fn record_piece(seen: &mut Vec<String>, prefix: &str, data: &[u8]) {
    assert!(!data.is_empty(), "a piece is never empty");
    let data = data.escape_ascii().to_string();
    match seen.last_mut() {
        Some(last) if last.starts_with(prefix) => last.push_str(&data),
        _ => seen.push(format!("{prefix}{data}")),
    }
}

/// The name of the case, the number of requests begun, the records of the application, the expected events.
type Case<'a> = (&'a str, usize, Vec<Vec<u8>>, &'a str);

fn check(queries: bool, cases: &[Case<'_>]) {
    for (case, requests, records, expected) in cases {
        let bytes = records.concat();
        assert_eq!(decode_events(*requests, queries, [&bytes[..]]), *expected, "{case}");
        assert_eq!(decode_events(*requests, queries, bytes.chunks(1)), *expected, "{case}: byte by byte");
        for at in 0..=bytes.len() {
            let (first, second) = bytes.split_at(at);
            assert_eq!(
                decode_events(*requests, queries, [first, second]),
                *expected,
                "{case}: split at {at}"
            );
        }
    }
}

#[test]
fn streams_and_ends() {
    check(
        false,
        &[
            (
                "section 5.3: a stream of two records, and the ends of both streams",
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
                "log messages after the response",
                1,
                vec![record(STDOUT, 1, b""), record(STDERR, 1, b"late")],
                "out ends, err late",
            ),
            (
                "the end of a stream twice",
                1,
                vec![record(STDOUT, 1, b""), record(STDOUT, 1, b""), record(STDERR, 1, b"x")],
                "out ends, err x",
            ),
            (
                "section 5.5: rejected, one request per connection",
                1,
                vec![record(3, 1, &[0, 0, 0, 0, 1, 0, 0, 0])],
                "ends 0 CannotMultiplex",
            ),
            (
                "section 5.5: rejected, overloaded",
                1,
                vec![record(3, 1, &[0, 0, 0, 0, 2, 0, 0, 0])],
                "ends 0 Overloaded",
            ),
            (
                "section 5.5: rejected, unknown role",
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
                "long form of a length, invalid value, unknown name",
                0,
                vec![record(
                    10,
                    0,
                    b"\x80\0\0\x0d\x80\0\0\x02FCGI_MAX_REQS+5\x01\x01ab\x0f\x01FCGI_MPXS_CONNS0",
                )],
                "(None, None, Some(false))",
            ),
            (
                "two results for one query",
                0,
                vec![record(10, 0, b""), record(10, 0, b"")],
                "(None, None, None), fault: GET_VALUES_RESULT without GET_VALUES",
            ),
            ("truncated", 0, vec![record(10, 0, b"\x01\x05a")], "fault: a name-value pair is truncated"),
            (
                "truncated in a length",
                0,
                vec![record(10, 0, b"\x80\x00")],
                "fault: a name-value pair is truncated",
            ),
            (
                "over the limit",
                0,
                vec![record(10, 0, &[b'x'; 65])],
                "fault: GET_VALUES_RESULT record of 65 bytes is over the limit of 64",
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
                "fault: a record begins with \"H\", expected FastCGI version 1; is it another protocol?",
            ),
            (
                "never begun",
                1,
                vec![record(STDOUT, 2, b"a")],
                "fault: STDOUT record for request 2, which is not open",
            ),
            (
                "a high number",
                1,
                vec![record(3, 65_535, &END)],
                "fault: END_REQUEST record for request 65535, which is not open",
            ),
            (
                "after its end",
                1,
                vec![record(STDOUT, 1, b""), record(STDOUT, 1, b"x")],
                "out ends, fault: STDOUT record for request 1 after the end of that stream",
            ),
            (
                "no id",
                1,
                vec![record(STDOUT, 0, b"a")],
                "fault: STDOUT record with request id 0; expected the id of a request",
            ),
            (
                "an id",
                1,
                vec![record(10, 1, b"")],
                "fault: GET_VALUES_RESULT record for request 1; expected request id 0",
            ),
            ("without a query", 0, vec![record(10, 0, b"")], "fault: GET_VALUES_RESULT without GET_VALUES"),
            (
                "content too short",
                1,
                vec![record(3, 1, b"1234")],
                "fault: END_REQUEST record has 4 bytes of content, expected 8",
            ),
            (
                "empty",
                0,
                vec![record(11, 0, b"")],
                "fault: UNKNOWN_TYPE record has 0 bytes of content, expected 8",
            ),
            (
                "status",
                1,
                vec![record(3, 1, &[4; 8])],
                "fault: END_REQUEST of request 1 has protocol status 4; expected 0 to 3",
            ),
            (
                "a gateway's record",
                1,
                vec![record(5, 1, b"a")],
                "fault: unexpected STDIN record at this end of the connection",
            ),
            (
                "an unknown type",
                1,
                vec![record(12, 1, b"a")],
                "fault: unexpected type 12 record at this end of the connection",
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
                "of the request before the previous one, with the id of the current one",
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
    let fault = |kind: &str, id: u16| format!("fault: {kind} record for request {id}, which is not open");
    let ended = |kind: &str, id: u16| format!("ends 258 RequestComplete, {}", fault(kind, id));
    for (kind, name, content) in
        [(STDOUT, "STDOUT", &b""[..]), (STDERR, "STDERR", b"a"), (3, "END_REQUEST", &END)]
    {
        let received = |id| record(kind, id, content);
        check(
            false,
            &[
                ("before the first request", 0, vec![received(1)], &fault(name, 1)),
                ("during the first request", 1, vec![received(2)], &fault(name, 2)),
                ("after the first request", 1, vec![record(3, 1, &END), received(2)], &ended(name, 2)),
                ("during the second request", 2, vec![received(3)], &fault(name, 3)),
                ("after the second request", 2, vec![record(3, 2, &END), received(1)], &ended(name, 1)),
                ("the highest id", 2, vec![received(65_535)], &fault(name, 65_535)),
            ],
        );
    }
}

#[test]
fn ids_alternate_on_a_reused_connection() {
    let (mut connection, mut out) = (GatewayConnection::new(), BytesMut::new());
    for expected in [1, 2, 1, 2, 1] {
        assert!(connection.is_idle());
        let id = connection.begin(Role::Responder, true, &mut out);
        assert_eq!(id.get(), expected);
        assert!(!connection.is_idle());
        let end = record(3, expected, &END);
        let (used, event) = connection.decode(&end, &limits()).expect("the request is in progress");
        assert!(matches!(event, Event::End { .. }));
        // Skip the padding.
        assert_eq!(connection.decode(&end[used..], &limits()), Ok((3, Event::More)));
    }
}

#[test]
fn closing_is_a_fault_only_while_a_request_is_in_progress() {
    assert_eq!(connection(0, true).end_of_input(), Ok(()));
    assert_eq!(connection(2, false).end_of_input(), Err(Fault::Closed));
    let mut ended = connection(1, false);
    assert!(ended.decode(&record(3, 1, &END), &limits()).is_ok());
    assert_eq!(ended.end_of_input(), Ok(()));
}

#[test]
fn encoded_records_match_section_8() {
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

/// Random sequences of valid records and short invalid bytes.
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
    fn splits_make_no_difference(input in bytes(), requests in 0..4_usize, queries: bool, piece_bytes in 1..40_usize) {
        // The excerpt in a fault depends on how many bytes had arrived.
        let shown = |text: String| text.split("begins with").next().unwrap_or_default().to_owned();
        let whole = shown(decode_events(requests, queries, [&input[..]]));
        prop_assert_eq!(shown(decode_events(requests, queries, input.chunks(1))), whole.clone());
        prop_assert_eq!(shown(decode_events(requests, queries, input.chunks(piece_bytes))), whole);
    }
}
