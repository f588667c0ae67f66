//! Fields as both roles read them into a map (RFC 9112 §5).

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};

use super::lines::Section;
use super::malformed::Malformed;
use crate::syntax::{members, split_field};

/// The fields of a head.
#[derive(Debug, Clone)]
pub struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    /// Those in `lines`, which have been checked and end with the empty line.
    pub(super) fn new(lines: &'a [u8]) -> Self {
        Self { rest: lines }
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = (&'a str, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let end = memchr::memchr(b'\n', self.rest)?;
        // The LF is preceded by a CR; the empty line, which ends the head, has no name.
        let (name, value) = split_field(self.rest[..end].strip_suffix(b"\r")?)?;
        self.rest = &self.rest[end + 1..];
        // A token is ASCII.
        Some((std::str::from_utf8(name).ok()?, value))
    }
}

/// The name and the value of a field line (RFC 9112 §5).
pub(super) fn read_field(line: &[u8]) -> Result<(&[u8], &[u8]), Malformed> {
    split_field(line).ok_or(match line.first() {
        Some(b' ' | b'\t') => Malformed::FoldedField,
        _ => Malformed::InvalidField,
    })
}

/// Parses the field lines from `start` to the empty line into `fields`. All lines are known to end in CRLF.
pub(super) fn parse_fields(
    section: &Bytes,
    start: usize,
    count: usize,
    fields: &mut HeaderMap,
) -> Result<(), Malformed> {
    fields.try_reserve(count).map_err(|_| Malformed::SectionTooLarge)?;
    let mut at = start;
    for _ in 0..count {
        let length = memchr::memchr(b'\n', &section[at..]).ok_or(Malformed::InvalidField)?;
        // The LF is preceded by a CR, or the line would have been refused when it came.
        let line = &section[at..at + length - 1];
        if matches!(line.first(), Some(b' ' | b'\t')) {
            return Err(Malformed::FoldedField);
        }
        let colon = memchr::memchr(b':', line).ok_or(Malformed::InvalidField)?;
        let name = HeaderName::from_bytes(&line[..colon]).map_err(|_| Malformed::InvalidField)?;
        let value = HeaderValue::from_maybe_shared(section.slice_ref(trim_spaces(&line[colon + 1..])));
        let value = value.map_err(|_| Malformed::InvalidField)?;
        fields.try_append(name, value).map_err(|_| Malformed::SectionTooLarge)?;
        at += length + 1;
    }
    Ok(())
}

/// Parses the trailer section of a chunked body.
pub(super) fn parse_trailers(bytes: &[u8], section: &Section) -> Result<HeaderMap, Malformed> {
    let mut fields = HeaderMap::new();
    parse_fields(&Bytes::copy_from_slice(bytes), 0, section.fields, &mut fields)?;
    if fields.keys().any(is_forbidden_trailer) { Err(Malformed::ForbiddenTrailer) } else { Ok(fields) }
}

/// The members of a comma-separated list over all fields of that name.
pub(super) fn list<'a>(fields: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a [u8]> {
    fields.get_all(name).iter().flat_map(|value| members(value.as_bytes()))
}

/// RFC 9110 §6.5.1: framing, routing, request modifiers, authentication, response control, content format.
pub(super) fn is_forbidden_trailer(name: &HeaderName) -> bool {
    const FORBIDDEN: [HeaderName; 22] = [
        header::AUTHORIZATION,
        header::CACHE_CONTROL,
        header::CONNECTION,
        header::CONTENT_ENCODING,
        header::CONTENT_LENGTH,
        header::CONTENT_RANGE,
        header::CONTENT_TYPE,
        header::COOKIE,
        header::EXPECT,
        header::HOST,
        header::IF_MATCH,
        header::IF_MODIFIED_SINCE,
        header::IF_NONE_MATCH,
        header::IF_RANGE,
        header::IF_UNMODIFIED_SINCE,
        header::MAX_FORWARDS,
        header::PROXY_AUTHORIZATION,
        header::RANGE,
        header::TE,
        header::TRAILER,
        header::TRANSFER_ENCODING,
        header::UPGRADE,
    ];
    FORBIDDEN.contains(name)
}

fn trim_spaces(value: &[u8]) -> &[u8] {
    let is_space = |byte: &u8| matches!(byte, b' ' | b'\t');
    let start = value.iter().position(|byte| !is_space(byte)).unwrap_or(value.len());
    let end = value.iter().rposition(|byte| !is_space(byte)).map_or(start, |last| last + 1);
    &value[start..end]
}
