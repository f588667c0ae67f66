//! Fields as both roles read them into a map (RFC 9112 §5).

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};

use super::lines::Section;
use super::malformed::Malformed;

/// Parses the field lines from `start` to the empty line into `fields` (RFC 9112 §5), and has each looked at. All lines are
/// known to end in CRLF.
pub(super) fn parse_fields(
    section: &Bytes,
    start: usize,
    count: usize,
    fields: &mut HeaderMap,
    mut note: impl FnMut(&HeaderName, &HeaderValue),
) -> Result<(), Malformed> {
    fields.try_reserve(count).map_err(|_| Malformed::SectionTooLarge)?;
    let mut at = start;
    for _ in 0..count {
        let length = memchr::memchr(b'\n', &section[at..]).ok_or(Malformed::InvalidField)?;
        // The LF is preceded by a CR, or the line would have been refused when it came.
        let (name, value) = parse_field(section, at, at + length - 1)?;
        note(&name, &value);
        fields.try_append(name, value).map_err(|_| Malformed::SectionTooLarge)?;
        at += length + 1;
    }
    Ok(())
}

/// Parses the trailer section of a chunked body.
pub(super) fn parse_trailers(bytes: &[u8], section: &Section) -> Result<HeaderMap, Malformed> {
    let mut fields = HeaderMap::new();
    parse_fields(&Bytes::copy_from_slice(bytes), 0, section.fields, &mut fields, |_, _| {})?;
    if fields.keys().any(is_forbidden_trailer) { Err(Malformed::ForbiddenTrailer) } else { Ok(fields) }
}

/// The members of a comma-separated list over all fields of that name.
pub(super) fn list<'a>(fields: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a [u8]> {
    fields.get_all(name).iter().flat_map(|value| members(value.as_bytes()))
}

/// The members of a comma-separated list in one field; empty members do not count (RFC 9110 §5.6.1).
pub(super) fn members(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii).filter(|member| !member.is_empty())
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

/// `field-name ":" OWS field-value OWS`, from `start` to `end` of `section`.
fn parse_field(section: &Bytes, start: usize, end: usize) -> Result<(HeaderName, HeaderValue), Malformed> {
    let line = &section[start..end];
    if matches!(line.first(), Some(b' ' | b'\t')) {
        return Err(Malformed::FoldedField);
    }
    let colon = memchr::memchr(b':', line).ok_or(Malformed::InvalidField)?;
    // A name is a token: no space before the colon (RFC 9112 §5.1), and at least one character.
    let name = HeaderName::from_bytes(&line[..colon]).map_err(|_| Malformed::InvalidField)?;
    let raw = &line[colon + 1..];
    let leading = raw.iter().take_while(|byte| is_ows(**byte)).count();
    let trailing = raw[leading..].iter().rev().take_while(|byte| is_ows(**byte)).count();
    let value = section.slice(start + colon + 1 + leading..end - trailing);
    // Refuses CR, NUL and every other control character but HTAB (RFC 9110 §5.5).
    let value = HeaderValue::from_maybe_shared(value).map_err(|_| Malformed::InvalidField)?;
    Ok((name, value))
}

fn is_ows(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}
