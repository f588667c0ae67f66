//! From the bytes of a whole head to a request, and what its fields say about the connection and the body.

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Request, Version};

use super::Refusal;
use super::request_line::RequestLine;
use crate::Limits;
use crate::h1::BodyLength;
use crate::h1::fields::{list, parse_fields};
use crate::h1::host::split_authority;
use crate::h1::lines::Section;
use crate::h1::target::needs_host;

/// A request as its head describes it.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) request: Request<BodyLength>,
    /// The client would like to go on after this exchange.
    pub(super) keep_alive: bool,
    /// The client waits for `100 Continue` before it sends the body.
    pub(super) expects_continue: bool,
}

impl Head {
    /// Parses `bytes`, a whole head with the empty line that ends it.
    pub(super) fn parse(
        bytes: &[u8],
        line: &RequestLine,
        section: &Section,
        limits: &Limits,
    ) -> Result<Self, Refusal> {
        // One copy, shared by the target and all values.
        let bytes = Bytes::copy_from_slice(bytes);
        let method = line.method(&bytes)?;
        let (uri, raw_target) = line.target(&bytes, &method)?;
        let mut request = Request::new(BodyLength::Known(0));
        let fields = request.headers_mut();
        let mut seen = Seen::default();
        parse_fields(&bytes, line.end(), section.fields, fields, |name, value| seen.note(name, value))?;
        seen.check_host(line.version, needs_host(&uri))?;
        if method == Method::CONNECT {
            return Err(Refusal::ConnectNotAllowed);
        }
        let body = if seen.framing { body_length(fields, line.version)? } else { BodyLength::Known(0) };
        if matches!(body, BodyLength::Known(length) if length > limits.body_bytes) {
            return Err(Refusal::BodyTooLarge);
        }
        let keep_alive = wants_keep_alive(fields, seen, line.version);
        let expects_continue = seen.expect && expects_continue(fields, line.version)?;

        *request.method_mut() = method;
        *request.uri_mut() = uri;
        *request.version_mut() = line.version;
        *request.body_mut() = body;
        if let Some(raw_target) = raw_target {
            request.extensions_mut().insert(raw_target);
        }
        Ok(Self { request, keep_alive, expects_continue })
    }
}

/// Which of the fields that concern the connection were there. Most requests have none of them, and a look into the map
/// for each would cost as much as parsing the head.
#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    /// Content-Length or Transfer-Encoding.
    framing: bool,
    connection: bool,
    expect: bool,
    /// How many Host there are.
    hosts: usize,
    bad_host: bool,
    empty_host: bool,
}

impl Seen {
    fn note(&mut self, name: &HeaderName, value: &HeaderValue) {
        if name == header::HOST {
            self.hosts += 1;
            let host = split_authority(value.as_bytes()).map(|(host, _)| host);
            self.bad_host |= host.is_none();
            self.empty_host |= host.is_some_and(<[u8]>::is_empty);
        }
        self.framing |= name == header::CONTENT_LENGTH || name == header::TRANSFER_ENCODING;
        self.connection |= name == header::CONNECTION;
        self.expect |= name == header::EXPECT;
    }

    /// RFC 9112 §3.2: exactly one Host on HTTP/1.1, never two, always a valid one.
    fn check_host(self, version: Version, needs_host: bool) -> Result<(), Refusal> {
        match self.hosts {
            0 if version == Version::HTTP_11 => Err(Refusal::MissingHost),
            1 if self.bad_host || (self.empty_host && needs_host) => Err(Refusal::BadHost),
            0 | 1 => Ok(()),
            _ => Err(Refusal::RepeatedHost),
        }
    }
}

/// RFC 9112 §6.3, for requests.
fn body_length(fields: &HeaderMap, version: Version) -> Result<BodyLength, Refusal> {
    let has_length = fields.contains_key(header::CONTENT_LENGTH);
    if fields.contains_key(header::TRANSFER_ENCODING) {
        if has_length {
            return Err(Refusal::AmbiguousLength);
        }
        check_transfer_coding(fields, version)?;
        return Ok(BodyLength::Chunked);
    }
    if has_length { content_length(fields).map(BodyLength::Known) } else { Ok(BodyLength::Known(0)) }
}

/// RFC 9112 §6.1: chunked is the final coding, once, and the only one known here.
fn check_transfer_coding(fields: &HeaderMap, version: Version) -> Result<(), Refusal> {
    if version == Version::HTTP_10 {
        return Err(Refusal::BadTransferCoding);
    }
    let mut chunked = 0;
    let mut others = false;
    let mut last_is_chunked = false;
    for coding in list(fields, &header::TRANSFER_ENCODING) {
        last_is_chunked = coding.eq_ignore_ascii_case(b"chunked");
        chunked += u32::from(last_is_chunked);
        others |= !last_is_chunked;
    }
    match (chunked, last_is_chunked, others) {
        (1, true, false) => Ok(()),
        (1, true, true) => Err(Refusal::UnsupportedTransferCoding),
        _ => Err(Refusal::BadTransferCoding),
    }
}

/// One field with digits and nothing else. A list of equal numbers, which RFC 9110 §8.6 would let us accept, is refused:
/// whoever sends one has been confused already.
fn content_length(fields: &HeaderMap) -> Result<u64, Refusal> {
    let mut values = fields.get_all(header::CONTENT_LENGTH).iter();
    let (Some(value), None) = (values.next(), values.next()) else {
        return Err(Refusal::BadContentLength);
    };
    // `parse` alone would take a plus sign.
    if !value.as_bytes().iter().all(u8::is_ascii_digit) {
        return Err(Refusal::BadContentLength);
    }
    value.to_str().ok().and_then(|digits| digits.parse().ok()).ok_or(Refusal::BadContentLength)
}

/// RFC 9112 §9.3.
fn wants_keep_alive(fields: &HeaderMap, seen: Seen, version: Version) -> bool {
    if !seen.connection {
        return version == Version::HTTP_11;
    }
    let has =
        |option: &[u8]| list(fields, &header::CONNECTION).any(|token| token.eq_ignore_ascii_case(option));
    if has(b"close") { false } else { version == Version::HTTP_11 || has(b"keep-alive") }
}

/// RFC 9110 §10.1.1; the field means nothing on HTTP/1.0.
fn expects_continue(fields: &HeaderMap, version: Version) -> Result<bool, Refusal> {
    if version == Version::HTTP_10 {
        return Ok(false);
    }
    let mut expectations = list(fields, &header::EXPECT).peekable();
    let present = expectations.peek().is_some();
    if expectations.all(|expectation| expectation.eq_ignore_ascii_case(b"100-continue")) {
        Ok(present)
    } else {
        Err(Refusal::ExpectationFailed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::h1::server::head_lines::HeadLines;

    /// Reads a request with these field lines.
    fn read(version: &str, lines: &[&[u8]]) -> Result<Head, Refusal> {
        let mut head = format!("POST / HTTP/{version}\r\n").into_bytes();
        for line in lines {
            head.extend_from_slice(line);
            head.extend_from_slice(b"\r\n");
        }
        head.extend_from_slice(b"\r\n");
        let (line, section) =
            HeadLines::default().find(&head, &Limits::default())?.expect("the head is whole");
        Head::parse(&head, &line, &section, &Limits::default())
    }

    fn body(lines: &[&[u8]]) -> Result<BodyLength, Refusal> {
        let lines: Vec<&[u8]> = [&b"Host: a"[..]].into_iter().chain(lines.iter().copied()).collect();
        read("1.1", &lines).map(|head| *head.request.body())
    }

    #[test]
    fn lengths_of_bodies() {
        assert_eq!(body(&[]), Ok(BodyLength::Known(0)));
        assert_eq!(body(&[b"content-length:7"]), Ok(BodyLength::Known(7)));
        assert_eq!(body(&[b"Content-Length:\t 16777216 "]), Ok(BodyLength::Known(16_777_216)));
        assert_eq!(body(&[b"Content-Length: 16777217"]), Err(Refusal::BodyTooLarge));
        assert_eq!(body(&[b"Content-Length: 18446744073709551615"]), Err(Refusal::BodyTooLarge));
        assert_eq!(body(&[b"Transfer-Encoding: CHUNKED"]), Ok(BodyLength::Chunked));
        assert_eq!(body(&[b"Transfer-Encoding: ,", b"Transfer-Encoding: chunked"]), Ok(BodyLength::Chunked));
        for wrong in ["18446744073709551616", "", "-1", "+1", "1,1", "1 1", "1.0", "0x1", "\u{661}"] {
            let line = format!("Content-Length: {wrong}");
            assert_eq!(body(&[line.as_bytes()]), Err(Refusal::BadContentLength), "{wrong}");
        }
    }

    #[test]
    fn both_lengths_are_refused_whatever_they_say() {
        for coding in ["chunked", "gzip", "identity", ""] {
            let line = format!("Transfer-Encoding: {coding}");
            assert_eq!(
                body(&[line.as_bytes(), b"Content-Length: 0"]),
                Err(Refusal::AmbiguousLength),
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
            assert_eq!(
                read("1.0", &[&name]).is_ok(),
                is_token || byte == b':',
                "name {}",
                byte.escape_ascii()
            );
            let is_text = byte == b'\t' || (byte >= b' ' && byte != 0x7f);
            let value = [b'a', b':', b'b', byte, b'c'];
            assert_eq!(read("1.0", &[&value]).is_ok(), is_text, "value {}", byte.escape_ascii());
        }
    }

    #[test]
    fn white_space_around_a_value_is_not_part_of_it() {
        let head = read("1.0", &[b"a: \t b c\t ", b"d:", b"e:   "]).expect("in order");
        let value = |name: &str| head.request.headers()[name].as_bytes().to_vec();
        assert_eq!((value("a"), value("d"), value("e")), (b"b c".to_vec(), Vec::new(), Vec::new()));
    }

    #[test]
    fn who_wants_to_go_on() {
        let wants = |version: &str, options: &[&[u8]]| {
            let lines: Vec<&[u8]> = [&b"Host: a"[..]].into_iter().chain(options.iter().copied()).collect();
            read(version, &lines).expect("in order").keep_alive
        };
        assert!(wants("1.1", &[]));
        assert!(!wants("1.0", &[]));
        assert!(wants("1.0", &[b"Connection: Keep-Alive"]));
        assert!(!wants("1.1", &[b"Connection: keep-alive, Close"]));
        assert!(!wants("1.1", &[b"Connection: a", b"Connection: ,, b , close ,"]));
        assert!(wants("1.1", &[b"Connection: closed, not-close"]));
        assert!(!wants("1.0", &[b"Connection: keep-alives"]));
    }

    #[test]
    fn more_fields_than_a_map_holds_are_refused_not_a_panic() {
        let limits = Limits { head_bytes: 1 << 20, head_fields: 1 << 20, ..Limits::default() };
        let head = [b"GET / HTTP/1.0\r\n", "a:\r\n".repeat(40_000).as_bytes(), b"\r\n"].concat();
        let (line, section) = HeadLines::default().find(&head, &limits).unwrap().expect("the head is whole");
        assert_eq!(Head::parse(&head, &line, &section, &limits).unwrap_err(), Refusal::HeadTooLarge);
    }
}
