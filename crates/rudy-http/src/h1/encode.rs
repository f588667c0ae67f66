//! Encodes fields and chunks, for both roles.

use bytes::{BufMut, BytesMut};
use http::HeaderMap;

use super::fields::is_forbidden_trailer;

/// Encodes one chunk (RFC 9112 §7.1). Empty data encodes nothing, because an empty chunk would end the body.
pub fn encode_chunk(data: &[u8], out: &mut BytesMut) {
    if data.is_empty() {
        return;
    }
    out.reserve(data.len() + 20);
    put_chunk_size(data.len() as u64, out);
    out.put_slice(data);
    out.put_slice(b"\r\n");
}

/// Encodes the size line of a chunk.
pub(super) fn put_chunk_size(length: u64, out: &mut BytesMut) {
    put_digits::<16>(length, out);
    out.put_slice(b"\r\n");
}

/// Encodes the last chunk and the trailers. Drops fields that are not allowed as trailers (RFC 9110 §6.5.1), so that they
/// cannot affect the connection.
pub fn encode_last_chunk(trailers: Option<&HeaderMap>, out: &mut BytesMut) {
    out.put_slice(b"0\r\n");
    for (name, value) in trailers.into_iter().flatten().filter(|(name, _)| !is_forbidden_trailer(name)) {
        put_field(name.as_str().as_bytes(), value.as_bytes(), out);
    }
    out.put_slice(b"\r\n");
}

/// Encodes one field line. The types of the `http` crate guarantee that its parts have no CR or LF.
pub(super) fn put_field(name: &[u8], value: &[u8], out: &mut impl BufMut) {
    out.put_slice(name);
    out.put_slice(b": ");
    out.put_slice(value);
    out.put_slice(b"\r\n");
}

pub(super) fn put_content_length(length: u64, out: &mut BytesMut) {
    out.put_slice(b"content-length: ");
    put_digits::<10>(length, out);
    out.put_slice(b"\r\n");
}

/// Encodes a number. It avoids `fmt`, and `BASE` is a constant so that the compiler replaces the division: this runs for every
/// response.
#[expect(clippy::cast_possible_truncation, reason = "the remainder is below 16")]
fn put_digits<const BASE: u64>(mut value: u64, out: &mut BytesMut) {
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

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn a_chunk_has_a_hexadecimal_size_and_an_empty_one_is_omitted() {
        let mut out = BytesMut::new();
        for length in [0, 1, 9, 10, 16, 255, 4096] {
            out.clear();
            encode_chunk(&vec![b'x'; length], &mut out);
            let expected = format!("{length:x}\r\n{}\r\n", "x".repeat(length));
            assert_eq!(out, if length == 0 { "" } else { &expected });
        }
    }

    #[test]
    fn the_last_chunk_has_the_allowed_trailers() {
        let mut trailers = HeaderMap::new();
        trailers.append("x-a", HeaderValue::from_static("1"));
        trailers.append("x-a", HeaderValue::from_static("2"));
        trailers.append("content-length", HeaderValue::from_static("3"));
        let mut out = BytesMut::new();
        encode_last_chunk(Some(&trailers), &mut out);
        assert_eq!(out, "0\r\nx-a: 1\r\nx-a: 2\r\n\r\n");
        out.clear();
        encode_last_chunk(None, &mut out);
        assert_eq!(out, "0\r\n\r\n");
    }
}
