//! What is wrong with an app's answer.

use std::fmt;

use crate::Excerpt;

/// Why an app's answer has no head that could be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeadError {
    /// A `Content-Length` that is not one plain number (RFC 9110 §8.6).
    BadContentLength(Excerpt),
    /// A `Location` that is a path, and not one that could be asked for.
    BadLocation(Excerpt),
    /// A `Status` that is not three digits from 200 on, and perhaps a phrase (RFC 3875 §6.3.3).
    BadStatus(Excerpt),
    /// `Content-Length` came more than once, with different numbers.
    ContentLengthsDiffer,
    /// The answer ended within its head.
    Truncated {
        /// Bytes of it that came.
        received: usize,
        /// How it began.
        start: Excerpt,
    },
    /// The answer ended without a byte.
    Empty,
    /// A field that goes on in the next line (RFC 3875 §6.3 has no such fields).
    Folded(Excerpt),
    /// None of `Content-Type`, `Location` and `Status` (RFC 3875 §6.3: one is needed at least).
    NoTypeLocationOrStatus,
    /// A line that is no name, colon and value.
    InvalidField(Excerpt),
    /// A field of CGI's own that came more than once (RFC 3875 §6.3).
    Duplicate(&'static str),
    /// A status line, with which an answer in HTTP begins, not one in CGI.
    StatusLine(Excerpt),
    /// Too many bytes.
    TooLarge {
        /// Bytes that it may have.
        limit: usize,
        /// How it began.
        start: Excerpt,
    },
    /// Too many fields.
    TooManyFields {
        /// How many there may be.
        limit: usize,
    },
}

impl fmt::Display for HeadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BadContentLength(came) => write!(f, "the app's answer has {came}, which is not a plain number"),
            Self::BadLocation(came) => {
                write!(f, "the app's answer has Location: {came}, a path that cannot be asked for")
            }
            Self::BadStatus(came) => {
                write!(f, "the app's answer has Status: {came}, which is not three digits from 200 on and a phrase")
            }
            Self::ContentLengthsDiffer => {
                f.write_str("the app's answer has more than one Content-Length, and they differ")
            }
            Self::Truncated { received, start } => write!(
                f,
                "the app's answer ended after {received} bytes, before the empty line that ends its head; it start with \
                 {start}"
            ),
            Self::Empty => f.write_str("the app's answer is empty: it ended before a byte of it came"),
            Self::Folded(came) => {
                write!(f, "the app's answer has a field that goes on in the next line, which CGI does not have: {came}")
            }
            Self::NoTypeLocationOrStatus => f.write_str(
                "the app's answer has no Content-Type, Location or Status: did the app print something before its head?",
            ),
            Self::InvalidField(came) => write!(
                f,
                "the app's answer has {came} where a field has to be, a name, a colon and a value without control \
                 characters: did the app print something before its head?"
            ),
            Self::Duplicate(name) => write!(f, "the app's answer has more than one {name}"),
            Self::StatusLine(came) => {
                write!(f, "the app's answer begins with {came}, as HTTP does; CGI has a field for it, \"Status: 200\"")
            }
            Self::TooLarge { limit, start } => write!(
                f,
                "the head of the app's answer is larger than the limit of {limit} bytes; it start with {start}"
            ),
            Self::TooManyFields { limit } => {
                write!(f, "the head of the app's answer has more fields than the limit of {limit}")
            }
        }
    }
}

impl std::error::Error for HeadError {}
