//! Percent-encoding (RFC 3986 §2.1).

use std::borrow::Cow;

use crate::syntax::alphanumeric_and;

/// Encodes a file name or path for use in a URI. It keeps only unreserved characters (RFC 3986 §2.3) and slashes, so that the
/// result can also begin a relative reference.
#[must_use]
pub fn encode(decoded: &str) -> String {
    let mut encoded = String::with_capacity(decoded.len());
    push_encoded(decoded.as_bytes(), b"-._~/", &mut encoded);
    encoded
}

/// Encodes a text for one segment of a path or one parameter of a query: it keeps only unreserved characters (RFC 3986 §2.3).
#[must_use]
pub fn encode_component(decoded: &[u8]) -> String {
    let mut encoded = String::with_capacity(decoded.len());
    push_encoded(decoded, b"-._~", &mut encoded);
    encoded
}

/// Encodes only the characters of a query, or of a path with its query, that a URI cannot contain anywhere (RFC 3986 §2). Brackets and
/// percent signs stay: browsers send the first in queries, and the second are escapes.
#[must_use]
pub fn encode_query(query: &str) -> Cow<'_, str> {
    if fits_query(query.as_bytes()) {
        return Cow::Borrowed(query);
    }
    let mut encoded = String::with_capacity(query.len() + 16);
    push_encoded(query.as_bytes(), IN_QUERY, &mut encoded);
    Cow::Owned(encoded)
}

/// Whether [`encode_query`] would change nothing.
#[must_use]
pub fn fits_query(query: &[u8]) -> bool {
    static FITS: [bool; 256] = alphanumeric_and(IN_QUERY);
    query.iter().all(|byte| FITS[usize::from(*byte)])
}

const IN_QUERY: &[u8] = b"-._~!$&'()*+,;=:@/?%[]";

/// Encodes a text for the field `grpc-message`: visible ASCII and spaces stay, except the percent sign.
#[must_use]
pub fn encode_grpc_message(text: &str) -> String {
    let encode = |byte: u8| match byte {
        b' '..=b'~' if byte != b'%' => char::from(byte).to_string(),
        _ => escape(byte).map(char::from).iter().collect(),
    };
    text.bytes().map(encode).collect()
}

/// Encodes the bytes of a reference that are not ASCII (RFC 3987 §3.1), and leaves all others.
#[must_use]
pub fn encode_non_ascii(reference: &[u8]) -> String {
    let encode = |byte: &u8| match byte {
        0..0x80 => char::from(*byte).to_string(),
        _ => escape(*byte).map(char::from).iter().collect(),
    };
    reference.iter().map(encode).collect()
}

/// Percent-encodes all bytes except ASCII letters, digits and `kept`.
pub(super) fn push_encoded(bytes: &[u8], kept: &[u8], out: &mut String) {
    for &byte in bytes {
        if byte.is_ascii_alphanumeric() || kept.contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.extend(escape(byte).map(char::from));
        }
    }
}

/// Percent-encodes a byte, with uppercase digits (RFC 3986 §2.1).
pub(crate) fn escape(byte: u8) -> [u8; 3] {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    [b'%', DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_a_uri_cannot_contain_are_encoded() {
        assert_eq!(encode("a b/ü:c.txt"), "a%20b/%C3%BC%3Ac.txt");
        for (query, expected) in
            [("a=b&c=%20", "a=b&c=%20"), ("a=\"<{|}>\"", "a=%22%3C%7B%7C%7D%3E%22"), ("q=ü#", "q=%C3%BC%23")]
        {
            assert_eq!(encode_query(query), expected, "{query}");
        }
    }
}
