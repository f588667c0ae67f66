//! Response heads that are encoded once and sent repeatedly.

use bytes::{Bytes, BytesMut};
use http::StatusCode;
use http::header::{self, HeaderMap};

use crate::Compression;
use crate::compression::Compressed;
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
    /// The same in other versions of the protocol.
    compressed: Compressed,
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
        Self { status, headers, has_date, encoded: encoded.freeze(), compressed: Compressed::default() }
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

    /// Returns the compressed status and fields, which `encode` makes in the first call.
    #[inline]
    pub fn compressed(&self, compression: Compression, encode: impl FnOnce(&Self) -> Bytes) -> &[u8] {
        self.compressed.get(compression, || encode(self))
    }
}
