//! Encodes chunks, for both roles.

use bytes::{BufMut, BytesMut};
use http::HeaderMap;
use rudy_message::text::{is_forbidden_trailer, put_digits, put_field};

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
