//! The length and the framing of bodies.

use http::StatusCode;

/// The length of a request body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyLength {
    /// The number of bytes; 0 is no body.
    Known(u64),
    /// Unknown: the body is chunked.
    Chunked,
}

/// How the body of a response is delimited (RFC 9112 §6.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// No body on the wire: HEAD, 1xx, 204, 304, and 2xx to CONNECT.
    None,
    /// The number of bytes.
    Length(u64),
    /// Chunks.
    Chunked,
    /// The end of the connection, because the length is unknown.
    UntilClose,
}

/// A body whose length differs from the Content-Length in its head. The connection must be closed, because the client could not
/// find the end of the body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the length of the body differs from its Content-Length")]
pub struct LengthError;

/// Whether responses with this status have no content (RFC 9110 §6.4.1).
#[must_use]
#[inline]
pub fn has_no_content(status: StatusCode) -> bool {
    status.is_informational() || status == StatusCode::NO_CONTENT || status == StatusCode::NOT_MODIFIED
}
