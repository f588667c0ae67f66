//! A view of a request head, from which an [`http::Request`] can be built.

#[cfg(test)]
mod tests;

use std::ops::Deref;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderName, Method, Request, Uri, Version};

use crate::semantics::field::{FieldLines, KnownField, KnownFields, NameStarts};
use crate::text::{
    CompleteHead, FieldPositions, FieldScan, HeadLines, RequestLine, TargetParts, build_fields, parse_target,
};
use crate::{BodyLength, Fields, MessageLimits, RawTarget, Rejection};

/// A view of a valid request head. It allocates nothing if the head arrived in one read.
///
/// A service can respond from this view alone, or change it as a [`LazyHead`](crate::LazyHead).
#[derive(Debug, Clone)]
pub struct RequestHead<'a> {
    bytes: HeadBytes<'a>,
    line: RequestLine,
    method: Method,
    target: TargetParts,
    field_count: usize,
    positions: FieldPositions,
    body: BodyLength,
    /// The client allows another request after this exchange.
    keep_alive: bool,
    /// The client waits for `100 Continue` before it sends the body.
    expects_continue: bool,
}

/// The bytes of a head.
#[derive(Debug, Clone)]
enum HeadBytes<'a> {
    Borrowed(&'a [u8]),
    Owned(Bytes),
}

impl Deref for HeadBytes<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Borrowed(bytes) => bytes,
            Self::Owned(bytes) => bytes,
        }
    }
}

impl HeadBytes<'_> {
    /// Returns the bytes for values that outlive them.
    fn to_shared(&self) -> Bytes {
        match self {
            Self::Borrowed(bytes) => Bytes::copy_from_slice(bytes),
            Self::Owned(bytes) => bytes.clone(),
        }
    }
}

/// The result of looking up a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldValue<'a> {
    /// The field is missing.
    Absent,
    /// The field has one line, with this value.
    Once(&'a [u8]),
    /// The field has several lines: see [`FieldLines::lines`].
    Repeated,
}

impl<'a> FieldValue<'a> {
    /// Creates the result from the values of the field's lines.
    pub(crate) fn of(mut lines: impl Iterator<Item = &'a [u8]>) -> Self {
        match (lines.next(), lines.next()) {
            (None, _) => Self::Absent,
            (Some(value), None) => Self::Once(value),
            (Some(_), Some(_)) => Self::Repeated,
        }
    }
}

impl<'a> RequestHead<'a> {
    /// Checks the head in `bytes`, which `complete` describes.
    ///
    /// # Errors
    ///
    /// The head is invalid, or violates a limit.
    #[inline]
    pub fn new(bytes: &'a [u8], complete: CompleteHead, limits: &MessageLimits) -> Result<Self, Rejection> {
        Self::read(bytes, complete, |method, line, scan| {
            if *method == Method::CONNECT {
                return Err(Rejection::ConnectNotAllowed);
            }
            Ok(Semantics {
                body: scan.body_length(line.version, limits)?,
                expects_continue: scan.expects_continue(line.version)?,
                keep_alive: scan.connection.keep_alive(line.version == Version::HTTP_10),
            })
        })
    }

    /// Reads a rejected head again, for the response. It has no body. `None` if the head is incomplete or malformed, so that its
    /// host is unknown.
    #[must_use]
    pub fn of_rejected(bytes: &'a [u8], limits: &MessageLimits) -> Option<Self> {
        let complete = HeadLines::default().find(bytes, limits).ok()??;
        let semantics = Semantics { body: BodyLength::Known(0), expects_continue: false, keep_alive: false };
        Self::read(bytes, complete, |_, _, _| Ok(semantics)).ok()
    }

    /// Checks all lines of a head, then takes what they mean from `semantics`. Generic, so that its copy for requests that are not
    /// rejected is compiled into their path: a call would copy the method and the target of each.
    #[inline]
    fn read(
        bytes: &'a [u8],
        complete: CompleteHead,
        semantics: impl FnOnce(&Method, &RequestLine, &FieldScan) -> Result<Semantics, Rejection>,
    ) -> Result<Self, Rejection> {
        let CompleteHead { line, section, scan } = complete;
        let method = line.method(bytes)?;
        let target = TargetParts::find(bytes, line.target(), &method).ok_or(Rejection::BadTarget)?;
        scan.check_lines(section.fields)?;
        scan.check_host(line.version, target.needs_host)?;
        let Semantics { body, expects_continue, keep_alive } = semantics(&method, &line, &scan)?;
        Ok(Self {
            bytes: HeadBytes::Borrowed(bytes),
            line,
            method,
            target,
            field_count: section.fields,
            positions: scan.positions,
            body,
            keep_alive,
            expects_continue,
        })
    }

    /// Checks the head of a request over HTTP/2 or HTTP/3, which was written in the form of HTTP/1.1: that of a tunnel as an upgrade.
    ///
    /// # Errors
    ///
    /// The head is invalid, or violates a limit.
    pub fn of_field_section(
        bytes: &'a [u8],
        version: Version,
        is_tunnel: bool,
        limits: &MessageLimits,
    ) -> Result<Self, Rejection> {
        let complete = HeadLines::default().find(bytes, limits)?.ok_or(Rejection::BadRequestLine)?;
        let mut head = Self::new(bytes, complete, limits)?;
        head.line.version = version;
        if is_tunnel {
            head.method = Method::CONNECT;
        }
        Ok(head)
    }

    /// Returns the value of Content-Length.
    #[must_use]
    #[inline]
    pub fn stated_length(&self) -> Option<u64> {
        match self.body {
            BodyLength::Known(length) if self.has(KnownField::ContentLength) => Some(length),
            _ => None,
        }
    }

    /// Returns the head with this length of its body.
    #[must_use]
    #[inline]
    pub fn with_body(self, body: BodyLength) -> Self {
        Self { body, ..self }
    }

    /// Returns the head with a copy of its bytes.
    #[must_use]
    pub fn into_owned<'b>(self) -> RequestHead<'b> {
        RequestHead { bytes: HeadBytes::Owned(self.bytes.to_shared()), ..self }
    }

    /// Returns the size of the head with its empty line: as it was received, or as HTTP/1.1 has it if it came over a later version.
    #[must_use]
    pub fn size(&self) -> usize {
        self.bytes.len()
    }

    /// Returns the method, which can be any token.
    #[must_use]
    #[inline]
    pub fn method(&self) -> &Method {
        &self.method
    }

    /// Returns HTTP/1.0, HTTP/1.1, HTTP/2 or HTTP/3. Higher minor versions count as HTTP/1.1 (RFC 9110 §2.5).
    #[must_use]
    #[inline]
    pub fn version(&self) -> Version {
        self.line.version
    }

    /// Returns the target, not decoded (RFC 9112 §3.2).
    #[must_use]
    #[inline]
    pub fn target(&self) -> &[u8] {
        &self.bytes[self.line.target()]
    }

    /// Returns the path, not decoded, or `*` for an OPTIONS request about the whole server.
    #[must_use]
    pub fn path(&self) -> &[u8] {
        match &self.bytes[self.target.path.clone()] {
            // `http://a?b`: RFC 9112 §3.2.1.
            [] => b"/",
            path => path,
        }
    }

    /// Returns the query: the part of the target after the first question mark.
    #[must_use]
    pub fn query(&self) -> Option<&[u8]> {
        let after_path = &self.bytes[self.target.path.end..self.line.target().end];
        after_path.strip_prefix(b"?")
    }

    /// Returns the requested host, with a port if it has one. A host in the target overrides the Host field (RFC 9112 §3.2.2).
    /// Empty if the request has no host.
    #[must_use]
    pub fn host(&self) -> &[u8] {
        match (self.authority(), self.field(KnownField::Host)) {
            (Some(authority), _) => authority,
            (None, FieldValue::Once(host)) => host,
            (None, _) => b"",
        }
    }

    /// Returns the authority of a target in absolute form.
    pub(crate) fn authority(&self) -> Option<&[u8]> {
        self.target.authority.as_ref().map(|authority| &self.bytes[authority.clone()])
    }

    /// Returns the values of all lines with this name, in their order.
    pub fn lines_named<'s>(&'s self, name: &HeaderName) -> impl Iterator<Item = &'s [u8]> {
        let known = KnownField::of(name.as_str().as_bytes());
        let found = known.into_iter().flat_map(|field| self.lines(field));
        let searched = known.is_none().then(|| self.field_bytes()).into_iter().flatten();
        let searched =
            searched.filter(move |(other, _)| other.eq_ignore_ascii_case(name.as_str().as_bytes()));
        found.chain(searched.map(|(_, value)| value))
    }

    /// Looks up a field.
    #[must_use]
    pub fn field(&self, field: KnownField) -> FieldValue<'_> {
        match self.positions.of(field, &self.bytes) {
            None => FieldValue::Absent,
            Some(_) if self.positions.is_repeated(field) => FieldValue::Repeated,
            Some(place) => FieldValue::Once(self.bytes[place].trim_ascii()),
        }
    }

    /// Returns the fields in their original order and spelling, without white space around the values.
    #[must_use]
    #[inline]
    pub fn fields(&self) -> Fields<'_> {
        Fields::new(&self.bytes[self.line.end()..])
    }

    /// Returns the same with names as bytes: to check that they are text costs as much as to find them.
    pub(crate) fn field_bytes(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let mut fields = self.fields();
        std::iter::from_fn(move || fields.next_bytes())
    }

    /// Returns the known fields that are present.
    #[inline]
    pub(crate) fn known_fields(&self) -> KnownFields {
        self.positions.present
    }

    /// Returns what the names look like.
    #[inline]
    pub(crate) fn name_starts(&self) -> NameStarts {
        self.positions.name_starts
    }

    /// Whether there may be fields with names that are, or begin as, some of these. Costs less than a search for them.
    #[must_use]
    #[inline]
    pub fn may_have_any(&self, names: NameStarts) -> bool {
        self.name_starts().intersects(names)
    }

    /// Whether all names consist of letters, digits and hyphens.
    #[inline]
    pub(crate) fn has_plain_names(&self) -> bool {
        !self.positions.has_unusual_names
    }

    /// Appends the lines as they were received, except those of `skipped`. Returns `false` without appending anything if one of these has
    /// several lines.
    pub(crate) fn copy_lines_except(&self, skipped: KnownFields, out: &mut BytesMut) -> bool {
        let Some(places) = self.positions.lines_of(skipped, &self.bytes) else { return false };
        let mut start = self.line.end();
        for (skipped, end) in places.as_slice() {
            out.extend_from_slice(&self.bytes[start..*skipped]);
            start = *end;
        }
        // The empty line is the last one.
        out.extend_from_slice(&self.bytes[start..self.bytes.len() - 2]);
        true
    }

    /// Whether the client allows another request on the connection after this exchange.
    #[must_use]
    #[inline]
    pub fn keep_alive(&self) -> bool {
        self.keep_alive
    }

    /// Whether the client waits for `100 Continue` before it sends the body.
    #[must_use]
    #[inline]
    pub fn expects_continue(&self) -> bool {
        self.expects_continue
    }

    /// Returns the length of the body. Unless it is `Known(0)`, events for pieces and the end of the body follow.
    #[must_use]
    #[inline]
    pub fn body_length(&self) -> BodyLength {
        self.body
    }

    /// Returns the path and the query, not decoded. `None` if the target has no path (RFC 9112 §3.2.2: `http://a?b`).
    pub(crate) fn path_and_query(&self) -> Option<&[u8]> {
        let from_path = &self.bytes[self.target.path.start..self.line.target().end];
        Some(from_path).filter(|_| !self.target.path.is_empty())
    }

    /// Builds the URI of the target, with what it cannot hold in another form.
    fn parse_target(&self, bytes: &Bytes) -> (Uri, Option<RawTarget>) {
        // A tunnel over HTTP/2 or HTTP/3 has the target of a GET.
        let is_tunnel = self.method == Method::CONNECT && self.line.version >= Version::HTTP_2;
        let written_method = if is_tunnel { &Method::GET } else { &self.method };
        parse_target(bytes, self.line.target(), written_method).expect("the target has been checked")
    }

    /// Builds the URI of the target. Bytes that it cannot hold are percent-encoded there.
    pub(crate) fn to_uri(&self) -> (Uri, Option<RawTarget>) {
        self.parse_target(&self.bytes.to_shared())
    }

    fn build_map(&self, bytes: &Bytes) -> HeaderMap {
        let mut map = HeaderMap::new();
        build_fields(bytes, self.line.end(), self.field_count, &mut map)
            .expect("the fields have been checked");
        map
    }

    /// Builds a map of the fields.
    pub(crate) fn to_map(&self) -> HeaderMap {
        self.build_map(&self.bytes.to_shared())
    }

    /// Builds the request. The target and all values share one copy of the head.
    #[must_use]
    pub fn into_request(self) -> Request<BodyLength> {
        let bytes = self.bytes.to_shared();
        let mut request = Request::new(self.body);
        let (uri, raw_target) = self.parse_target(&bytes);
        *request.headers_mut() = self.build_map(&bytes);
        *request.method_mut() = self.method;
        *request.uri_mut() = uri;
        *request.version_mut() = self.line.version;
        if let Some(raw_target) = raw_target {
            request.extensions_mut().insert(raw_target);
        }
        request
    }
}

/// What the fields of a head mean for its connection.
struct Semantics {
    body: BodyLength,
    expects_continue: bool,
    keep_alive: bool,
}

impl FieldLines for RequestHead<'_> {
    fn lines(&self, field: KnownField) -> impl Iterator<Item = &[u8]> {
        let (first, all) = match self.field(field) {
            FieldValue::Absent => (None, None),
            FieldValue::Once(value) => (Some(value), None),
            FieldValue::Repeated => (None, Some(self.fields())),
        };
        let is_field = move |name: &str| KnownField::of(name.as_bytes()) == Some(field);
        let all = all.into_iter().flatten().filter(move |(name, _)| is_field(name));
        first.into_iter().chain(all.map(|(_, value)| value))
    }

    #[inline]
    fn has(&self, field: KnownField) -> bool {
        self.positions.present.contains(field)
    }
}
