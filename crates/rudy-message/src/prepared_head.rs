//! Response heads that are encoded once and sent repeatedly.

use std::sync::OnceLock;

use bytes::{Bytes, BytesMut};
use http::StatusCode;
use http::header::{self, HeaderMap};

use crate::text::{CONNECTION_FIELDS, put_head};

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
        put_head(status, &headers, &mut encoded);
        let has_date = headers.contains_key(header::DATE);
        Self { status, headers, has_date, encoded: encoded.freeze(), http2: OnceLock::new() }
    }

    /// Returns the status of the response.
    #[must_use]
    #[inline]
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// Returns the fields before encoding.
    #[must_use]
    #[inline]
    pub fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// Returns the status line and field lines, each with its CRLF, without the empty line that ends a head.
    #[must_use]
    #[inline]
    pub fn encoded(&self) -> &Bytes {
        &self.encoded
    }

    /// Whether it has a `Date`.
    #[inline]
    pub(crate) fn has_date(&self) -> bool {
        self.has_date
    }

    /// Returns the status and the fields as a header block of HTTP/2, which `encode` makes in the first call.
    #[inline]
    pub fn http2(&self, encode: impl FnOnce(&Self) -> Bytes) -> &[u8] {
        self.http2.get_or_init(|| encode(self))
    }
}
