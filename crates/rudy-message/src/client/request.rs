//! Encodes request heads.

use std::fmt;

use bytes::{BufMut, Bytes, BytesMut};
use http::header::HeaderMap;
use http::{Method, Uri, Version};

use crate::semantics::field::{FieldLines, KnownField, KnownFields};
use crate::syntax::{alphanumeric_and, members, parse_digits};
use crate::text::{needs_host, parse_target, put_content_length, put_field, split_authority};
use crate::{BodyLength, FieldValue, LazyHead};

/// A request head to encode.
///
/// [`Self::encode`] writes Content-Length or Transfer-Encoding for `body`. Encode a [`BodyLength::Chunked`] body with
/// `encode_chunk` and `encode_last_chunk` of rudy-http; send any other unchanged.
///
/// ```
/// use http::{HeaderMap, HeaderValue, Method, Version, header};
/// use rudy_message::BodyLength;
/// use rudy_message::client::RequestHead;
///
/// let mut fields = HeaderMap::new();
/// fields.insert(header::ACCEPT, HeaderValue::from_static("*/*"));
/// fields.insert(header::HOST, HeaderValue::from_static("a.example"));
/// let head = RequestHead {
///     method: &Method::GET,
///     target: "/",
///     version: Version::HTTP_11,
///     fields: (&fields).into(),
///     body: BodyLength::Known(0),
/// };
/// let mut out = bytes::BytesMut::new();
/// head.encode(&mut out)?;
/// assert_eq!(out, "GET / HTTP/1.1\r\nhost: a.example\r\naccept: */*\r\n\r\n");
/// # Ok::<(), rudy_message::client::RequestError>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct RequestHead<'a> {
    /// The method, which can be any token.
    pub method: &'a Method,
    /// The target, in a form that the method allows: a path, `*`, an absolute URI for a proxy, or an authority for CONNECT
    /// (RFC 9112 §3.2).
    pub target: &'a str,
    /// HTTP/1.0 or HTTP/1.1.
    pub version: Version,
    /// The fields, including Host, which HTTP/1.0 can omit.
    pub fields: RequestFields<'a>,
    /// The length of the body.
    pub body: BodyLength,
}

/// The fields of a request: in a map, or as they were received, with changes.
#[derive(Debug, Clone, Copy)]
#[expect(missing_docs, reason = "each variant is where the fields are")]
pub enum RequestFields<'a> {
    Map(&'a HeaderMap),
    Head(&'a LazyHead<'a>),
}

impl<'a> RequestFields<'a> {
    /// Returns the fields in a map.
    #[must_use]
    pub fn map(self) -> &'a HeaderMap {
        match self {
            Self::Map(map) => map,
            Self::Head(head) => head.headers(),
        }
    }

    /// Whether the values of all lines of a field are so.
    fn all(self, field: KnownField, mut is_so: impl FnMut(&[u8]) -> bool) -> bool {
        match self {
            Self::Map(map) => map.lines(field).all(&mut is_so),
            Self::Head(head) => !head.has(field) || head.lines(field).all(&mut is_so),
        }
    }

    /// Looks up a field.
    fn field(self, field: KnownField) -> FieldValue<'a> {
        match self {
            Self::Map(map) => FieldValue::of(map.lines(field)),
            Self::Head(head) => head.field(field),
        }
    }

    /// Whether the field is a received one, whose value was checked then.
    fn is_received(self, field: KnownField) -> bool {
        matches!(self, Self::Head(head) if head.received_with(field).is_some())
    }

    fn has(self, field: KnownField) -> bool {
        match self {
            Self::Map(map) => map.has(field),
            Self::Head(head) => head.has(field),
        }
    }

    /// Appends the lines of all fields that the encoder does not write itself.
    fn encode(self, out: &mut BytesMut) {
        match self {
            Self::Map(map) => {
                let is_own =
                    |name: &[u8]| KnownField::of(name).is_some_and(|field| OWN_FIELDS.contains(field));
                let fields = map.iter().map(|(name, value)| (name.as_str().as_bytes(), value.as_bytes()));
                for (name, value) in fields.filter(|(name, _)| !is_own(name)) {
                    put_field(name, value, out);
                }
            }
            Self::Head(head) => head.encode_lines(OWN_FIELDS, out),
        }
    }
}

impl<'a> From<&'a HeaderMap> for RequestFields<'a> {
    fn from(map: &'a HeaderMap) -> Self {
        Self::Map(map)
    }
}

impl<'a> From<&'a LazyHead<'a>> for RequestFields<'a> {
    fn from(head: &'a LazyHead<'a>) -> Self {
        Self::Head(head)
    }
}

/// The fields that the encoder writes itself.
const OWN_FIELDS: KnownFields =
    KnownFields::of(&[KnownField::Host, KnownField::ContentLength, KnownField::TransferEncoding]);

impl RequestHead<'_> {
    /// Appends the encoded head to `out`.
    ///
    /// # Errors
    ///
    /// The head is invalid or ambiguous. Nothing is appended.
    pub fn encode(&self, out: &mut BytesMut) -> Result<(), RequestError> {
        let host = self.check()?;
        out.put_slice(self.method.as_str().as_bytes());
        out.put_u8(b' ');
        out.put_slice(self.target.as_bytes());
        out.put_slice(if self.version == Version::HTTP_10 { b" HTTP/1.0\r\n" } else { b" HTTP/1.1\r\n" });
        // RFC 9112 §3.2 recommends Host as the first field.
        if let Some(host) = host {
            put_field(b"host", host, out);
        }
        self.fields.encode(out);
        match self.body {
            BodyLength::Chunked => put_field(b"transfer-encoding", b"chunked", out),
            BodyLength::Known(0) if !self.expects_content() => {}
            BodyLength::Known(length) => put_content_length(length, out),
        }
        out.put_slice(b"\r\n");
        Ok(())
    }

    /// Returns the properties that determine how the response is decoded.
    #[must_use]
    pub fn info(&self) -> RequestInfo {
        let has_option = |option: &str| {
            let is_option = |token: &[u8]| token.eq_ignore_ascii_case(option.as_bytes());
            !self.fields.all(KnownField::Connection, |line| !members(line).any(is_option))
        };
        let is_last = has_option("close") || (self.version == Version::HTTP_10 && !has_option("keep-alive"));
        RequestInfo {
            is_head: self.method == Method::HEAD,
            is_connect: self.method == Method::CONNECT,
            offers_upgrade: self.fields.has(KnownField::Upgrade),
            is_last,
        }
    }

    /// Returns the host.
    fn check(&self) -> Result<Option<&[u8]>, RequestError> {
        if !matches!(self.version, Version::HTTP_10 | Version::HTTP_11) {
            return Err(RequestError::UnsupportedVersion(self.version));
        }
        self.check_for_http2()
    }

    /// Checks all but the version. Returns the host.
    ///
    /// # Errors
    ///
    /// The head is invalid or ambiguous.
    pub fn check_for_http2(&self) -> Result<Option<&[u8]>, RequestError> {
        // Nearly all targets are paths of plain characters, which need no parser.
        let needs_host = if is_plain_path(self.target) && self.method != Method::CONNECT {
            true
        } else {
            needs_host(&self.parse_target()?)
        };
        let host = self.check_host(needs_host)?;
        self.check_framing()?;
        Ok(host)
    }

    fn parse_target(&self) -> Result<Uri, RequestError> {
        let target = Bytes::copy_from_slice(self.target.as_bytes());
        match parse_target(&target, 0..target.len(), self.method) {
            // The parser accepts bytes that a URI cannot contain (RFC 3986 §2).
            Some((uri, None)) if self.target.is_ascii() => Ok(uri),
            _ => Err(RequestError::BadTarget(self.target.to_owned())),
        }
    }

    /// Checks Host (RFC 9112 §3.2): exactly one in HTTP/1.1, at most one in HTTP/1.0, and always valid.
    fn check_host(&self, needs_host: bool) -> Result<Option<&[u8]>, RequestError> {
        let is_valid = |host: &[u8]| {
            (!needs_host || !host.is_empty())
                && (self.fields.is_received(KnownField::Host)
                    || split_authority(host).is_some_and(|(host, _)| !needs_host || !host.is_empty()))
        };
        match self.fields.field(KnownField::Host) {
            FieldValue::Absent if self.version == Version::HTTP_11 => Err(RequestError::MissingHost),
            FieldValue::Repeated => Err(RequestError::RepeatedHost),
            FieldValue::Once(host) if !is_valid(host) => {
                Err(RequestError::BadHost(String::from_utf8_lossy(host).into_owned()))
            }
            FieldValue::Once(host) => Ok(Some(host)),
            FieldValue::Absent => Ok(None),
        }
    }

    /// Checks that Content-Length and Transfer-Encoding match the body, if they are present.
    fn check_framing(&self) -> Result<(), RequestError> {
        if self.version == Version::HTTP_10 && self.body == BodyLength::Chunked {
            return Err(RequestError::ChunkedInHttp10);
        }
        if self.body == BodyLength::Known(0) && self.fields.has(KnownField::Expect) {
            return Err(RequestError::ExpectWithoutContent);
        }
        let is_length = |value: &[u8]| matches!(self.body, BodyLength::Known(length) if parse_digits(value) == Some(length));
        let is_chunked =
            |value: &[u8]| self.body == BodyLength::Chunked && value.eq_ignore_ascii_case(b"chunked");
        let lengths_agree = self.fields.all(KnownField::ContentLength, is_length);
        let codings_agree = self.fields.all(KnownField::TransferEncoding, is_chunked);
        if lengths_agree && codings_agree { Ok(()) } else { Err(RequestError::ConflictingLength(self.body)) }
    }

    /// Whether the method suggests content, so that a length of 0 must be sent (RFC 9110 §8.6).
    #[must_use]
    #[inline]
    pub fn expects_content(&self) -> bool {
        [Method::POST, Method::PUT, Method::PATCH].contains(self.method)
    }
}

/// The properties of a request that determine how its response is decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RequestInfo {
    /// The method is HEAD: the response has no body, regardless of its fields.
    pub is_head: bool,
    /// The method is CONNECT: a 2xx makes the connection a tunnel.
    pub is_connect: bool,
    /// The request has Upgrade: the response may be a 101.
    pub offers_upgrade: bool,
    /// The request is the last on its connection: `Connection: close`, or HTTP/1.0 without `keep-alive`.
    pub is_last: bool,
}

/// The longest path that is checked without the parser, which limits the length of a target.
const PLAIN_BYTES_MAX: usize = 8 * 1024;

/// Returns whether a target is a path with characters of RFC 3986 §3.3 and §3.4 only.
fn is_plain_path(target: &str) -> bool {
    let is_plain = |byte: u8| PLAIN[usize::from(byte)];
    target.starts_with('/') && target.len() <= PLAIN_BYTES_MAX && target.bytes().all(is_plain)
}

static PLAIN: [bool; 256] = alphanumeric_and(b"-._~!$&'()*+,;=:@/?%");

/// The reason why a request cannot be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestError {
    /// A Host that is not `uri-host [ ":" port ]` (RFC 9112 §3.2).
    BadHost(String),
    /// A target in a form that the method does not allow (RFC 9112 §3.2).
    BadTarget(String),
    /// A chunked body with HTTP/1.0, which does not support it (RFC 9112 §6.1).
    ChunkedInHttp10,
    /// A Content-Length or Transfer-Encoding field that does not match the body.
    ConflictingLength(BodyLength),
    /// An Expect without a body (RFC 9110 §10.1.1).
    ExpectWithoutContent,
    /// No Host with HTTP/1.1 (RFC 9112 §3.2).
    MissingHost,
    /// More than one Host (RFC 9112 §3.2).
    RepeatedHost,
    /// Neither HTTP/1.0 nor HTTP/1.1.
    UnsupportedVersion(Version),
}

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BadHost(host) => {
                write!(f, "Host is {host:?}; expected a host name or IP address with an optional port")
            }
            Self::BadTarget(target) => {
                // A query may have secrets, and errors are logged.
                let (path, and) = match target.split_once('?') {
                    Some((path, _)) => (path, " and a query"),
                    None => (target.as_str(), ""),
                };
                write!(
                    f,
                    "the request target is {path:?}{and}; expected a path or an absolute URI (OPTIONS: or *; CONNECT: host:port), \
                     with other characters percent-encoded"
                )
            }
            Self::ChunkedInHttp10 => {
                f.write_str("HTTP/1.0 does not support chunked bodies; use a body of known length")
            }
            Self::ConflictingLength(BodyLength::Known(length)) => write!(
                f,
                "the body is {length} bytes long, but Content-Length or Transfer-Encoding differs; omit the field"
            ),
            Self::ConflictingLength(BodyLength::Chunked) => f.write_str(
                "the body is chunked, but Content-Length or Transfer-Encoding differs; omit the field",
            ),
            Self::ExpectWithoutContent => f.write_str("the request has Expect, but no body"),
            Self::MissingHost => f.write_str("the Host field is missing"),
            Self::RepeatedHost => f.write_str("the request has more than one Host field"),
            Self::UnsupportedVersion(version) => {
                write!(f, "the version is {version:?}; expected HTTP/1.0 or HTTP/1.1")
            }
        }
    }
}

impl std::error::Error for RequestError {}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};

    use super::*;

    fn map(fields: &[(&str, &str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in fields {
            map.append(HeaderName::try_from(*name).unwrap(), HeaderValue::try_from(*value).unwrap());
        }
        map
    }

    fn encode(
        request: (&str, &str, Version),
        fields: &[(&str, &str)],
        body: BodyLength,
    ) -> Result<String, RequestError> {
        let (method, target, version) = request;
        let method = Method::try_from(method).unwrap();
        let mut out = BytesMut::new();
        let encoded = RequestHead { method: &method, target, version, fields: (&map(fields)).into(), body }
            .encode(&mut out);
        if encoded.is_err() {
            assert!(out.is_empty(), "nothing is appended");
        }
        encoded.map(|()| String::from_utf8(out.to_vec()).unwrap())
    }

    const HOST: (&str, &str) = ("host", "a");
    const NONE: BodyLength = BodyLength::Known(0);

    #[test]
    fn host_is_the_first_field() {
        let fields = [("Accept", "*/*"), ("X-A", "1"), ("Host", "a:80"), ("X-A", "2")];
        assert_eq!(
            encode(("GET", "/b?c", Version::HTTP_11), &fields, NONE).unwrap(),
            "GET /b?c HTTP/1.1\r\nhost: a:80\r\naccept: */*\r\nx-a: 1\r\nx-a: 2\r\n\r\n"
        );
        assert_eq!(encode(("GET", "/", Version::HTTP_10), &[], NONE).unwrap(), "GET / HTTP/1.0\r\n\r\n");
    }

    #[test]
    fn invalid_hosts_are_rejected() {
        let host = |fields: &[(&str, &str)]| encode(("GET", "/", Version::HTTP_11), fields, NONE).map(drop);
        assert_eq!(host(&[]), Err(RequestError::MissingHost));
        assert_eq!(host(&[HOST, HOST]), Err(RequestError::RepeatedHost));
        for wrong in ["a b", "u@a", "a/b", "a:x", "[::1", "a:65536", "", ":80"] {
            assert_eq!(host(&[("host", wrong)]), Err(RequestError::BadHost(wrong.to_owned())));
        }
        for (method, target) in [("OPTIONS", "*"), ("GET", "http://a/")] {
            let sent = encode((method, target, Version::HTTP_11), &[("host", "")], NONE).map(drop);
            assert_eq!(sent, Ok(()), "{target} needs no Host");
        }
    }

    #[test]
    fn the_encoder_writes_the_framing() {
        let end = |method, fields: &[(&str, &str)], body| {
            let fields: Vec<_> = [HOST].iter().chain(fields).copied().collect();
            let head = encode((method, "/", Version::HTTP_11), &fields, body)?;
            Ok(head.split_once("host: a\r\n").unwrap().1.replace("\r\n", ";"))
        };
        assert_eq!(end("GET", &[], NONE).unwrap(), ";");
        assert_eq!(end("POST", &[], NONE).unwrap(), "content-length: 0;;", "RFC 9110 §8.6");
        assert_eq!(end("GET", &[], BodyLength::Known(3)).unwrap(), "content-length: 3;;");
        assert_eq!(end("PUT", &[], BodyLength::Chunked).unwrap(), "transfer-encoding: chunked;;");
        for (fields, body) in [
            (&[("content-length", "3")][..], BodyLength::Known(3)),
            (&[("content-length", "3"), ("content-length", "3")], BodyLength::Known(3)),
            // RFC 9110 §8.6: 1*DIGIT.
            (&[("content-length", "003")], BodyLength::Known(3)),
        ] {
            assert_eq!(end("PUT", fields, body).unwrap(), "content-length: 3;;");
        }
        let chunked = end("PUT", &[("transfer-encoding", "Chunked")], BodyLength::Chunked);
        assert_eq!(chunked.unwrap(), "transfer-encoding: chunked;;");
        for (fields, body) in [
            (&[("content-length", "4")][..], BodyLength::Known(3)),
            (&[("content-length", "+3")], BodyLength::Known(3)),
            (&[("content-length", "3, 3")], BodyLength::Known(3)),
            (&[("content-length", "3"), ("content-length", "4")], BodyLength::Known(3)),
            (&[("content-length", "3")], NONE),
            (&[("content-length", "3")], BodyLength::Chunked),
            (&[("transfer-encoding", "chunked")], BodyLength::Known(3)),
            (&[("transfer-encoding", "gzip, chunked")], BodyLength::Chunked),
            (&[("transfer-encoding", "chunked"), ("content-length", "3")], BodyLength::Chunked),
        ] {
            assert_eq!(end("PUT", fields, body), Err(RequestError::ConflictingLength(body)), "{fields:?}");
        }
    }

    #[test]
    fn features_of_other_versions_are_rejected() {
        let put =
            |version, fields: &[(&str, &str)], body| encode(("PUT", "/", version), fields, body).map(drop);
        assert_eq!(put(Version::HTTP_10, &[], BodyLength::Chunked), Err(RequestError::ChunkedInHttp10));
        assert_eq!(
            put(Version::HTTP_2, &[HOST], NONE),
            Err(RequestError::UnsupportedVersion(Version::HTTP_2))
        );
        let expect = ("expect", "100-continue");
        assert_eq!(put(Version::HTTP_11, &[HOST, expect], NONE), Err(RequestError::ExpectWithoutContent));
        assert_eq!(put(Version::HTTP_11, &[HOST, expect], BodyLength::Known(1)), Ok(()));
    }

    #[test]
    fn targets_have_one_of_four_forms_and_cannot_inject_fields() {
        let send = |method, target| encode((method, target, Version::HTTP_11), &[HOST], NONE).map(drop);
        for (method, target) in [
            ("GET", "/"),
            ("GET", "/a%20b?c=d&e"),
            ("GET", "http://a/b"),
            ("OPTIONS", "*"),
            ("CONNECT", "a:443"),
            ("PURGE", "/a"),
        ] {
            assert_eq!(send(method, target), Ok(()), "{method} {target}");
        }
        for (method, target) in [
            ("GET", ""),
            ("GET", "*"),
            ("GET", "a"),
            ("GET", "/a b"),
            ("GET", "/a#b"),
            ("GET", "/\u{e4}"),
            ("GET", "/ HTTP/1.1\r\nX: y\r\n\r\nGET /"),
            ("GET", "/\r"),
            ("GET", "/\n"),
            ("GET", "/\0"),
            ("GET", "/\t"),
            ("GET", "http://u@a/"),
            ("CONNECT", "/"),
            ("CONNECT", "a"),
        ] {
            let error = RequestError::BadTarget(target.to_owned());
            assert_eq!(send(method, target), Err(error), "{method} {target:?}");
        }
    }

    #[test]
    fn an_error_shows_no_query() {
        for (target, shown) in [("/\u{e4}?key=secret", "\"/\u{e4}\" and a query;"), ("/a b", "\"/a b\";")] {
            let error = RequestError::BadTarget(target.to_owned()).to_string();
            assert!(error.contains(shown) && !error.contains("secret"), "{error}");
        }
    }

    #[test]
    fn method_version_and_fields_give_the_request_info() {
        let info = |method, version, fields: &[(&str, &str)]| {
            let (fields, body) = (map(fields), NONE);
            RequestHead { method: &method, target: "/", version, fields: (&fields).into(), body }.info()
        };
        let get = RequestInfo::default();
        assert_eq!(info(Method::GET, Version::HTTP_11, &[]), get);
        assert_eq!(info(Method::HEAD, Version::HTTP_11, &[]), RequestInfo { is_head: true, ..get });
        assert_eq!(info(Method::CONNECT, Version::HTTP_11, &[]), RequestInfo { is_connect: true, ..get });
        let upgrade = [("connection", "upgrade"), ("upgrade", "websocket")];
        assert_eq!(
            info(Method::GET, Version::HTTP_11, &upgrade),
            RequestInfo { offers_upgrade: true, ..get }
        );
        let last = RequestInfo { is_last: true, ..get };
        assert_eq!(info(Method::GET, Version::HTTP_11, &[("connection", "a, Close")]), last);
        assert_eq!(info(Method::GET, Version::HTTP_10, &[]), last);
        assert_eq!(info(Method::GET, Version::HTTP_10, &[("connection", "Keep-Alive")]), get);
    }

    #[test]
    fn a_plain_path_is_one_that_the_parser_accepts() {
        let fields = HeaderMap::new();
        let head = |target| RequestHead {
            method: &Method::GET,
            target,
            version: Version::HTTP_11,
            fields: (&fields).into(),
            body: BodyLength::Known(0),
        };
        for target in ["/", "/a?b", "//x", "/%zz?%", "/a:b@c", "/?", "/a//..", "/!$&'()*+,;=~"] {
            assert!(
                is_plain_path(target) && head(target).parse_target().is_ok_and(|uri| needs_host(&uri)),
                "{target}"
            );
        }
        for target in ["", "a", "*", "/a#b", "/\u{fc}", "/a b", "/<", "http://a/", "/\"", "/{", "/\\"] {
            assert!(!is_plain_path(target), "{target}");
        }
    }
}
