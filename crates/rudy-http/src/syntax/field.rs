//! One line of a head or of trailers (RFC 9112 §5), looked at where it lies.

use super::token::is_token;

/// The longest name that a [`http::HeaderName`] can be.
const NAME_BYTES_MAX: usize = (1 << 16) - 1;

/// `field-name ":" OWS field-value OWS`. `None` if the name is no token or the value has control characters.
#[must_use]
pub fn split_field(line: &[u8]) -> Option<(&[u8], &[u8])> {
    // A name is a token: no space before the colon (RFC 9112 §5.1), and at least one character.
    let colon = line.iter().position(|byte| !is_token(*byte))?;
    let (name, value) = line.split_at(colon);
    let [b':', value @ ..] = value else { return None };
    ((1..=NAME_BYTES_MAX).contains(&name.len()) && is_text(value)).then(|| (name, value.trim_ascii()))
}

/// Whether there are no control characters but HTAB (RFC 9110 §5.5).
#[must_use]
pub fn is_text(bytes: &[u8]) -> bool {
    !any_byte(bytes, |byte| (byte < b' ' && byte != b'\t') || byte == 0x7f)
}

/// Whether any byte is so. Every byte of a head is looked at here: in blocks, the last of which may begin in the one before
/// it, and without an early end, so that the compiler takes a whole block at once.
pub(crate) fn any_byte(bytes: &[u8], is_so: impl Fn(u8) -> bool + Copy) -> bool {
    let in_block = |block: &[u8]| block.iter().fold(false, |found, byte| found | is_so(*byte));
    if let Some(last) = bytes.last_chunk::<16>() {
        bytes.as_chunks::<16>().0.iter().fold(in_block(last), |found, block| found | in_block(block))
    } else if let (Some(first), Some(last)) = (bytes.first_chunk::<8>(), bytes.last_chunk::<8>()) {
        in_block(first) | in_block(last)
    } else {
        in_block(bytes)
    }
}

/// The members of a comma-separated list in one field; empty members do not count (RFC 9110 §5.6.1).
pub fn members(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii).filter(|member| !member.is_empty())
}
