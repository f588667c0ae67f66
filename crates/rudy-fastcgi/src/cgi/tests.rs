//! Tables of heads. Each case runs in one piece, byte by byte, and split in two at every position.

use proptest::prelude::*;

use super::{HeadDecoder, HeadError, ResponseKind};
use crate::Limits;

fn limits() -> Limits {
    Limits { head_bytes: 120, head_fields: 4, ..Limits::default() }
}

/// Decodes a response in `pieces`, and formats its head and body.
fn read<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> String {
    read_with(HeadDecoder::new(), pieces)
}

fn read_with<'a>(mut decoder: HeadDecoder, pieces: impl IntoIterator<Item = &'a [u8]>) -> String {
    let limits = limits();
    let mut pieces = pieces.into_iter();
    while let Some(piece) = pieces.next() {
        match decoder.decode(piece, &limits) {
            Ok(None) => {}
            Err(error) => return name(&error),
            Ok(Some((used, head))) => {
                let mut body = piece[used..].to_vec();
                pieces.for_each(|piece| body.extend_from_slice(piece));
                let kind = match head.kind {
                    ResponseKind::Document(status) => status.as_u16().to_string(),
                    ResponseKind::LocalRedirect(path) => format!("local {path}"),
                };
                let fields = head.fields.to_map();
                let fields =
                    fields.iter().map(|(name, value)| format!(" {name}={}", value.as_bytes().escape_ascii()));
                let removed = head.removed_fields.iter().map(|name| format!(" -{name}"));
                let length = head.content_length.map(|length| format!(" ({length})")).unwrap_or_default();
                let body = body.escape_ascii();
                return format!(
                    "{kind}{}{}{length} {body}",
                    fields.collect::<String>(),
                    removed.collect::<String>()
                );
            }
        }
    }
    name(&decoder.end_of_input())
}

/// Returns the name of an error without its excerpt, which depends on how many bytes had arrived.
fn name(error: &HeadError) -> String {
    let text = format!("{error:?}");
    text.split(['(', '{']).next().unwrap_or_default().trim_end().to_owned()
}

fn check(cases: &[(&str, &str, &str)]) {
    for (case, input, expected) in cases {
        let bytes = input.as_bytes();
        assert_eq!(read([bytes]), *expected, "{case}: {input:?}");
        assert_eq!(read(bytes.chunks(1)), *expected, "{case}: {input:?} byte by byte");
        for at in 0..=bytes.len() {
            let (first, second) = bytes.split_at(at);
            assert_eq!(read([first, second]), *expected, "{case}: {input:?} split at {at}");
        }
    }
}

#[test]
fn documents_and_redirects() {
    check(&[
        ("§6.2.1", "Content-Type: a/b\n\nbody", "200 content-type=a/b body"),
        ("§6.2.1", "Content-Type: a/b\r\n\r\nbody\r\n", "200 content-type=a/b body\\r\\n"),
        ("line ends may be mixed", "Status: 404 Not\tFound\r\nX:  y \n\n", "404 x=y "),
        ("a phrase may be left out", "Status:201\n\n", "201 "),
        ("not in RFC 9110", "status: 999 Polled too often\n\n", "999 "),
        ("§6.2.3", "Location: http://h/\n\n", "302 location=http://h/ "),
        ("§6.2.4", "Location: /a\nStatus: 303 See Other\n\nhere", "303 location=/a here"),
        ("§6.2.2", "Location: /a?b=c\n\nignored", "local /a?b=c ignored"),
        ("§6.2.2", "Content-Type: a/b\nLocation: /\nContent-Length: 0\n\n", "local / (0) "),
        ("a cookie is not lost", "Location: /a\nSet-Cookie: k=v\n\n", "302 location=/a set-cookie=k=v "),
        ("a fragment is for the client", "Location: /a#b\n\n", "302 location=/a#b "),
        ("another host", "Location: //h/a\n\n", "302 location=//h/a "),
        ("fields repeat", "Status: 200\nSet-Cookie: a\nSet-Cookie: b\n\n", "200 set-cookie=a set-cookie=b "),
        (
            "PHP's field",
            "Status: 200\nX-Powered-BY: PHP/8\nx-powered-by2: a\n\n",
            "200 x-powered-by=PHP/8 x-powered-by2=a ",
        ),
        ("bytes beyond ASCII", "Content-Type: a/b\nX: é\n\n", "200 content-type=a/b x=\\xc3\\xa9 "),
        ("a space before the colon", "Content-Type : a/b\nX\t: y\n\n", "200 content-type=a/b x=y "),
        ("lengths", "Status: 200\nContent-Length: 5\ncontent-length:5\n\n", "200 (5) "),
    ]);
}

#[test]
fn fields_alone_are_a_200_from_an_authorizer() {
    for (input, expected) in [
        ("Variable-A: b\n\n", "200 variable-a=b "),
        ("X: y\r\n\r\nbody", "200 x=y body"),
        ("Status: 403\n\n", "403 "),
        ("Location: /a\n\n", "local /a "),
        ("\n", "NoTypeLocationOrStatus"),
        ("Connection: close\n\n", "NoTypeLocationOrStatus"),
        ("Variable-A: b\n", "Truncated"),
        ("", "Empty"),
    ] {
        for at in 0..=input.len() {
            let (first, second) = input.as_bytes().split_at(at);
            assert_eq!(
                read_with(HeadDecoder::for_authorizer(), [first, second]),
                expected,
                "{input:?} at {at}"
            );
        }
    }
}

#[test]
fn connection_fields_are_removed_and_listed() {
    check(&[(
        "RFC 9110 §7.6.1",
        "Status: 200\nConnection: close\nTransfer-Encoding: chunked\nX: y\n\nbody",
        "200 x=y -connection -transfer-encoding body",
    )]);
}

#[test]
fn invalid_heads() {
    check(&[
        ("nothing", "", "Empty"),
        ("no end", "Content-Type: a/b\n", "Truncated"),
        ("none of the three", "X: y\n\n", "NoTypeLocationOrStatus"),
        ("no field at all", "\nbody", "NoTypeLocationOrStatus"),
        ("text", "hello\nContent-Type: a/b\n\n", "InvalidField"),
        ("a name with a space", "Content Type: a/b\n\n", "InvalidField"),
        ("no name", ": a/b\n\n", "InvalidField"),
        ("a control character", "Content-Type: a\x07b\n\n", "InvalidField"),
        ("CR within a line", "Content-Type: a\rX: y\n\n", "InvalidField"),
        ("a second line", "Content-Type: a/b\n c\n\n", "Folded"),
        ("HTTP", "HTTP/1.1 200 OK\nContent-Type: a/b\n\n", "StatusLine"),
        ("a word", "Status: OK\n\n", "BadStatus"),
        ("four digits", "Status: 2000\n\n", "BadStatus"),
        ("1xx", "Status: 100 Continue\n\n", "BadStatus"),
        ("no status", "Status:\n\n", "BadStatus"),
        ("a sign", "Status: 200\nContent-Length: +5\n\n", "BadContentLength"),
        ("no length", "Status: 200\nContent-Length:\n\n", "BadContentLength"),
        ("lengths differ", "Status: 200\nContent-Length: 5\nContent-Length: 6\n\n", "ContentLengthsDiffer"),
        ("twice", "Status: 200\nStatus: 200\n\n", "Duplicate"),
        ("twice", "Location: /a\nLocation: /b\n\n", "Duplicate"),
        ("no path", "Location: /a b\n\n", "BadLocation"),
        ("one field too many", "Status: 200\na: b\na: b\na: b\na: b\n\n", "TooManyFields"),
    ]);
}

#[test]
fn a_head_may_be_as_large_as_the_limit() {
    let head = |bytes: usize| format!("Status: 200\nX: {}\n\n", "y".repeat(bytes - 17));
    assert!(read([head(120).as_bytes()]).starts_with("200"));
    for pieces in [1, 7, 120, 1000] {
        assert_eq!(read(head(121).as_bytes().chunks(pieces)), "TooLarge");
        assert_eq!(read("x".repeat(500).as_bytes().chunks(pieces)), "TooLarge");
    }
    assert!(read([format!("{}{}", head(120), "b".repeat(500)).as_bytes()]).ends_with('b'));
}

#[test]
fn error_messages_show_the_input_and_the_expected_syntax() {
    let error = |input: &[u8]| {
        HeadDecoder::new().decode(input, &limits()).expect_err("the head is invalid").to_string()
    };
    assert_eq!(
        error(b"Warning: undefined variable\n\n"),
        "the app's response has no Content-Type, Location or Status: did the app print something before its head?"
    );
    assert_eq!(
        error(b"HTTP/1.1 200 OK\n\n"),
        "the app's response begins with \"HTTP/1.1 200 OK\", an HTTP status line; CGI expects the field \"Status: 200\""
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn splits_make_no_difference(
        words in proptest::collection::vec(
            proptest::sample::select(vec![
                "Status: 200", "Content-Type: a/b", "Location: /x", "X: y", "\n", "\r\n", "\n\n", "\r\n\r\n", ":", " ", "z", "\0",
                "Connection: close\n", "Content-Length: 5\n",
            ]),
            0..12,
        ),
        piece_bytes in 1..30_usize,
    ) {
        let input = words.concat();
        let whole = read([input.as_bytes()]);
        prop_assert_eq!(read(input.as_bytes().chunks(1)), whole.clone());
        prop_assert_eq!(read(input.as_bytes().chunks(piece_bytes)), whole);
    }
}
