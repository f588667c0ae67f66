//! A response head that is encoded once and sent many times.

use bytes::{BufMut, Bytes, BytesMut};
use http::StatusCode;
use http::header::{self, HeaderMap, HeaderName};

use crate::h1::encode::put_field;
use crate::semantics::reason::reason_phrase;

/// The head of an answer that is given again and again: its status line and fields already as they go on the wire.
///
/// `Date`, `Connection`, `Content-Length` and `Transfer-Encoding` are not part of it: the connection adds them, because
/// only it knows them. They are dropped if given.
#[derive(Debug, Clone)]
pub struct PreparedHead {
    status: StatusCode,
    headers: HeaderMap,
    encoded: Bytes,
}

impl PreparedHead {
    /// Encodes `status` and `headers` for HTTP/1.1 once and for all.
    #[must_use]
    pub fn new(status: StatusCode, mut headers: HeaderMap) -> Self {
        for name in &OF_THE_CONNECTION {
            headers.remove(name);
        }
        let mut encoded = BytesMut::with_capacity(32 + headers.len() * 48);
        encode_head(status, &headers, &mut encoded);
        Self { status, headers, encoded: encoded.freeze() }
    }

    /// The status of the answer.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// The fields, for whoever wants to look at or change them.
    #[must_use]
    pub fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// The status line and field lines, each with its CRLF, without the empty line that ends a head.
    #[must_use]
    pub fn encoded(&self) -> &Bytes {
        &self.encoded
    }
}

/// What the connection adds to every answer, and nobody else.
const OF_THE_CONNECTION: [HeaderName; 4] =
    [header::CONNECTION, header::CONTENT_LENGTH, header::DATE, header::TRANSFER_ENCODING];

/// Appends the status line and the field lines. A response is always labelled HTTP/1.1, whatever the request was:
/// the version tells what the sender is able to do (RFC 9110 §2.5).
pub(super) fn encode_head(status: StatusCode, headers: &HeaderMap, out: &mut impl BufMut) {
    out.put_slice(b"HTTP/1.1 ");
    out.put_slice(status.as_str().as_bytes());
    out.put_u8(b' ');
    // The reason phrase may be empty, but the space before it may not be left out (RFC 9112 §4).
    out.put_slice(reason_phrase(status).unwrap_or_default().as_bytes());
    out.put_slice(b"\r\n");
    for (name, value) in headers.iter().filter(|(name, _)| !OF_THE_CONNECTION.contains(name)) {
        put_field(name.as_str(), value.as_bytes(), out);
    }
}
