//! Tables of responses and their events. Each case is decoded whole, split in two at every position, and byte by byte.

use rudy_message::client::RequestInfo;

use super::{ClientConnection, Fault, InputEnd, ResponseEvent};
use crate::Limits;

const GET: RequestInfo =
    RequestInfo { is_head: false, is_connect: false, offers_upgrade: false, is_last: false };
const HEAD: RequestInfo = RequestInfo { is_head: true, ..GET };
const CONNECT: RequestInfo = RequestInfo { is_connect: true, ..GET };
const UPGRADE: RequestInfo = RequestInfo { offers_upgrade: true, ..GET };
const LAST: RequestInfo = RequestInfo { is_last: true, ..GET };

/// Limits that short inputs reach.
pub(super) fn small_limits() -> Limits {
    Limits {
        head_bytes: 128,
        head_fields: 3,
        body_bytes: 64,
        chunk_extension_bytes: 8,
        ..Limits::for_responses()
    }
}

/// Decodes the response to one request, received in `pieces`, and returns its events. If `closes`, the server then closes the
/// connection.
pub(super) fn decode_events<'a>(
    request: RequestInfo,
    pieces: impl IntoIterator<Item = &'a [u8]>,
    closes: bool,
    limits: &Limits,
) -> String {
    let mut connection = ClientConnection::new();
    connection.expect_response(request);
    let (mut pending, mut events, mut body) = (Vec::new(), Vec::new(), Vec::new());
    'pieces: for piece in pieces {
        pending.extend_from_slice(piece);
        let mut rest = &pending[..];
        loop {
            let (used, event) = match connection.decode(rest, limits) {
                Ok(decoded) => decoded,
                Err(fault) => {
                    events.push(name(&fault));
                    break 'pieces;
                }
            };
            rest = &rest[used..];
            match event {
                ResponseEvent::Informational(head) => events.push(format!("{}", head.status())),
                ResponseEvent::Head(head) => events.push(format!("{} {:?}", head.status(), head.framing())),
                ResponseEvent::Data(data) => {
                    assert!(!data.is_empty(), "a piece is not empty");
                    body.extend_from_slice(data);
                }
                ResponseEvent::End(trailers) => {
                    events.push(format!("{:?}", body.escape_ascii().to_string()));
                    events.extend(trailers.map(|fields| format!("{} trailers", fields.len())));
                    body.clear();
                }
                ResponseEvent::NeedData => break,
            }
        }
        pending = rest.to_vec();
    }
    if closes {
        events.push(match connection.end_of_input() {
            Ok(end) => format!("{end:?} {:?}", body.escape_ascii().to_string()),
            Err(fault) => format!("{fault:?}"),
        });
    } else {
        events.extend(connection.has_switched().then(|| format!("switched, {} unread", pending.len())));
        events.extend(connection.can_be_reused().then(|| "reusable".to_owned()));
    }
    events.join(", ")
}

/// Returns the name of a fault. Its excerpt is omitted, because it depends on how the input was split.
fn name(fault: &Fault) -> String {
    let text = format!("{fault:?}");
    text.split('(').next().unwrap_or_default().to_owned()
}

/// A test case: the rule, the request, the input, and the expected events.
type Case<'a> = (&'a str, RequestInfo, &'a str, &'a str);

fn check(cases: &[Case<'_>], closes: bool) {
    for (rule, request, input, expected) in cases {
        let bytes = input.as_bytes();
        let limits = small_limits();
        assert_eq!(decode_events(*request, [bytes], closes, &limits), *expected, "{rule}: {input:?}");
        assert_eq!(
            decode_events(*request, bytes.chunks(1), closes, &limits),
            *expected,
            "{rule}: {input:?} byte by byte"
        );
        for at in 0..=bytes.len() {
            let (first, second) = bytes.split_at(at);
            let split = decode_events(*request, [first, second], closes, &limits);
            assert_eq!(split, *expected, "{rule}: {input:?} split at {at}");
        }
    }
}

#[test]
fn the_body_length_follows_rfc_9112_6_3() {
    check(
        &[
            (
                "§6.3: 6",
                GET,
                "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi",
                "200 Length(2), \"hi\", reusable",
            ),
            ("§6.3: 6", GET, "HTTP/1.1 200 OK\r\ncontent-LENGTH:0\r\n\r\n", "200 Length(0), \"\", reusable"),
            ("§6.3: 8", GET, "HTTP/1.1 200 OK\r\n\r\nhi", "200 UntilClose"),
            (
                "§6.3: 4",
                GET,
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n1;a=b\r\n!\r\n0\r\n\r\n",
                "200 Chunked, \"hi!\", reusable",
            ),
            (
                "§7.1.2",
                GET,
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: ,Chunked\r\n\r\n0\r\nX: y\r\nX: z\r\n\r\n",
                "200 Chunked, \"\", 2 trailers, reusable",
            ),
            ("§6.3: 1", HEAD, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n", "200 None, \"\", reusable"),
            ("§6.3: 1", HEAD, "HTTP/1.1 200 OK\r\n\r\n", "200 None, \"\", reusable"),
            (
                "§6.3: 1",
                GET,
                "HTTP/1.1 204 No Content\r\nContent-Length: 2\r\n\r\n",
                "204 None, \"\", reusable",
            ),
            (
                "§6.3: 1",
                GET,
                "HTTP/1.1 304 \r\nTransfer-Encoding: chunked\r\n\r\n",
                "304 None, \"\", reusable",
            ),
            (
                "§6.3: 1, regardless of the fields",
                HEAD,
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: x\r\n\r\n",
                "200 None, \"\", reusable",
            ),
            (
                "§6.3: 2",
                CONNECT,
                "HTTP/1.1 299 OK\r\nContent-Length: 2\r\n\r\nhi",
                "299 None, \"\", switched, 2 unread",
            ),
            (
                "§6.3: 2",
                CONNECT,
                "HTTP/1.1 403 No\r\nContent-Length: 2\r\n\r\nno",
                "403 Length(2), \"no\", reusable",
            ),
        ],
        false,
    );
}

#[test]
fn invalid_lengths_are_faults() {
    let length = |value: &str| format!("HTTP/1.1 200 OK\r\nContent-Length: {value}\r\n\r\n");
    for invalid in ["", "-1", "+1", "1,1", "1 1", "1.0", "0x1", "18446744073709551616", "1;a"] {
        check(&[("§6.3: 5", GET, &length(invalid), "BadContentLength")], false);
    }
    let coding = |value: &str| format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: {value}\r\n\r\n");
    for invalid in [
        "gzip",
        "gzip, chunked",
        "chunked, gzip",
        "chunked, chunked",
        "identity",
        "",
        "xchunked",
        "chunked;a=b",
    ] {
        check(&[("§6.1, §6.3: 4", GET, &coding(invalid), "BadTransferCoding")], false);
    }
    let both = "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n";
    let repeated = "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nX: y\r\nContent-Length: 1\r\n\r\n";
    check(
        &[
            ("§6.3: 3", GET, both, "AmbiguousLength"),
            ("§6.3: 5", GET, repeated, "RepeatedContentLength"),
            (
                "§6.1: not more than once, in two lines",
                GET,
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
                "BadTransferCoding",
            ),
            (
                "§6.1: not in HTTP/1.0",
                GET,
                "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
                "TransferCodingInHttp10",
            ),
        ],
        false,
    );
}

#[test]
fn chunk_extensions_must_match_their_grammar() {
    let response = |extensions: &str| {
        format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2{extensions}\r\nhi\r\n0\r\n\r\n")
    };
    for valid in [" ; a = b", ";a=\"\\\"\""] {
        check(&[("§7.1.1", GET, &response(valid), "200 Chunked, \"hi\", reusable")], false);
    }
    for invalid in [";", ";a=", ";a[", ";a=\"x"] {
        check(&[("§7.1.1", GET, &response(invalid), "200 Chunked, BadChunk")], false);
    }
}

#[test]
fn status_lines_are_checked() {
    let response = |line: &str| format!("{line}\r\nContent-Length: 0\r\n\r\n");
    for valid in [
        "HTTP/1.1 200 OK",
        "HTTP/1.1 200 ",
        "HTTP/1.1 200",
        "HTTP/1.9 200 a\tb  c ",
        "HTTP/1.1 200 \u{e4}",
        "HTTP/1.1 200  OK",
    ] {
        check(&[("§4", GET, &response(valid), "200 Length(0), \"\", reusable")], false);
    }
    for valid in ["100", "199", "999"] {
        let line = format!("HTTP/1.1 {valid}");
        let events = decode_events(HEAD, [response(&line).as_bytes()], false, &small_limits());
        assert!(events.starts_with(valid), "{events}");
    }
    for (invalid, fault) in [
        ("HTTP/1.1 20 OK", "BadStatusLine"),
        ("HTTP/1.1 2000 OK", "BadStatusLine"),
        ("HTTP/1.1 099 OK", "BadStatusLine"),
        ("HTTP/1.1  200 OK", "BadStatusLine"),
        ("HTTP/1.1\t200 OK", "BadStatusLine"),
        ("HTTP/1.1 200\tOK", "BadStatusLine"),
        ("HTTP/1.1 200OK", "BadStatusLine"),
        ("HTTP/1.1 2x0 OK", "BadStatusLine"),
        ("HTTP/1.1 200 O\0K", "BadStatusLine"),
        ("HTTP/1.1 200 O\rK", "BadStatusLine"),
        ("HTTP/1.1", "BadStatusLine"),
        ("HTTP/1. 200 OK", "BadStatusLine"),
        ("HTTP/1.x 200 OK", "BadStatusLine"),
        ("HTTP/11.1 200 OK", "BadStatusLine"),
        ("HTTP/x.1 200 OK", "BadStatusLine"),
        ("HTTP/2.0 200 OK", "UnsupportedVersion"),
        ("HTTP/2 200", "UnsupportedVersion"),
        ("HTTP/0.9 200 OK", "UnsupportedVersion"),
        ("http/1.1 200 OK", "NotHttp"),
        ("HTTPS/1.1 200 OK", "NotHttp"),
        (" HTTP/1.1 200 OK", "NotHttp"),
        ("ICY 200 OK", "NotHttp"),
        ("SSH-2.0-OpenSSH_9.6", "NotHttp"),
        ("<html>", "NotHttp"),
        ("\x15\x03\x03", "TlsOnPlainConnection"),
        ("\x16\x03\x01", "TlsOnPlainConnection"),
        // §2.2: a server skips empty lines before a request. A client does not skip them before a response.
        ("", "NotHttp"),
    ] {
        check(&[("§4", GET, &response(invalid), fault)], false);
    }
}

#[test]
fn malformed_lines_and_fields_are_faults() {
    for (rule, fields, fault) in [
        ("§2.2: a bare CR", "A: b\rC: d\r\n", "InvalidField"),
        ("§5.2", "A: b\r\n c\r\n", "FoldedField"),
        ("§5.2", "\tA: b\r\n", "FoldedField"),
        ("§5.1: no space within a name", "A b: c\r\n", "InvalidField"),
        ("§5.1", "A \r\n", "InvalidField"),
        ("§5.1", "A\x0c: b\r\n", "InvalidField"),
        ("§5.1", "A\r\n", "InvalidField"),
        ("§5", ": b\r\n", "InvalidField"),
        ("RFC 9110 §5.5", "A: b\0c\r\n", "InvalidField"),
        ("RFC 9110 §5.5", "A: b\x7f\r\n", "InvalidField"),
        ("RFC 9110 §5.6.2", "A(: b\r\n", "InvalidField"),
    ] {
        let input = format!("HTTP/1.1 200 OK\r\n{fields}\r\n");
        check(&[(rule, GET, &input, fault)], false);
    }
}

#[test]
fn a_line_may_end_in_lf_alone_and_a_name_in_white_space() {
    let whole = "200 Length(2), \"hi\", reusable";
    for (rule, input) in [
        ("§2.2", "HTTP/1.1 200 OK\nA: b\nContent-Length: 2\n\nhi"),
        ("§2.2: mixed", "HTTP/1.1 200\r\nContent-Length: 2\n\r\nhi"),
        ("§2.2: mixed", "HTTP/1.1 200\nContent-Length: 2\r\n\nhi"),
        ("§5.1", "HTTP/1.1 200 OK\r\nA : b\r\nContent-Length \t : 2\r\n\r\nhi"),
    ] {
        check(&[(rule, GET, input, whole)], false);
    }
    let chunked = "HTTP/1.1 200 OK\nTransfer-Encoding : chunked\n\n0\r\n\r\n";
    check(&[("§5.1", GET, chunked, "200 Chunked, \"\", reusable")], false);
    let both = "HTTP/1.1 200 OK\nTransfer-Encoding : chunked\nContent-Length: 2\n\nhi";
    check(&[("§6.3: 3", GET, both, "AmbiguousLength")], false);
}

#[test]
fn a_head_is_read_without_line_ends_and_white_space() {
    for input in ["HTTP/1.1 200 Fine\nX-Old : 1\n\n", "HTTP/1.1 200 Fine\r\nX-Old: 1 \r\n\r\n"] {
        let mut connection = ClientConnection::new();
        connection.expect_response(HEAD);
        let mut fields = Vec::new();
        let mut on_field =
            |line: &rudy_message::FieldLine<'_>| fields.push((line.name.to_vec(), line.value.to_vec()));
        // Each field is reported once, however the head is split.
        for end in 0..input.len() {
            let decoded =
                connection.decode_with(&input.as_bytes()[..end], &Limits::for_responses(), &mut on_field);
            assert!(matches!(decoded, Ok((0, ResponseEvent::NeedData))), "{decoded:?}");
        }
        let decoded = connection.decode_with(input.as_bytes(), &Limits::for_responses(), &mut on_field);
        let Ok((_, ResponseEvent::Head(head))) = decoded else { panic!("{decoded:?}") };
        assert_eq!((head.reason(), head.get("x-old")), (&b"Fine"[..], Some(&b"1"[..])));
        assert_eq!(fields, [(b"X-Old".to_vec(), b"1".to_vec())]);
    }
}

#[test]
fn names_and_values_allow_only_valid_bytes() {
    for byte in (0..=u8::MAX).filter(|byte| *byte != b'\n') {
        let is_valid = |line: &[u8]| {
            let input = [b"HTTP/1.1 204\r\n", line, b"\r\n\r\n"].concat();
            decode_events(GET, [&input[..]], false, &small_limits()).starts_with("204")
        };
        let is_token = byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        // A colon ends the name.
        assert_eq!(
            is_valid(&[b'a', byte, b'b', b':']),
            is_token || byte == b':',
            "name {}",
            byte.escape_ascii()
        );
        let is_text = byte == b'\t' || (byte >= b' ' && byte != 0x7f);
        assert_eq!(is_valid(&[b'a', b':', b'b', byte, b'c']), is_text, "value {}", byte.escape_ascii());
    }
}

#[test]
fn interim_responses_come_before_the_response() {
    let early =
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\nContent-Length: 9\r\n\r\n";
    let response = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi";
    let both = early.to_owned() + response;
    let switch = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\nother";
    check(
        &[
            ("RFC 9110 §15.2: any number", GET, &both, "100, 103, 200 Length(2), \"hi\", reusable"),
            ("RFC 9110 §15.2", HEAD, "HTTP/1.1 102 \r\n\r\n", "102"),
            ("RFC 9110 §7.8", UPGRADE, switch, "101 None, \"\", switched, 5 unread"),
            ("RFC 9110 §7.8: only if offered", GET, switch, "UnsolicitedUpgrade"),
            ("RFC 9110 §7.8: optional", UPGRADE, response, "200 Length(2), \"hi\", reusable"),
        ],
        false,
    );
}

#[test]
fn reuse_depends_on_version_and_connection() {
    let response = |version: &str, fields: &str| format!("HTTP/{version} 204\r\n{fields}\r\n");
    let reusable = "204 None, \"\", reusable";
    let closed = "204 None, \"\"";
    for (request, version, fields, expected) in [
        (GET, "1.1", "", reusable),
        (GET, "1.0", "", closed),
        (GET, "1.0", "Connection: Keep-Alive\r\n", reusable),
        (GET, "1.1", "Connection: keep-alive, CLOSE\r\n", closed),
        (GET, "1.1", "Connection: a\r\nConnection: ,, b , close ,\r\n", closed),
        (GET, "1.1", "Connection: closed, not-close\r\n", reusable),
        (GET, "1.0", "Connection: close, keep-alive\r\n", closed),
        (GET, "1.0", "Keep-Alive: timeout=5\r\n", closed),
        (LAST, "1.1", "", closed),
        (LAST, "1.1", "Connection: keep-alive\r\n", closed),
    ] {
        check(&[("§9.3", request, &response(version, fields), expected)], false);
    }
}

#[test]
fn the_end_of_input_completes_or_truncates_a_response() {
    let head = "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n";
    let four = head.to_owned() + "four";
    let ten = head.to_owned() + "0123456789";
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    let some = chunked.to_owned() + "3\r\nabc\r\n5\r\nde";
    let last = chunked.to_owned() + "3\r\nabc\r\n0\r\n";
    let in_body = |received, expected| format!("{:?}", Fault::ClosedInBody { received, expected });
    check(
        &[
            ("§9.3.1", GET, "", "ClosedBeforeResponse"),
            ("§8", GET, "HTTP/1.", "ClosedInHead { received: 7 }"),
            ("§8", GET, "HTTP/1.1 200 OK\r\nA: b\r\n", "ClosedInHead { received: 23 }"),
            ("§8: after 100, nothing", GET, "HTTP/1.1 100\r\n\r\n", "100, ClosedBeforeResponse"),
            ("§8: none of it", GET, head, &format!("200 Length(10), {}", in_body(0, Some(10)))),
            ("§8", GET, &four, &format!("200 Length(10), {}", in_body(4, Some(10)))),
            ("§6.3", GET, &ten, "200 Length(10), \"0123456789\", BetweenResponses \"\""),
            ("§8: chunks", GET, &some, &format!("200 Chunked, {}", in_body(5, None))),
            ("§8: incomplete last chunk", GET, &last, &format!("200 Chunked, {}", in_body(3, None))),
            ("§6.3: 8", GET, "HTTP/1.1 200 OK\r\n\r\nall", "200 UntilClose, ResponseComplete \"all\""),
            ("§6.3: 8", GET, "HTTP/1.1 200 OK\r\n\r\n", "200 UntilClose, ResponseComplete \"\""),
        ],
        true,
    );
}

#[test]
fn limits_are_enforced() {
    let head = |fields: &str| format!("HTTP/1.1 204\r\n{fields}\r\n");
    let large = head(&format!("A: {}\r\n", "b".repeat(107)));
    assert_eq!(large.len(), 128);
    let too_large = head(&format!("A: {}\r\n", "b".repeat(108)));
    let endless = "HTTP/1.1 200 ".to_owned() + &"a".repeat(200);
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    check(
        &[
            ("head_bytes", GET, &large, "204 None, \"\", reusable"),
            ("head_bytes", GET, &too_large, "HeadTooLarge { limit: 128 }"),
            ("head_bytes", GET, &endless, "HeadTooLarge { limit: 128 }"),
            ("head_fields", GET, &head("A:\r\nA:\r\nA:\r\n"), "204 None, \"\", reusable"),
            ("head_fields", GET, &head("A:\r\nA:\r\nA:\r\nA:\r\n"), "TooManyFields { limit: 3 }"),
            ("body_bytes", GET, "HTTP/1.1 200\r\nContent-Length: 64\r\n\r\n", "200 Length(64)"),
            ("body_bytes", GET, "HTTP/1.1 200\r\nContent-Length: 65\r\n\r\n", "BodyTooLarge { limit: 64 }"),
            ("body_bytes", GET, &format!("{chunked}41\r\n"), "200 Chunked, BodyTooLarge { limit: 64 }"),
            (
                "body_bytes",
                GET,
                &format!("HTTP/1.1 200\r\n\r\n{}", "a".repeat(65)),
                "200 UntilClose, BodyTooLarge { limit: 64 }",
            ),
            ("chunk_extension_bytes", GET, &format!("{chunked}1;1234567\r\n"), "200 Chunked"),
            ("chunk_extension_bytes", GET, &format!("{chunked}1;12345678\r\n"), "200 Chunked, BadChunk"),
            (
                "head_fields in trailers",
                GET,
                &format!("{chunked}0\r\nA:\r\nA:\r\nA:\r\nA:\r\n"),
                "200 Chunked, TrailersTooLarge { bytes: 128, fields: 3 }",
            ),
        ],
        false,
    );
}

#[test]
fn a_tiny_head_limit_applies_before_the_check_for_http() {
    let limits = Limits { head_bytes: 3, ..small_limits() };
    for pieces in [1, 9] {
        let events = decode_events(GET, b"HTTX/1.1 ".chunks(pieces), false, &limits);
        assert_eq!(events, "HeadTooLarge { limit: 3 }");
    }
}

#[test]
fn malformed_chunks_and_trailers_are_faults() {
    for (rule, body, fault) in [
        ("§7.1", "x\r\n", "BadChunk"),
        ("§7.1", "1\na\r\n", "BadChunk"),
        ("§7.1", "1\r\nab\r\n", "BadChunk"),
        ("§7.1", "10000000000000000\r\n", "BadChunk"),
        ("§7.1.2", "0\r\nA: b\n", "BareLineFeed"),
        ("§5.2", "0\r\nA: b\r\n c\r\n\r\n", "FoldedField"),
        ("§5.1", "0\r\nA : b\r\n\r\n", "InvalidField"),
        ("RFC 9110 §6.5.1", "0\r\nContent-Length: 1\r\n\r\n", "ForbiddenTrailer"),
    ] {
        let input = format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{body}");
        check(&[(rule, GET, &input, &format!("200 Chunked, {fault}"))], false);
    }
}

#[test]
fn bytes_without_a_request_are_a_fault() {
    let two = "HTTP/1.1 204\r\n\r\nHTTP/1.1 204\r\n\r\n";
    let excess = "HTTP/1.1 200\r\nContent-Length: 2\r\n\r\nhi!";
    check(
        &[
            ("§9.2", GET, two, "204 None, \"\", Unsolicited"),
            ("§9.2", GET, excess, "200 Length(2), \"hi\", Unsolicited"),
            ("§9.2", HEAD, excess, "200 None, \"\", Unsolicited"),
        ],
        false,
    );
    let fault = ClientConnection::new().decode(b"HTTP/1.1 408 Too slow\r\n", &small_limits()).unwrap_err();
    assert_eq!(fault.to_string(), "received bytes without a request: \"HTTP/1.1 408 Too slow\\r\\n\"");
}

#[test]
fn a_pipelined_response_is_decoded_when_it_is_expected() {
    let (mut connection, limits) = (ClientConnection::new(), small_limits());
    let mut input =
        &b"HTTP/1.1 204\r\n\r\nHTTP/1.1 404\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"[..];
    for (status, can_be_reused) in [(204, true), (404, false)] {
        assert!(connection.can_be_reused());
        connection.expect_response(GET);
        assert!(!connection.can_be_reused() && !connection.is_idle());
        let (used, event) = connection.decode(input, &limits).unwrap();
        assert!(matches!(event, ResponseEvent::Head(head) if head.status() == status));
        input = &input[used..];
        assert!(matches!(connection.decode(input, &limits), Ok((0, ResponseEvent::End(None)))));
        assert_eq!((connection.is_idle(), connection.can_be_reused()), (true, can_be_reused));
    }
    assert!(input.is_empty());
}

#[test]
fn nothing_is_decoded_after_a_fault() {
    let (mut connection, limits) = (ClientConnection::new(), small_limits());
    connection.expect_response(GET);
    assert!(connection.decode(b"HTTP/3 200\r\n", &limits).is_err());
    assert!(matches!(connection.decode(b"HTTP/1.1 204\r\n\r\n", &limits), Ok((0, ResponseEvent::NeedData))));
    assert!(!connection.can_be_reused() && !connection.is_idle());
    assert_eq!(connection.end_of_input(), Ok(InputEnd::BetweenResponses), "the fault is already reported");
}

#[test]
fn a_head_is_a_view_of_the_received_bytes() {
    let input = b"HTTP/1.0 404 Not \xe4here\r\nA: \t b c\t \r\nd:\r\na: 2\r\nContent-Length: 7\r\n\r\nrest";
    let mut connection = ClientConnection::new();
    connection.expect_response(GET);
    let (used, event) = connection.decode(input, &Limits::for_responses()).unwrap();
    let ResponseEvent::Head(head) = event else { panic!("the head is complete") };
    assert_eq!(used, input.len() - 4);
    assert_eq!(head.raw(), &input[..used]);
    assert_eq!(
        (head.version(), head.status(), head.reason()),
        (http::Version::HTTP_10, 404, &b"Not \xe4here"[..])
    );
    let fields: Vec<_> = head.fields().collect();
    assert_eq!(fields, [("A", &b"b c"[..]), ("d", b""), ("a", b"2"), ("Content-Length", b"7")]);
    assert_eq!(
        (head.get("D"), head.get("CONTENT-LENGTH"), head.get("e")),
        (Some(&b""[..]), Some(&b"7"[..]), None)
    );
    assert_eq!(head.get("a"), Some(&b"b c"[..]), "the first of several");
}

#[test]
fn an_omitted_reason_phrase_is_empty() {
    for line in ["HTTP/1.1 200\r\n", "HTTP/1.1 200 \r\n"] {
        let input = format!("{line}A: b\r\n\r\n");
        let mut connection = ClientConnection::new();
        connection.expect_response(GET);
        let (_, event) = connection.decode(input.as_bytes(), &Limits::for_responses()).unwrap();
        let ResponseEvent::Head(head) = event else { panic!("the head is complete") };
        assert_eq!((head.reason(), head.fields().count()), (&b""[..], 1));
    }
}

#[test]
fn faults_show_the_received_and_the_expected_bytes() {
    let fault = |input: &str| {
        let mut connection = ClientConnection::new();
        connection.expect_response(GET);
        loop {
            match connection.decode(input.as_bytes(), &Limits::for_responses()) {
                Ok((0, _)) => break connection.end_of_input().unwrap_err().to_string(),
                Ok(_) => {}
                Err(fault) => break fault.to_string(),
            }
        }
    };
    assert_eq!(
        fault("HTTP/1.1 OK\r\n\r\n"),
        "the status line is \"HTTP/1.1 OK\"; expected a version, a three-digit status and a reason"
    );
    assert_eq!(
        fault("SSH-2.0-OpenSSH_9.6p1 Debian-5+deb12u1 and more\r\n"),
        "the response starts with \"SSH-2.0-OpenSSH_9.6p1 Debian-5+deb12u1...\"; expected \"HTTP/1.1\""
    );
    assert_eq!(
        fault("HTTP/1.1 200 OK\r\nContent-Length: 1, \x1b[2J\r\n\r\n"),
        "a field line is not a name, a colon and a value without control characters: \
         \"Content-Length: 1, \\x1b[2J\""
    );
    assert_eq!(
        fault("HTTP/1.1 200 OK\r\nContent-Length: 1, 1\r\n\r\n"),
        "Content-Length is \"1, 1\", not a decimal number"
    );
    assert_eq!(
        fault("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n"),
        "Transfer-Encoding is \"gzip\"; expected a single \"chunked\""
    );
    assert_eq!(fault("\x15\x03\x01\0\x02\x02\x46"), "the server uses TLS on this port; use https://");
}

#[test]
fn a_connection_occupies_at_most_64_bytes() {
    assert!(size_of::<ClientConnection>() <= 64, "{}", size_of::<ClientConnection>());
}
