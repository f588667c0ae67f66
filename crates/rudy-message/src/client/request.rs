//! Encodes request heads.

#[cfg(test)]
mod tests;

use bytes::{BufMut, Bytes, BytesMut};
use http::header::HeaderMap;
use http::{Method, Uri, Version};

use super::error::RequestError;
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
