//! The answer on the wire: its head, and the framing of its body.

use bytes::{BufMut, BytesMut};
use http::{HeaderMap, StatusCode};

use super::head::is_forbidden_trailer;
use super::prepared::encode_head;
use super::{DateLine, Prepared};

/// The head of an answer, encoded beforehand or not.
#[derive(Debug, Clone, Copy)]
pub enum AnswerHead<'a> {
    /// Encoded now.
    Fields(StatusCode, &'a HeaderMap),
    /// Encoded beforehand.
    Prepared(&'a Prepared),
}

impl AnswerHead<'_> {
    /// The status.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        match self {
            Self::Fields(status, _) => *status,
            Self::Prepared(prepared) => prepared.status(),
        }
    }

    pub(super) fn encode(&self, out: &mut BytesMut) {
        match self {
            Self::Fields(status, headers) => encode_head(*status, headers, out),
            Self::Prepared(prepared) => out.extend_from_slice(prepared.encoded()),
        }
    }
}

/// How the body of an answer is delimited (RFC 9112 §6.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Framing {
    /// There is none on the wire: HEAD, 1xx, 204, 304. What the service gives is passed over.
    None,
    /// This many bytes are still to come.
    Length(u64),
    /// Chunks.
    Chunked,
    /// The end of the connection: HTTP/1.0 with a length nobody knows.
    UntilClose,
}

/// Ends a head: framing, `Connection`, `Date`, the empty line.
pub(super) fn encode_head_end(
    framing: Framing,
    length: Option<u64>,
    connection: Option<&'static str>,
    date: &DateLine,
    out: &mut BytesMut,
) {
    match (framing, length) {
        (Framing::Chunked, _) => out.extend_from_slice(b"transfer-encoding: chunked\r\n"),
        (Framing::Length(length), _) | (Framing::None, Some(length)) => put_content_length(length, out),
        (Framing::None | Framing::UntilClose, _) => {}
    }
    if let Some(option) = connection {
        out.extend_from_slice(b"connection: ");
        out.extend_from_slice(option.as_bytes());
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(date.as_bytes());
    out.extend_from_slice(b"\r\n");
}

/// One chunk (RFC 9112 §7.1). An empty one would be the last, so it is not written.
pub(super) fn encode_chunk(data: &[u8], out: &mut BytesMut) {
    if data.is_empty() {
        return;
    }
    out.reserve(data.len() + 20);
    put_hex(data.len() as u64, out);
    out.put_slice(b"\r\n");
    out.put_slice(data);
    out.put_slice(b"\r\n");
}

/// The last chunk and the trailers, but for those that may not be any (RFC 9110 §6.5.1): a client must not take their
/// words for the connection's.
pub(super) fn encode_last_chunk(trailers: Option<&HeaderMap>, out: &mut BytesMut) {
    out.put_slice(b"0\r\n");
    for (name, value) in trailers.into_iter().flatten().filter(|(name, _)| !is_forbidden_trailer(name)) {
        out.put_slice(name.as_str().as_bytes());
        out.put_slice(b": ");
        out.put_slice(value.as_bytes());
        out.put_slice(b"\r\n");
    }
    out.put_slice(b"\r\n");
}

fn put_content_length(length: u64, out: &mut BytesMut) {
    out.put_slice(b"content-length: ");
    put_digits(length, 10, out);
    out.put_slice(b"\r\n");
}

fn put_hex(value: u64, out: &mut BytesMut) {
    put_digits(value, 16, out);
}

/// Digits of a number, without the formatting machinery: this is in every answer.
#[expect(clippy::cast_possible_truncation, reason = "the remainder is below 16")]
fn put_digits(mut value: u64, base: u64, out: &mut BytesMut) {
    let mut digits = [0_u8; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b"0123456789abcdef"[(value % base) as usize];
        value /= base;
        if value == 0 {
            break;
        }
    }
    out.put_slice(&digits[at..]);
}
