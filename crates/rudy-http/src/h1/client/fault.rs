//! Protocol violations of a server.

use rudy_message::Malformed;
use rudy_message::syntax::Excerpt;

use crate::Limits;

/// The reason why a response is invalid or incomplete.
///
/// The connection must close after a fault, because the start of the next response is unknown or not trustworthy.
/// Excerpts show the received bytes that were available when the fault was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// Both Content-Length and Transfer-Encoding (RFC 9112 §6.3): a sign of response splitting.
    #[error("the response has both Content-Length and Transfer-Encoding")]
    AmbiguousLength,
    /// A chunk that violates RFC 9112 §7.1, with the reason.
    #[error("{0}: received {1}")]
    BadChunk(&'static str, Excerpt),
    /// A Content-Length that is not a single decimal number (RFC 9110 §8.6).
    #[error("Content-Length is {0}, not a decimal number")]
    BadContentLength(Excerpt),
    /// Not `HTTP-version SP status-code SP [ reason-phrase ]` (RFC 9112 §4).
    #[error("the status line is {0}; expected a version, a three-digit status and a reason")]
    BadStatusLine(Excerpt),
    /// A Transfer-Encoding other than a single `chunked` (RFC 9112 §6.1): the request allowed no other with TE.
    #[error("Transfer-Encoding is {0}; expected a single \"chunked\"")]
    BadTransferCoding(Excerpt),
    /// A line of a trailer section that ends in LF without CR. RFC 9112 §2.2 allows a recipient to accept it, as in heads, but no known
    /// server needs it there.
    #[error("a line ends in LF without CR: {0}")]
    BareLineFeed(Excerpt),
    /// A body larger than the limit.
    #[error("the body is larger than the limit of {limit} bytes")]
    BodyTooLarge {
        /// The maximum size in bytes.
        limit: u64,
    },
    /// The connection was closed before the first byte of the response. The server may have closed an idle connection while
    /// the request was in transit (RFC 9112 §9.3.1).
    #[error("the connection was closed before the first byte of the response")]
    ClosedBeforeResponse,
    /// The connection was closed within the body (RFC 9112 §8).
    #[error("the connection was closed after {received} {}", missing_part(*.expected))]
    ClosedInBody {
        /// The number of received bytes of the body.
        received: u64,
        /// The length of the body; `None` if it is chunked.
        expected: Option<u64>,
    },
    /// The connection was closed within the head.
    #[error("the connection was closed after {received} bytes of the head, before its end")]
    ClosedInHead {
        /// The number of received bytes of the head.
        received: usize,
    },
    /// A field continued on the next line (RFC 9112 §5.2).
    #[error("a field is continued on the next line: {0}")]
    FoldedField(Excerpt),
    /// A field that is not allowed as a trailer (RFC 9110 §6.5.1).
    #[error("a field is not allowed as a trailer: {0}")]
    ForbiddenTrailer(Excerpt),
    /// A head with too many bytes.
    #[error("the head is larger than the limit of {limit} bytes for a response; send shorter fields")]
    HeadTooLarge {
        /// The maximum size in bytes.
        limit: usize,
    },
    /// A field line with invalid characters in its name or value (RFC 9112 §5.1, RFC 9110 §5.5).
    #[error("a field line is not a name, a colon and a value without control characters: {0}")]
    InvalidField(Excerpt),
    /// Bytes that are not the start of an HTTP response.
    #[error("the response starts with {0}; expected \"HTTP/1.1\"")]
    NotHttp(Excerpt),
    /// More than one Content-Length. RFC 9110 §8.6 allows a recipient to accept equal ones, but they indicate a broken server.
    #[error("the response has more than one Content-Length")]
    RepeatedContentLength,
    /// A TLS record on a connection that is not encrypted.
    #[error("the server uses TLS on this port; use https://")]
    TlsOnPlainConnection,
    /// A head with too many fields.
    #[error("the head has more fields than the limit of {limit} for a response; send fewer fields")]
    TooManyFields {
        /// The maximum number of fields.
        limit: usize,
    },
    /// A trailer section with too many bytes or fields.
    #[error("the trailer section has more than {bytes} bytes or {fields} fields")]
    TrailersTooLarge {
        /// The maximum size in bytes.
        bytes: usize,
        /// The maximum number of fields.
        fields: usize,
    },
    /// A Transfer-Encoding with HTTP/1.0 (RFC 9112 §6.1).
    #[error("the response is HTTP/1.0 and has a Transfer-Encoding, which requires HTTP/1.1")]
    TransferCodingInHttp10,
    /// Bytes without a request.
    #[error("received bytes without a request: {0}")]
    Unsolicited(Excerpt),
    /// A 101 to a request that offered no other protocol (RFC 9110 §7.8).
    #[error("received a 101, but the request offered no upgrade")]
    UnsolicitedUpgrade,
    /// A major version other than 1.
    #[error("the status line is {0}; the only supported major version is 1")]
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

fn missing_part(expected: Option<u64>) -> String {
    match expected {
        Some(expected) => format!("of {expected} bytes of the body"),
        None => "bytes of the body, before the last chunk".to_owned(),
    }
}
