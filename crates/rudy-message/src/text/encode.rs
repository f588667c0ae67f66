//! Encodes lines of heads, for both roles.

use bytes::{BufMut, BytesMut};
use http::StatusCode;
use http::header::{self, HeaderMap, HeaderName};

use crate::semantics::reason::reason_phrase;

/// Encodes one field line. The types of the `http` crate guarantee that its parts have no CR or LF.
#[inline]
pub fn put_field(name: &[u8], value: &[u8], out: &mut impl BufMut) {
    out.put_slice(name);
    out.put_slice(b": ");
    out.put_slice(value);
    out.put_slice(b"\r\n");
}

/// Encodes Content-Length.
#[inline]
pub fn put_content_length(length: u64, out: &mut BytesMut) {
    out.put_slice(b"content-length: ");
    put_digits::<10>(length, out);
    out.put_slice(b"\r\n");
}

/// Encodes a number in this base, at most 16. It avoids `fmt`, and `BASE` is a constant so that the compiler replaces the division: this runs for every
/// response.
#[expect(clippy::cast_possible_truncation, reason = "the remainder is below 16")]
pub fn put_digits<const BASE: u64>(mut value: u64, out: &mut BytesMut) {
    let mut digits = [0_u8; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b"0123456789abcdef"[(value % BASE) as usize];
        value /= BASE;
        if value == 0 {
            break;
        }
    }
    out.put_slice(&digits[at..]);
}

/// Returns the names and values of the fields of a response that the connection does not add itself.
pub fn sent_fields(headers: &HeaderMap) -> impl Iterator<Item = (&str, &[u8])> {
    let sent = headers.iter().filter(|(name, _)| !CONNECTION_FIELDS.contains(name));
    sent.map(|(name, value)| (name.as_str(), value.as_bytes()))
}

/// The fields that only the connection adds to a response.
pub(crate) const CONNECTION_FIELDS: [HeaderName; 3] =
    [header::CONNECTION, header::CONTENT_LENGTH, header::TRANSFER_ENCODING];

/// Appends the status line and the field lines of a response.
pub fn put_head(status: StatusCode, headers: &HeaderMap, out: &mut impl BufMut) {
    put_status_line(status, out);
    for (name, value) in sent_fields(headers) {
        put_field(name.as_bytes(), value, out);
    }
}

/// Appends the status line. The version is always HTTP/1.1, because it states what the sender supports, regardless of the version of the
/// request (RFC 9110 §2.5).
pub fn put_status_line(status: StatusCode, out: &mut impl BufMut) {
    out.put_slice(b"HTTP/1.1 ");
    out.put_slice(status.as_str().as_bytes());
    out.put_u8(b' ');
    // The reason phrase may be empty, but the space before it is required (RFC 9112 §4).
    out.put_slice(reason_phrase(status).unwrap_or_default().as_bytes());
    out.put_slice(b"\r\n");
}
