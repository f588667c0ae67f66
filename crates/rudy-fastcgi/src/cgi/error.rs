//! Errors in the head of an app's response.

use std::fmt;

use crate::Excerpt;

/// Why the head of an app's response cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeadError {
    /// A `Content-Length` that is not a plain number (RFC 9110 §8.6).
    BadContentLength(Excerpt),
    /// A `Location` with a path that is not a valid request target.
    BadLocation(Excerpt),
    /// A `Status` that is not three digits from 200 on, with an optional phrase (RFC 3875 §6.3.3).
    BadStatus(Excerpt),
    /// Several `Content-Length` fields with different numbers.
    ContentLengthsDiffer,
    /// The response ended within its head.
    Truncated {
        /// Bytes received.
        received: usize,
        /// The first of them.
        start: Excerpt,
    },
    /// The response ended without a byte.
    Empty,
    /// A field that continues on the next line (RFC 3875 §6.3 does not allow this).
    Folded(Excerpt),
    /// None of `Content-Type`, `Location` and `Status` (RFC 3875 §6.3 requires at least one).
    NoTypeLocationOrStatus,
    /// A line that is not a name, a colon and a value.
    InvalidField(Excerpt),
    /// Several fields where RFC 3875 §6.3 allows one.
    Duplicate(&'static str),
    /// An HTTP status line, which CGI does not have.
    StatusLine(Excerpt),
    /// Too many bytes.
    TooLarge {
        /// The limit.
        limit: usize,
        /// The first bytes of the head.
        start: Excerpt,
    },
    /// Too many fields.
    TooManyFields {
        /// The limit.
        limit: usize,
    },
}

impl fmt::Display for HeadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BadContentLength(line) => write!(f, "the app's response has {line}, expected a plain number"),
            Self::BadLocation(value) => {
                write!(f, "the app's response has Location: {value}, which is not a valid path")
            }
            Self::BadStatus(value) => {
                write!(f, "the app's response has Status: {value}, expected three digits from 200 on and a phrase")
            }
            Self::ContentLengthsDiffer => {
                f.write_str("the app's response has several Content-Length fields with different numbers")
            }
            Self::Truncated { received, start } => write!(
                f,
                "the app's response ended after {received} bytes, before the empty line that ends its head; it begins \
                 with {start}"
            ),
            Self::Empty => f.write_str("the app's response is empty"),
            Self::Folded(line) => {
                write!(f, "the app's response has a field that continues on the next line, which CGI does not allow: {line}")
            }
            Self::NoTypeLocationOrStatus => f.write_str(
                "the app's response has no Content-Type, Location or Status: did the app print something before its head?",
            ),
            Self::InvalidField(line) => write!(
                f,
                "the app's response has the line {line}, expected a name, a colon and a value without control \
                 characters: did the app print something before its head?"
            ),
            Self::Duplicate(name) => write!(f, "the app's response has more than one {name}"),
            Self::StatusLine(line) => {
                write!(
                    f,
                    "the app's response begins with {line}, an HTTP status line; CGI expects the field \"Status: 200\""
                )
            }
            Self::TooLarge { limit, start } => write!(
                f,
                "the head of the app's response is larger than the limit of {limit} bytes; it begins with {start}"
            ),
            Self::TooManyFields { limit } => {
                write!(f, "the head of the app's response has more fields than the limit of {limit}")
            }
        }
    }
}

impl std::error::Error for HeadError {}
