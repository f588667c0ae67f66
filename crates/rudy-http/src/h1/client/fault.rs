//! Protocol violations of a server.

use std::fmt;

use rudy_message::Malformed;
use rudy_message::syntax::Excerpt;

use crate::Limits;

/// The reason why a response is invalid or incomplete.
///
/// The connection must close after a fault, because the start of the next response is unknown or not trustworthy.
/// Excerpts show the received bytes that were available when the fault was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Both Content-Length and Transfer-Encoding (RFC 9112 §6.3): a sign of response splitting.
    AmbiguousLength,
    /// A chunk that violates RFC 9112 §7.1, with the reason.
    BadChunk(&'static str, Excerpt),
    /// A Content-Length that is not a single decimal number (RFC 9110 §8.6).
    BadContentLength(Excerpt),
    /// Not `HTTP-version SP status-code SP [ reason-phrase ]` (RFC 9112 §4).
    BadStatusLine(Excerpt),
    /// A Transfer-Encoding other than a single `chunked` (RFC 9112 §6.1): the request allowed no other with TE.
    BadTransferCoding(Excerpt),
    /// A line of a trailer section that ends in LF without CR. RFC 9112 §2.2 allows a recipient to accept it, as in heads, but no known
    /// server needs it there.
    BareLineFeed(Excerpt),
    /// A body larger than the limit.
    BodyTooLarge {
        /// The maximum size in bytes.
        limit: u64,
    },
    /// The connection was closed before the first byte of the response. The server may have closed an idle connection while
    /// the request was in transit (RFC 9112 §9.3.1).
    ClosedBeforeResponse,
    /// The connection was closed within the body (RFC 9112 §8).
    ClosedInBody {
        /// The number of received bytes of the body.
        received: u64,
        /// The length of the body; `None` if it is chunked.
        expected: Option<u64>,
    },
    /// The connection was closed within the head.
    ClosedInHead {
        /// The number of received bytes of the head.
        received: usize,
    },
    /// A field continued on the next line (RFC 9112 §5.2).
    FoldedField(Excerpt),
    /// A field that is not allowed as a trailer (RFC 9110 §6.5.1).
    ForbiddenTrailer(Excerpt),
    /// A head with too many bytes.
    HeadTooLarge {
        /// The maximum size in bytes.
        limit: usize,
    },
    /// A field line with invalid characters in its name or value (RFC 9112 §5.1, RFC 9110 §5.5).
    InvalidField(Excerpt),
    /// Bytes that are not the start of an HTTP response.
    NotHttp(Excerpt),
    /// More than one Content-Length. RFC 9110 §8.6 allows a recipient to accept equal ones, but they indicate a broken server.
    RepeatedContentLength,
    /// A TLS record on a connection that is not encrypted.
    TlsOnPlainConnection,
    /// A head with too many fields.
    TooManyFields {
        /// The maximum number of fields.
        limit: usize,
    },
    /// A trailer section with too many bytes or fields.
    TrailersTooLarge {
        /// The maximum size in bytes.
        bytes: usize,
        /// The maximum number of fields.
        fields: usize,
    },
    /// A Transfer-Encoding with HTTP/1.0 (RFC 9112 §6.1).
    TransferCodingInHttp10,
    /// Bytes without a request.
    Unsolicited(Excerpt),
    /// A 101 to a request that offered no other protocol (RFC 9110 §7.8).
    UnsolicitedUpgrade,
    /// A major version other than 1.
    UnsupportedVersion(Excerpt),
}

impl Fault {
    /// Whether the server closed the connection before the response was complete.
    #[must_use]
    pub fn is_early_close(&self) -> bool {
        matches!(self, Self::ClosedBeforeResponse | Self::ClosedInHead { .. } | Self::ClosedInBody { .. })
    }

    /// Returns the fault for a malformed chunked body.
    pub(super) fn in_body(malformed: Malformed, bytes: &[u8], limits: &Limits) -> Self {
        let excerpt = Excerpt::of(bytes);
        match malformed {
            Malformed::BadChunk(how) => Self::BadChunk(how, excerpt),
            Malformed::BareLineFeed => Self::BareLineFeed(excerpt),
            Malformed::BodyTooLarge => Self::BodyTooLarge { limit: limits.body_bytes },
            Malformed::FoldedField => Self::FoldedField(excerpt),
            Malformed::ForbiddenTrailer => Self::ForbiddenTrailer(excerpt),
            Malformed::InvalidField => Self::InvalidField(excerpt),
            Malformed::SectionTooLarge => {
                Self::TrailersTooLarge { bytes: limits.head_bytes, fields: limits.head_fields }
            }
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AmbiguousLength => {
                f.write_str("the response has both Content-Length and Transfer-Encoding")
            }
            Self::BadChunk(how, received) => write!(f, "{how}: received {received}"),
            Self::BadContentLength(received) => {
                write!(f, "Content-Length is {received}, not a decimal number")
            }
            Self::BadStatusLine(received) => {
                write!(
                    f,
                    "the status line is {received}; expected a version, a three-digit status and a reason"
                )
            }
            Self::BadTransferCoding(received) => {
                write!(f, "Transfer-Encoding is {received}; expected a single \"chunked\"")
            }
            Self::BareLineFeed(received) => write!(f, "a line ends in LF without CR: {received}"),
            Self::BodyTooLarge { limit } => write!(f, "the body is larger than the limit of {limit} bytes"),
            Self::ClosedBeforeResponse => {
                f.write_str("the connection was closed before the first byte of the response")
            }
            Self::ClosedInBody { received, expected: Some(expected) } => {
                write!(f, "the connection was closed after {received} of {expected} bytes of the body")
            }
            Self::ClosedInBody { received, expected: None } => {
                write!(
                    f,
                    "the connection was closed after {received} bytes of the body, before the last chunk"
                )
            }
            Self::ClosedInHead { received } => {
                write!(f, "the connection was closed after {received} bytes of the head, before its end")
            }
            Self::FoldedField(received) => write!(f, "a field is continued on the next line: {received}"),
            Self::ForbiddenTrailer(received) => {
                write!(f, "a field is not allowed as a trailer: {received}")
            }
            Self::HeadTooLarge { limit } => {
                write!(
                    f,
                    "the head is larger than the limit of {limit} bytes for a response; send shorter fields"
                )
            }
            Self::InvalidField(received) => {
                write!(
                    f,
                    "a field line is not a name, a colon and a value without control characters: {received}"
                )
            }
            Self::NotHttp(received) => {
                write!(f, "the response starts with {received}; expected \"HTTP/1.1\"")
            }
            Self::RepeatedContentLength => f.write_str("the response has more than one Content-Length"),
            Self::TlsOnPlainConnection => f.write_str("the server uses TLS on this port; use https://"),
            Self::TooManyFields { limit } => {
                write!(
                    f,
                    "the head has more fields than the limit of {limit} for a response; send fewer fields"
                )
            }
            Self::TrailersTooLarge { bytes, fields } => {
                write!(f, "the trailer section has more than {bytes} bytes or {fields} fields")
            }
            Self::TransferCodingInHttp10 => {
                f.write_str("the response is HTTP/1.0 and has a Transfer-Encoding, which requires HTTP/1.1")
            }
            Self::Unsolicited(received) => write!(f, "received bytes without a request: {received}"),
            Self::UnsolicitedUpgrade => f.write_str("received a 101, but the request offered no upgrade"),
            Self::UnsupportedVersion(received) => {
                write!(f, "the status line is {received}; the only supported major version is 1")
            }
        }
    }
}

impl std::error::Error for Fault {}
