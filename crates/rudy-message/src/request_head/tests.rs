//! Tests of the views of request heads.

use proptest::prelude::*;

use super::*;
use crate::text::HeadLines;

/// Parses a request with these field lines.
fn read(version: &str, lines: &[&[u8]]) -> Result<RequestHead<'static>, Rejection> {
    let mut head = format!("POST / HTTP/{version}\r\n").into_bytes();
    for line in lines {
        head.extend_from_slice(line);
        head.extend_from_slice(b"\r\n");
    }
    head.extend_from_slice(b"\r\n");
    let limits = MessageLimits::default();
    let complete = HeadLines::default().find(&head, &limits)?.expect("the head is complete");
    RequestHead::new(&head, complete, &limits).map(RequestHead::into_owned)
}

fn body(lines: &[&[u8]]) -> Result<BodyLength, Rejection> {
    let lines: Vec<&[u8]> = [&b"Host: a"[..]].into_iter().chain(lines.iter().copied()).collect();
    read("1.1", &lines).map(|head| head.body_length())
}

#[test]
fn content_length_and_chunked_give_the_body_length() {
    assert_eq!(body(&[]), Ok(BodyLength::Known(0)));
    assert_eq!(body(&[b"content-length:7"]), Ok(BodyLength::Known(7)));
    assert_eq!(body(&[b"Content-Length:\t 16777216 "]), Ok(BodyLength::Known(16_777_216)));
    assert_eq!(body(&[b"Content-Length: 16777217"]), Err(Rejection::BodyTooLarge));
    assert_eq!(body(&[b"Content-Length: 18446744073709551615"]), Err(Rejection::BodyTooLarge));
    assert_eq!(body(&[b"Transfer-Encoding: CHUNKED"]), Ok(BodyLength::Chunked));
    assert_eq!(body(&[b"Transfer-Encoding: ,", b"Transfer-Encoding: chunked"]), Ok(BodyLength::Chunked));
    for wrong in ["18446744073709551616", "", "-1", "+1", "1,1", "1 1", "1.0", "0x1", "\u{661}"] {
        let line = format!("Content-Length: {wrong}");
        assert_eq!(body(&[line.as_bytes()]), Err(Rejection::BadContentLength), "{wrong}");
    }
}

#[test]
fn content_length_with_transfer_encoding_is_rejected() {
    for coding in ["chunked", "gzip", "identity", ""] {
        let line = format!("Transfer-Encoding: {coding}");
        assert_eq!(
            body(&[line.as_bytes(), b"Content-Length: 0"]),
            Err(Rejection::AmbiguousLength),
            "{coding}"
        );
    }
}

#[test]
fn a_name_is_a_token_and_a_value_has_no_control_characters() {
    for byte in (0..=u8::MAX).filter(|byte| *byte != b'\n') {
        let is_token = byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        let name = [b'a', byte, b'b', b':'];
        // A colon ends the name.
        assert_eq!(read("1.0", &[&name]).is_ok(), is_token || byte == b':', "name {}", byte.escape_ascii());
        let is_text = byte == b'\t' || (byte >= b' ' && byte != 0x7f);
        let value = [b'a', b':', b'b', byte, b'c'];
        assert_eq!(read("1.0", &[&value]).is_ok(), is_text, "value {}", byte.escape_ascii());
    }
}

#[test]
fn white_space_around_a_value_is_not_part_of_it() {
    let head = read("1.0", &[b"a: \t b c\t ", b"d:", b"e:   "]).expect("a valid head");
    let fields: Vec<_> = head.fields().collect();
    assert_eq!(fields, [("a", &b"b c"[..]), ("d", b""), ("e", b"")]);
    let request = head.into_request();
    let value = |name: &str| request.headers()[name].as_bytes().to_vec();
    assert_eq!((value("a"), value("d"), value("e")), (b"b c".to_vec(), Vec::new(), Vec::new()));
}

#[test]
fn keep_alive_depends_on_version_and_connection() {
    let keep_alive = |version: &str, options: &[&[u8]]| {
        let lines: Vec<&[u8]> = [&b"Host: a"[..]].into_iter().chain(options.iter().copied()).collect();
        read(version, &lines).expect("a valid head").keep_alive()
    };
    assert!(keep_alive("1.1", &[]));
    assert!(!keep_alive("1.0", &[]));
    assert!(keep_alive("1.0", &[b"Connection: Keep-Alive"]));
    assert!(!keep_alive("1.1", &[b"Connection: keep-alive, Close"]));
    assert!(!keep_alive("1.1", &[b"Connection: a", b"Connection: ,, b , close ,"]));
    assert!(keep_alive("1.1", &[b"Connection: closed, not-close"]));
    assert!(!keep_alive("1.0", &[b"Connection: keep-alives"]));
}

#[test]
fn fields_that_a_map_cannot_hold_are_rejected() {
    let limits = MessageLimits { head_bytes: 1 << 20, head_fields: 1 << 20, ..MessageLimits::default() };
    let build = |fields: String| {
        let head = format!("GET / HTTP/1.0\r\n{fields}\r\n").into_bytes();
        let complete = HeadLines::default().find(&head, &limits)?.expect("the head is complete");
        RequestHead::new(&head, complete, &limits).map(|head| head.into_request().headers().len())
    };
    let fields = |count| (0..count).map(|number| format!("a{number}:\r\n")).collect::<Vec<_>>().concat();
    assert_eq!(build(fields(6000)), Ok(6000));
    assert_eq!(build(fields(6001)), Err(Rejection::HeadTooLarge));
    assert_eq!(build("a:\r\n".repeat(40_000)), Err(Rejection::HeadTooLarge));
    assert_eq!(build(format!("{}:\r\n", "a".repeat(65_535))), Ok(1));
    assert_eq!(build(format!("{}:\r\n", "a".repeat(65_536))), Err(Rejection::InvalidField));
}

const KNOWN: [(KnownField, &str); KnownField::COUNT] = [
    (KnownField::Accept, "accept"),
    (KnownField::AcceptEncoding, "accept-encoding"),
    (KnownField::Authorization, "authorization"),
    (KnownField::CacheControl, "cache-control"),
    (KnownField::Connection, "connection"),
    (KnownField::ContentEncoding, "content-encoding"),
    (KnownField::ContentLength, "content-length"),
    (KnownField::ContentType, "content-type"),
    (KnownField::Cookie, "cookie"),
    (KnownField::Date, "date"),
    (KnownField::Expect, "expect"),
    (KnownField::Host, "host"),
    (KnownField::IfMatch, "if-match"),
    (KnownField::IfModifiedSince, "if-modified-since"),
    (KnownField::IfNoneMatch, "if-none-match"),
    (KnownField::IfRange, "if-range"),
    (KnownField::IfUnmodifiedSince, "if-unmodified-since"),
    (KnownField::KeepAlive, "keep-alive"),
    (KnownField::ProxyConnection, "proxy-connection"),
    (KnownField::Range, "range"),
    (KnownField::Referer, "referer"),
    (KnownField::Te, "te"),
    (KnownField::TransferEncoding, "transfer-encoding"),
    (KnownField::Upgrade, "upgrade"),
    (KnownField::UserAgent, "user-agent"),
    (KnownField::Via, "via"),
];

#[test]
fn each_known_field_is_found_by_its_name_in_any_case() {
    for (field, name) in KNOWN {
        assert_eq!(field.name(), name);
        for spelling in [name.to_owned(), name.to_uppercase()] {
            assert_eq!(KnownField::of(spelling.as_bytes()), Some(field));
        }
        for other in [format!("{}x", &name[1..]), format!("x{name}"), name[1..].to_owned()] {
            assert!(KnownField::of(other.as_bytes()).is_none_or(|found| found != field), "{other}");
        }
    }
}

#[test]
fn the_host_of_the_target_overrides_the_field() {
    let host = |target: &str, host: &str| {
        let head = format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n");
        let complete = HeadLines::default().find(head.as_bytes(), &MessageLimits::default()).unwrap();
        let head = RequestHead::new(
            head.as_bytes(),
            complete.expect("the head is complete"),
            &MessageLimits::default(),
        )
        .unwrap();
        (head.host().to_vec(), head.path().to_vec(), head.query().map(<[u8]>::to_vec))
    };
    let expected = |host: &str, path: &str, query: Option<&str>| {
        (host.as_bytes().to_vec(), path.as_bytes().to_vec(), query.map(|query| query.as_bytes().to_vec()))
    };
    assert_eq!(host("/a?b?c", " a:80 "), expected("a:80", "/a", Some("b?c")));
    assert_eq!(host("/a?", "a"), expected("a", "/a", Some("")));
    assert_eq!(host("http://b:1?c", "a"), expected("b:1", "/", Some("c")));
    assert_eq!(host("http://b/<c", "a"), expected("b", "/<c", None));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn a_head_and_its_request_agree(
        version in proptest::sample::select(vec!["1.0", "1.1"]),
        lines in proptest::collection::vec((0..KnownField::COUNT + 3, "[ \t]*[!-~]{0,20}[ \t]*", any::<bool>()), 0..12),
    ) {
        let lines: Vec<_> = lines.iter().map(|(index, value, is_upper)| {
            let name = KNOWN.get(*index).map_or("x-other", |(_, name)| name);
            let name = if *is_upper { name.to_uppercase() } else { name.to_owned() };
            format!("{name}:{value}").into_bytes()
        }).collect();
        let lines: Vec<&[u8]> = lines.iter().map(Vec::as_slice).collect();
        let Ok(head) = read(version, &lines) else { return Ok(()) };
        let request = read(version, &lines).unwrap().into_request();
        prop_assert_eq!((head.method(), head.version()), (request.method(), request.version()));
        prop_assert_eq!(head.body_length(), *request.body());
        prop_assert_eq!(head.fields().count(), request.headers().len());
        for (field, name) in KNOWN {
            let mut values = request.headers().get_all(name).iter();
            let expected = match (values.next(), values.next()) {
                (None, _) => FieldValue::Absent,
                (Some(value), None) => FieldValue::Once(value.as_bytes()),
                (Some(_), Some(_)) => FieldValue::Repeated,
            };
            prop_assert_eq!(head.field(field), expected, "{}", name);
            prop_assert!(head.lines(field).eq(request.headers().lines(field)), "{}", name);
            prop_assert_eq!(head.has(field), request.headers().has(field), "{}", name);
        }
    }
}
