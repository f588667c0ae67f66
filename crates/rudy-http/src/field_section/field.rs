//! The checks of a field line of both roles (RFC 9113 §8.2).

use rudy_message::syntax::is_token;

/// Each field counts this much more than its name and its value (RFC 9113 §6.5.2).
pub(super) const FIELD_OVERHEAD_BYTES: usize = 32;

/// Checks a field that is not a pseudo-field. The caller checks control characters other than those of line breaks.
pub(crate) fn check_field(name: &[u8], value: &[u8]) -> Result<(), &'static str> {
    if name.is_empty() || !name.iter().all(|byte| is_token(*byte) && !byte.is_ascii_uppercase()) {
        return Err("the name of a field is empty, or has an invalid or an upper-case character");
    }
    // RFC 9113 §8.2.1.
    let is_space = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
    if memchr::memchr3(b'\r', b'\n', 0, value).is_some() || is_space(value.first()) || is_space(value.last())
    {
        return Err("the value of a field has a line break, NUL, or white space around it");
    }
    if is_for_connection(name) {
        return Err("a field for the connection (RFC 9113 §8.2.2)");
    }
    Ok(())
}

/// Whether a field describes an HTTP/1.1 connection, and has no meaning in HTTP/2 (RFC 9113 §8.2.2). The name is lower case.
pub(crate) fn is_for_connection(name: &[u8]) -> bool {
    matches!(name, b"connection" | b"proxy-connection" | b"keep-alive" | b"transfer-encoding" | b"upgrade")
}

/// Appends a field line of an HTTP/1.1 head.
pub(crate) fn put_line(name: &[u8], value: &[u8], lines: &mut Vec<u8>) {
    for part in [name, b": ", value, b"\r\n"] {
        lines.extend_from_slice(part);
    }
}
