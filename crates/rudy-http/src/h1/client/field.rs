//! One line of a head (RFC 9112 §5), looked at where it lies.

use crate::h1::token::TOKEN;

/// `field-name ":" OWS field-value OWS`. `None` if the name is no token or the value has control characters.
pub(super) fn split_field(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let (name, value) = line.split_at(memchr::memchr(b':', line)?);
    let value = &value[1..];
    // A name is a token: no space before the colon (RFC 9112 §5.1), and at least one character.
    let is_name = !name.is_empty() && name.iter().all(|byte| TOKEN[usize::from(*byte)]);
    (is_name && is_text(value)).then(|| (name, value.trim_ascii()))
}

/// Whether there are no control characters but HTAB (RFC 9110 §5.5). Without an early end, so that the compiler takes
/// many bytes at a time.
pub(super) fn is_text(bytes: &[u8]) -> bool {
    let is_control = |byte: u8| (byte < b' ' && byte != b'\t') || byte == 0x7f;
    bytes.iter().fold(0, |found, byte| found | u8::from(is_control(*byte))) == 0
}
