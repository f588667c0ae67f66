//! Tables of records from a web server. Each case runs in one piece, byte by byte, and split in two at every position.

use bytes::BytesMut;
use proptest::prelude::*;

use super::{ApplicationConnection, Event};
use crate::record::{Header, Kind, encode_end, encode_unknown_type};
use crate::values::Values;
use crate::{Fault, Limits, ProtocolStatus, RequestId};

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

fn begin(number: u16, role: u8, flags: u8) -> Vec<u8> {
    record(BEGIN, number, &[0, role, flags, 9, 9, 9, 9, 9])
}

/// The records of a responder request up to the end of its parameters.
fn begun(number: u16) -> Vec<u8> {
    [begin(number, 1, 1), record(PARAMS, number, b"")].concat()
}

const BEGIN: u8 = 1;
const ABORT: u8 = 2;
const PARAMS: u8 = 4;
const STDIN: u8 = 5;
const DATA: u8 = 8;
const GET_VALUES: u8 = 9;

fn limits() -> Limits {
    Limits { params_bytes: 200, params_count: 3, management_bytes: 64, open_requests: 2, ..Limits::default() }
}

/// Returns the events of an app that ends each request when its body ends.
fn decode_events<'a>(pieces: impl IntoIterator<Item = &'a [u8]>, limits: &Limits) -> String {
    let mut connection = ApplicationConnection::new();
    let (mut pending, mut seen, mut out) = (Vec::new(), Vec::<String>::new(), BytesMut::new());
    'pieces: for piece in pieces {
        pending.extend_from_slice(piece);
        let mut rest = &pending[..];
        loop {
            let (used, event) = match connection.decode(rest, limits) {
                Ok(decoded) => decoded,
                Err(fault) => {
                    seen.push(format!("fault: {fault}"));
                    let next = connection.decode(&pending, limits);
                    assert_eq!(next, Ok((0, Event::More)), "nothing after a fault is decoded");
                    break 'pieces;
                }
            };
            rest = &rest[used..];
            match event {
                Event::Begin { id, role, keep_connection } => {
                    seen.push(format!("{id} {role:?} {}", if keep_connection { "keep" } else { "close" }));
                }
                Event::Rejected { id, status, .. } => seen.push(format!("{id} {status:?}")),
                Event::Params { id, params } => seen.push(format!("{id} {params:?}")),
                Event::Stdin { id, data } => record_piece(&mut seen, &format!("{id} in "), data),
                Event::StdinEnd { id } => {
                    seen.push(format!("{id} in ends"));
                    connection.end(id, 0, ProtocolStatus::RequestComplete, &mut out);
                }
                Event::Data { id, data } => record_piece(&mut seen, &format!("{id} data "), data),
                Event::DataEnd { id } => seen.push(format!("{id} data ends")),
                Event::Abort { id } => seen.push(format!("{id} abort")),
                Event::GetValues(pairs) => seen.push(format!("{pairs:?}")),
                Event::UnknownType(number) => seen.push(format!("unknown {number}")),
                Event::More => break,
            }
        }
        pending = rest.to_vec();
        assert!(pending.len() <= 64 + 8, "the rest is longer than documented");
        assert!(connection.open_requests() <= 2);
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

fn check(cases: &[(&str, Vec<Vec<u8>>, &str)]) {
    let limits = limits();
    for (case, records, expected) in cases {
        let bytes = records.concat();
        assert_eq!(decode_events([&bytes[..]], &limits), *expected, "{case}");
        assert_eq!(decode_events(bytes.chunks(1), &limits), *expected, "{case}: byte by byte");
        for at in 0..=bytes.len() {
            let (first, second) = bytes.split_at(at);
            assert_eq!(decode_events([first, second], &limits), *expected, "{case}: split at {at}");
        }
    }
}

#[test]
fn requests_of_each_role() {
    check(&[
        (
            "section 6.2",
            vec![
                begin(1, 1, 1),
                record(PARAMS, 1, b"\x01\x01av\x01"),
                record(PARAMS, 1, b"\x02bw"),
                record(PARAMS, 1, b"w"),
                record(PARAMS, 1, b""),
                record(STDIN, 1, b"bo"),
                record(STDIN, 1, b"dy"),
                record(STDIN, 1, b""),
            ],
            r#"1 Responder keep, 1 {"a": "v", "b": "ww"}, 1 in body, 1 in ends"#,
        ),
        (
            "section 6.3, with unknown flags",
            vec![begin(7, 2, 0xfe), record(PARAMS, 7, b"\x80\0\0\x01\0a"), record(PARAMS, 7, b"")],
            r#"7 Authorizer close, 7 {"a": ""}"#,
        ),
        (
            "section 6.4",
            vec![
                begin(1, 3, 1),
                record(PARAMS, 1, b""),
                record(DATA, 1, b"file"),
                record(DATA, 1, b""),
                record(DATA, 1, b""),
                record(STDIN, 1, b""),
            ],
            "1 Filter keep, 1 {}, 1 data file, 1 data ends, 1 in ends",
        ),
        (
            "section 3.3: several requests, interleaved",
            vec![
                begin(1, 1, 1),
                begin(2, 1, 1),
                record(PARAMS, 2, b"\x01\x01"),
                record(PARAMS, 1, b"\x01\0x"),
                record(PARAMS, 2, b"ab"),
                record(PARAMS, 2, b""),
                record(STDIN, 2, b"2"),
                record(PARAMS, 1, b""),
            ],
            r#"1 Responder keep, 2 Responder keep, 2 {"a": "b"}, 2 in 2, 1 {"x": ""}"#,
        ),
    ]);
}

#[test]
fn ended_and_rejected_requests() {
    check(&[
        (
            "section 3.3: late records of an ended request are skipped, and its id can be reused",
            vec![
                begun(1),
                record(STDIN, 1, b""),
                record(STDIN, 1, b"late"),
                record(DATA, 1, b"late"),
                record(ABORT, 1, b""),
                begun(1),
            ],
            "1 Responder keep, 1 {}, 1 in ends, 1 Responder keep, 1 {}",
        ),
        ("section 5.4", vec![begun(1), record(ABORT, 1, b"")], "1 Responder keep, 1 {}, 1 abort"),
        (
            "section 5.5: an unknown role, whose records are skipped",
            vec![begin(1, 4, 1), record(PARAMS, 1, b"\x01\x01ab"), record(STDIN, 1, b"x")],
            "1 UnknownRole",
        ),
        (
            "section 5.5: over the limit",
            vec![begin(1, 1, 1), begin(2, 1, 1), begin(3, 1, 1)],
            "1 Responder keep, 2 Responder keep, 3 Overloaded",
        ),
    ]);
    let one = Limits { open_requests: 1, ..limits() };
    let bytes = [begin(1, 1, 1), begin(9, 1, 1)].concat();
    assert_eq!(decode_events([&bytes[..]], &one), "1 Responder keep, 9 CannotMultiplex");
}

#[test]
fn management_records() {
    check(&[
        (
            "section 4.1",
            vec![record(GET_VALUES, 0, b"\x0d\0FCGI_MAX_REQS\x01\0x")],
            r#"{"FCGI_MAX_REQS": "", "x": ""}"#,
        ),
        (
            "section 4.2: with any content",
            vec![record(12, 0, &[7; 100]), record(255, 0, b""), begin(1, 1, 1)],
            "unknown 12, unknown 255, 1 Responder keep",
        ),
    ]);
}

#[test]
fn faults() {
    check(&[
        (
            "another protocol",
            vec![b"G".to_vec()],
            "fault: a record begins with \"G\", expected FastCGI version 1; is it another protocol?",
        ),
        (
            "an id twice",
            vec![begin(1, 1, 1), begin(1, 1, 1)],
            "1 Responder keep, fault: BEGIN_REQUEST for request 1, which is still open",
        ),
        (
            "content too short",
            vec![record(BEGIN, 1, b"12")],
            "fault: BEGIN_REQUEST record has 2 bytes of content, expected 8",
        ),
        (
            "content too long",
            vec![record(ABORT, 1, b"1")],
            "fault: ABORT_REQUEST record has 1 bytes of content, expected 0",
        ),
        (
            "no id",
            vec![record(PARAMS, 0, b"")],
            "fault: PARAMS record with request id 0; expected the id of a request",
        ),
        (
            "an id",
            vec![record(GET_VALUES, 1, b"")],
            "fault: GET_VALUES record for request 1; expected request id 0",
        ),
        (
            "a body too early",
            vec![begin(1, 1, 1), record(STDIN, 1, b"x")],
            "1 Responder keep, fault: STDIN record for request 1 before the end of its PARAMS",
        ),
        (
            "section 6.4: no filter",
            vec![begun(1), record(DATA, 1, b"x")],
            "1 Responder keep, 1 {}, fault: DATA record for request 1, whose role is not filter",
        ),
        (
            "after its end",
            vec![begun(1), record(PARAMS, 1, b""), record(PARAMS, 1, b"x")],
            "1 Responder keep, 1 {}, fault: PARAMS record for request 1 after the end of that stream",
        ),
        (
            "truncated",
            vec![begin(1, 1, 1), record(PARAMS, 1, b"\x01\x01a"), record(PARAMS, 1, b"")],
            "1 Responder keep, fault: a name-value pair is truncated",
        ),
        (
            "one name too long according to its length",
            vec![begin(1, 1, 1), record(PARAMS, 1, b"\xff\xff\xff\xff\xff\xff\xff\xff")],
            "1 Responder keep, fault: the parameters are larger than the limit of 200 bytes",
        ),
        (
            "too long in total",
            vec![
                begin(1, 1, 1),
                record(PARAMS, 1, &[&b"\x01\x7fa"[..], &[b'v'; 127]].concat()),
                record(PARAMS, 1, &[90; 90]),
            ],
            "1 Responder keep, fault: the parameters are larger than the limit of 200 bytes",
        ),
        (
            "too many pairs",
            vec![begin(1, 1, 1), record(PARAMS, 1, &[0; 6]), record(PARAMS, 1, &[0; 2])],
            "1 Responder keep, fault: more parameters than the limit of 3",
        ),
        (
            "too many pairs before too many bytes",
            vec![begin(1, 1, 1), record(PARAMS, 1, &[0; 250])],
            "1 Responder keep, fault: more parameters than the limit of 3",
        ),
        (
            "a query over the limit",
            vec![record(GET_VALUES, 0, &[0; 65])],
            "fault: GET_VALUES record of 65 bytes is over the limit of 64",
        ),
        (
            "an app's record",
            vec![record(6, 1, b"a")],
            "fault: unexpected STDOUT record at this end of the connection",
        ),
        (
            "an unknown type",
            vec![record(12, 1, b"a")],
            "fault: unexpected type 12 record at this end of the connection",
        ),
    ]);
}

#[test]
fn the_end_of_input_is_a_fault_while_a_request_is_open() {
    let mut connection = ApplicationConnection::new();
    assert_eq!(connection.end_of_input(), Ok(()));
    let mut connection = ApplicationConnection::new();
    connection.decode(&begin(5, 1, 1), &limits()).expect("the record is valid");
    assert_eq!(connection.end_of_input(), Err(Fault::Closed));
}

#[test]
fn encoded_records_match_section_8() {
    let mut out = BytesMut::new();
    encode_end(RequestId::MIN, 258, ProtocolStatus::Overloaded, &mut out);
    encode_unknown_type(77, &mut out);
    assert_eq!(
        out,
        [&b"\x01\x03\0\x01\0\x08\0\0\0\0\x01\x02\x02\0\0\0"[..], b"\x01\x0b\0\0\0\x08\0\0\x4d\0\0\0\0\0\0\0"]
            .concat()
    );
    out.clear();
    let mut connection = ApplicationConnection::new();
    let query = record(
        GET_VALUES,
        0,
        b"\x0f\0FCGI_MPXS_CONNS\x0d\0FCGI_MAX_REQS\x0d\0FCGI_MAX_REQS\x0e\0FCGI_MAX_CONNS",
    );
    let Ok((_, Event::GetValues(query))) = connection.decode(&query, &Limits::default()) else { panic!() };
    let values = Values { max_requests: Some(10), multiplexes: Some(true), ..Values::default() };
    values.encode_result(&query, &mut out);
    let content = b"\x0d\x02FCGI_MAX_REQS10\x0f\x01FCGI_MPXS_CONNS1";
    assert_eq!(out, [&b"\x01\x0a\0\0\0\x23\x05\0"[..], content, &[0; 5]].concat());
}

/// Random sequences of valid records and short invalid bytes.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let stream = (
        prop_oneof![Just(PARAMS), Just(STDIN), Just(DATA)],
        0..4_u16,
        proptest::collection::vec(0..4_u8, 0..20),
    )
        .prop_map(|(kind, number, content)| record(kind, number, &content));
    let word = prop_oneof![
        4 => (1..4_u16).prop_map(begun),
        4 => (1..4_u16, 0..5_u8).prop_map(|(number, role)| begin(number, role, 1)),
        8 => stream,
        1 => (0..13_u8, 0..4_u16).prop_map(|(kind, number)| record(kind, number, b"")),
        1 => proptest::collection::vec(any::<u8>(), 0..20),
    ];
    proptest::collection::vec(word, 0..12).prop_map(|words| words.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn splits_make_no_difference(input in bytes(), piece_bytes in 1..40_usize) {
        // The excerpt in a fault depends on how many bytes had arrived.
        let shown = |text: String| text.split("begins with").next().unwrap_or_default().to_owned();
        let whole = shown(decode_events([&input[..]], &limits()));
        prop_assert_eq!(shown(decode_events(input.chunks(1), &limits())), whole.clone());
        prop_assert_eq!(shown(decode_events(input.chunks(piece_bytes), &limits())), whole);
    }
}
