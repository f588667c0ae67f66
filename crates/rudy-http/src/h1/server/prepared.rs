//! Response heads that are encoded once and sent repeatedly.

use std::sync::OnceLock;

use bytes::{BufMut, Bytes, BytesMut};
use http::StatusCode;
use http::header::{self, HeaderMap, HeaderName};
use rudy_message::semantics::reason::reason_phrase;

use crate::h1::encode::put_field;
use crate::hpack::encode_stateless;

/// A response head with an encoded status line and encoded fields.
///
/// It never contains `Connection`, `Content-Length` or `Transfer-Encoding`: the connection adds these fields, and `Date` if it is missing.
#[derive(Debug, Clone)]
pub struct PreparedHead {
    status: StatusCode,
    headers: HeaderMap,
    has_date: bool,
    encoded: Bytes,
    /// The same as a header block of HTTP/2, once it is needed.
    http2: OnceLock<Bytes>,
}

impl PreparedHead {
    /// Encodes `status` and `headers` for HTTP/1.1. Drops the fields that the connection adds.
    #[must_use]
    pub fn new(status: StatusCode, mut headers: HeaderMap) -> Self {
        for name in &CONNECTION_FIELDS {
            headers.remove(name);
        }
        let mut encoded = BytesMut::with_capacity(32 + headers.len() * 48);
        encode_head(status, &headers, &mut encoded);
        let has_date = headers.contains_key(header::DATE);
        Self { status, headers, has_date, encoded: encoded.freeze(), http2: OnceLock::new() }
    }

    /// Returns the status of the response.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// Returns the fields before encoding.
    #[must_use]
    pub fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// Returns the status line and field lines, each with its CRLF, without the empty line that ends a head.
    #[must_use]
    pub fn encoded(&self) -> &Bytes {
        &self.encoded
    }
}

impl PreparedHead {
    /// Whether it has a `Date`.
    pub(super) fn has_date(&self) -> bool {
        self.has_date
    }

    /// Returns the status and the fields as a header block of HTTP/2.
    pub(crate) fn http2(&self) -> &[u8] {
        self.http2.get_or_init(|| {
            let mut block = BytesMut::with_capacity(16 + self.headers.len() * 32);
            encode_block(self.status, lines(&self.headers), &mut block);
            block.freeze()
        })
    }
}

/// Appends the status and the fields as a header block of HTTP/2, without those for the connection (RFC 9113 §8.2.2).
pub(super) fn encode_block<'a>(
    status: StatusCode,
    fields: impl Iterator<Item = (&'a str, &'a [u8])>,
    out: &mut BytesMut,
) {
    const OF_CONNECTION: [&str; 3] = ["keep-alive", "proxy-connection", "upgrade"];
    encode_stateless(b":status", status.as_str().as_bytes(), out);
    for (name, value) in fields.filter(|(name, _)| !OF_CONNECTION.contains(name)) {
        encode_stateless(name.as_bytes(), value, out);
    }
}

/// Returns the names and values of the fields that the connection does not add itself.
pub(super) fn lines(headers: &HeaderMap) -> impl Iterator<Item = (&str, &[u8])> {
    let sent = headers.iter().filter(|(name, _)| !CONNECTION_FIELDS.contains(name));
    sent.map(|(name, value)| (name.as_str(), value.as_bytes()))
}

/// The fields that only the connection adds to a response.
const CONNECTION_FIELDS: [HeaderName; 3] =
    [header::CONNECTION, header::CONTENT_LENGTH, header::TRANSFER_ENCODING];

/// Appends the status line and the field lines.
pub(super) fn encode_head(status: StatusCode, headers: &HeaderMap, out: &mut impl BufMut) {
    encode_status_line(status, out);
    for (name, value) in lines(headers) {
        put_field(name.as_bytes(), value, out);
    }
}

/// Appends the status line. The version is always HTTP/1.1, because it states what the sender supports, regardless of the version of the
/// request (RFC 9110 §2.5).
pub(super) fn encode_status_line(status: StatusCode, out: &mut impl BufMut) {
    out.put_slice(b"HTTP/1.1 ");
    out.put_slice(status.as_str().as_bytes());
    out.put_u8(b' ');
    // The reason phrase may be empty, but the space before it is required (RFC 9112 §4).
    out.put_slice(reason_phrase(status).unwrap_or_default().as_bytes());
    out.put_slice(b"\r\n");
}
