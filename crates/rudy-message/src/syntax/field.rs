//! Parses one field line of a head or a trailer section (RFC 9112 §5), without copying it.

use super::token::is_token;

/// The longest name that fits a [`http::HeaderName`].
const NAME_BYTES_MAX: usize = (1 << 16) - 1;

/// Splits `field-name ":" OWS field-value OWS` into name and value. `None` if the name is not a token or the value has
/// control characters.
#[must_use]
#[inline]
pub fn split_field(line: &[u8]) -> Option<(&[u8], &[u8])> {
    // A name is a token: no space before the colon (RFC 9112 §5.1), and at least one character.
    let name_end = line.iter().position(|byte| !is_token(*byte))?;
    split_at(line, name_end, name_end)
}

/// As [`split_field`] for a line of a response, from which a recipient removes white space before the colon (RFC 9112 §5.1). In a
/// request, it would be a way to hide a field from one of two servers.
#[must_use]
#[inline]
pub fn split_response_field(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let name_end = line.iter().position(|byte| !is_token(*byte))?;
    let blanks = match line[name_end] {
        b':' => 0,
        _ => line[name_end..].iter().position(|byte| !matches!(byte, b' ' | b'\t'))?,
    };
    split_at(line, name_end, name_end + blanks)
}

/// Splits a line whose name has this end, at its colon.
#[inline]
fn split_at(line: &[u8], name_end: usize, colon: usize) -> Option<(&[u8], &[u8])> {
    let [b':', value @ ..] = &line[colon..] else { return None };
    let is_valid = (1..=NAME_BYTES_MAX).contains(&name_end) && is_text(value);
    is_valid.then(|| (&line[..name_end], value.trim_ascii()))
}

/// Whether the bytes have no control characters except HTAB (RFC 9110 §5.5).
#[must_use]
#[inline]
pub fn is_text(bytes: &[u8]) -> bool {
    !any_byte(bytes, |byte| (byte < b' ' && byte != b'\t') || byte == 0x7f)
}

/// Whether `is_match` is true for any byte. Every byte of a head passes through here, so this reads whole blocks without
/// an early exit, which the compiler vectorizes. The last block may overlap the one before it.
#[inline]
pub fn any_byte(bytes: &[u8], is_match: impl Fn(u8) -> bool + Copy) -> bool {
    let in_block = |block: &[u8]| block.iter().fold(false, |found, byte| found | is_match(*byte));
    if let Some(last) = bytes.last_chunk::<16>() {
        bytes.as_chunks::<16>().0.iter().fold(in_block(last), |found, block| found | in_block(block))
    } else if let (Some(first), Some(last)) = (bytes.first_chunk::<8>(), bytes.last_chunk::<8>()) {
        in_block(first) | in_block(last)
    } else {
        in_block(bytes)
    }
}

/// Returns the members of a comma-separated list in one field, without empty ones (RFC 9110 §5.6.1).
#[inline]
pub fn members(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii).filter(|member| !member.is_empty())
}
