//! Parses fields (RFC 9112 §5), for both roles.

use bytes::Bytes;
use http::header::{HeaderMap, HeaderName, HeaderValue};

use super::{Lines, Section};
use crate::syntax::split_field;
use crate::{Malformed, MessageLimits, Rejection};

/// Room for the fields that a proxy adds by default: growing the map later would hash all names again. With room for more, a map of few
/// fields would be too large for the free blocks that the allocator caches.
const ADDED_FIELDS: usize = 4;

/// An iterator over the names and values of the fields in a head.
#[derive(Debug, Clone)]
pub struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    /// Iterates over `lines`, which must be valid and end with the empty line.
    #[must_use]
    #[inline]
    pub fn new(lines: &'a [u8]) -> Self {
        Self { rest: lines }
    }

    /// As [`Self::next`], with the name as bytes.
    #[inline]
    pub fn next_bytes(&mut self) -> Option<(&'a [u8], &'a [u8])> {
        let end = memchr::memchr(b'\n', self.rest)?;
        // The empty line has no colon.
        let colon = memchr::memchr(b':', &self.rest[..end])?;
        // Names in responses may have white space behind them.
        let (name, value) = (self.rest[..colon].trim_ascii_end(), self.rest[colon + 1..end].trim_ascii());
        self.rest = &self.rest[end + 1..];
        Some((name, value))
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = (&'a str, &'a [u8]);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let (name, value) = self.next_bytes()?;
        // A token is ASCII.
        Some((std::str::from_utf8(name).ok()?, value))
    }
}

/// Splits a field line into name and value (RFC 9112 §5).
pub(super) fn read_field(line: &[u8]) -> Result<(&[u8], &[u8]), Malformed> {
    split_field(line).ok_or(match line.first() {
        Some(b' ' | b'\t') => Malformed::FoldedField,
        _ => Malformed::InvalidField,
    })
}

/// Appends `count` valid fields to `map`, beginning at `start` of `section`. `None` if the map cannot hold them.
pub(crate) fn build_fields(section: &Bytes, start: usize, count: usize, map: &mut HeaderMap) -> Option<()> {
    map.try_reserve(count + ADDED_FIELDS).ok()?;
    let mut fields = Fields::new(&section[start..]);
    while let Some((name, value)) = fields.next_bytes() {
        let name = HeaderName::from_bytes(name).ok()?;
        let value = HeaderValue::from_maybe_shared(section.slice_ref(value)).ok()?;
        map.try_append(name, value).ok()?;
    }
    Some(())
}

/// Parses the trailer section of a chunked body.
pub fn parse_trailers(bytes: &[u8], section: &Section) -> Result<HeaderMap, Malformed> {
    for line in bytes.split(|byte| *byte == b'\n').take(section.fields) {
        read_field(line.strip_suffix(b"\r").unwrap_or(line))?;
    }
    let mut fields = HeaderMap::new();
    build_fields(&Bytes::copy_from_slice(bytes), 0, section.fields, &mut fields)
        .ok_or(Malformed::SectionTooLarge)?;
    if fields.keys().any(is_forbidden_trailer) { Err(Malformed::ForbiddenTrailer) } else { Ok(fields) }
}

/// Parses a trailer section that is complete, with its empty line. `None` without fields.
pub fn read_trailers(section: &[u8], limits: &MessageLimits) -> Result<Option<HeaderMap>, Rejection> {
    match Lines::default().find_trailers(section, limits)? {
        Some(found) if found.fields > 0 => Ok(Some(parse_trailers(section, &found)?)),
        _ => Ok(None),
    }
}

/// Whether a field is not allowed as a trailer (RFC 9110 §6.5.1): framing, routing, request modifiers, authentication,
/// response control, content format.
#[must_use]
pub fn is_forbidden_trailer(name: &HeaderName) -> bool {
    const FORBIDDEN: &str = "authorization cache-control connection content-encoding content-length content-range content-type cookie \
        expect host if-match if-modified-since if-none-match if-range if-unmodified-since \
        max-forwards proxy-authorization range te trailer transfer-encoding upgrade";
    FORBIDDEN.split(' ').any(|forbidden| forbidden == name.as_str())
}
