//! Errors in the head of an app's response.

use crate::Excerpt;

/// Why the head of an app's response cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HeadError {
    /// A `Content-Length` that is not a plain number (RFC 9110 §8.6).
    #[error("the app's response has {0}, expected a plain number")]
    BadContentLength(Excerpt),
    /// A `Location` with a path that is not a valid request target.
    #[error("the app's response has Location: {0}, which is not a valid path")]
    BadLocation(Excerpt),
    /// A `Status` that is not three digits from 200 on, with an optional phrase (RFC 3875 §6.3.3).
    #[error("the app's response has Status: {0}, expected three digits from 200 on and a phrase")]
    BadStatus(Excerpt),
    /// Several `Content-Length` fields with different numbers.
    #[error("the app's response has several Content-Length fields with different numbers")]
    ContentLengthsDiffer,
    /// The response ended within its head.
    #[error(
        "the app's response ended after {received} bytes, before the empty line that ends its head; it begins with {start}"
    )]
    Truncated {
        /// Bytes received.
        received: usize,
        /// The first of them.
        start: Excerpt,
    },
    /// The response ended without a byte.
    #[error("the app's response is empty")]
    Empty,
    /// A field that continues on the next line (RFC 3875 §6.3 does not allow this).
    #[error("the app's response has a field that continues on the next line, which CGI does not allow: {0}")]
    Folded(Excerpt),
    /// None of `Content-Type`, `Location` and `Status` (RFC 3875 §6.3 requires at least one).
    #[error(
        "the app's response has no Content-Type, Location or Status: did the app print something before its head?"
    )]
    NoTypeLocationOrStatus,
    /// A line that is not a name, a colon and a value.
    #[error(
        "the app's response has the line {0}, expected a name, a colon and a value without control characters: did the app print something before its head?"
    )]
    InvalidField(Excerpt),
    /// Several fields where RFC 3875 §6.3 allows one.
    #[error("the app's response has more than one {0}")]
    Duplicate(&'static str),
    /// An HTTP status line, which CGI does not have.
    #[error("the app's response begins with {0}, an HTTP status line; CGI expects the field \"Status: 200\"")]
    StatusLine(Excerpt),
    /// Too many bytes.
    #[error(
        "the head of the app's response is larger than the limit of {limit} bytes; it begins with {start}"
    )]
    TooLarge {
        /// The limit.
        limit: usize,
        /// The first bytes of the head.
        start: Excerpt,
    },
    /// Too many fields.
    #[error("the head of the app's response has more fields than the limit of {limit}")]
    TooManyFields {
        /// The limit.
        limit: usize,
    },
}
