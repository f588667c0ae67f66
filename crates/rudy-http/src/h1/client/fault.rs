//! What a server did wrong.

use std::fmt;

use crate::Limits;
use crate::h1::malformed::Malformed;
use crate::syntax::Excerpt;

/// Why an answer is not one, or not whole. After a fault the connection is always closed: where the next answer would
/// begin is not known, or not trusted.
///
/// Excerpts show what came as far as it was there when the fault was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Both Content-Length and Transfer-Encoding (RFC 9112 §6.3: response splitting).
    AmbiguousLength,
    /// Chunks that break RFC 9112 §7.1; the words say how.
    BadChunk(&'static str, Excerpt),
    /// A Content-Length that is not one plain number (RFC 9110 §8.6).
    BadContentLength(Excerpt),
    /// Not `HTTP-version SP status-code SP [ reason-phrase ]` (RFC 9112 §4).
    BadStatusLine(Excerpt),
    /// A Transfer-Encoding other than one `chunked` (RFC 9112 §6.1): no other was asked for.
    BadTransferCoding(Excerpt),
    /// A line that ends in LF alone. RFC 9112 §2.2 lets a recipient accept it; two recipients that differ are an attack.
    BareLineFeed(Excerpt),
    /// A body larger than the limit.
    BodyTooLarge {
        /// Bytes that it may have.
        limit: u64,
    },
    /// The connection was closed before the first byte of the answer. On a connection that was used before, the server may
    /// have closed it while the request was on its way (RFC 9112 §9.3.1).
    ClosedBeforeResponse,
    /// The connection was closed within the body (RFC 9112 §8): so many bytes of it had come, of so many, if that is known.
    ClosedInBody {
        /// Bytes of the body that came.
        received: u64,
        /// Bytes of the whole body. `None` with chunks.
        expected: Option<u64>,
    },
    /// The connection was closed within the head: so many bytes of it had come.
    ClosedInHead {
        /// Bytes of the head that came.
        received: usize,
    },
    /// A field continued on the next line (RFC 9112 §5.2).
    FoldedField(Excerpt),
    /// A trailer field that may not be one (RFC 9110 §6.5.1).
    ForbiddenTrailer(Excerpt),
    /// A head with too many bytes.
    HeadTooLarge {
        /// Bytes that it may have.
        limit: usize,
    },
    /// A field line whose name or value has characters it may not have (RFC 9112 §5.1, RFC 9110 §5.5).
    InvalidField(Excerpt),
    /// Something that does not begin as an answer does.
    NotHttp(Excerpt),
    /// More than one Content-Length. RFC 9110 §8.6 lets a recipient accept equal ones; who sends them has been confused.
    RepeatedContentLength,
    /// A TLS record on a connection that is not encrypted.
    TlsOnPlainConnection,
    /// A head with too many fields.
    TooManyFields {
        /// Fields that it may have.
        limit: usize,
    },
    /// A trailer section with too many bytes or fields.
    TrailersTooLarge {
        /// Bytes that it may have.
        bytes: usize,
        /// Fields that it may have.
        fields: usize,
    },
    /// A Transfer-Encoding with HTTP/1.0 (RFC 9112 §6.1).
    TransferCodingInHttp10,
    /// Bytes that no request asked for.
    Unsolicited(Excerpt),
    /// A 101 to a request that offered no other protocol (RFC 9110 §7.8).
    UnsolicitedUpgrade,
    /// A major version other than 1.
    UnsupportedVersion(Excerpt),
}

impl Fault {
    /// Whether the peer closed the connection before the answer was complete.
    #[must_use]
    pub fn is_early_close(&self) -> bool {
        matches!(self, Self::ClosedBeforeResponse | Self::ClosedInHead { .. } | Self::ClosedInBody { .. })
    }

    /// What is wrong with a chunked body, and where.
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
            Self::AmbiguousLength => f.write_str(
                "the answer has both Content-Length and Transfer-Encoding: it may have one of them",
            ),
            Self::BadChunk(how, came) => write!(f, "{how}: {came} came"),
            Self::BadContentLength(came) => write!(f, "Content-Length is {came}, not a plain number"),
            Self::BadStatusLine(came) => {
                write!(f, "the status line is {came}, not a version, a status of three digits and a reason")
            }
            Self::BadTransferCoding(came) => {
                write!(f, "Transfer-Encoding is {came}; only \"chunked\" may come unasked, once")
            }
            Self::BareLineFeed(came) => write!(f, "a line ends in LF without CR: {came} came"),
            Self::BodyTooLarge { limit } => write!(f, "the body is larger than the limit of {limit} bytes"),
            Self::ClosedBeforeResponse => {
                f.write_str("the connection was closed before a byte of the answer came")
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
            Self::FoldedField(came) => write!(f, "a field is continued on the next line: {came} came"),
            Self::ForbiddenTrailer(came) => {
                write!(f, "a field came as a trailer that may not be one: {came} came")
            }
            Self::HeadTooLarge { limit } => write!(f, "the head is larger than the limit of {limit} bytes"),
            Self::InvalidField(came) => {
                write!(
                    f,
                    "a field line is not a name, a colon and a value without control characters: {came} came"
                )
            }
            Self::NotHttp(came) => write!(f, "the answer begins with {came}, not with \"HTTP/1.1\""),
            Self::RepeatedContentLength => f.write_str("Content-Length came more than once"),
            Self::TlsOnPlainConnection => f.write_str("the server speaks TLS on this port: use https://"),
            Self::TooManyFields { limit } => write!(f, "the head has more fields than the limit of {limit}"),
            Self::TrailersTooLarge { bytes, fields } => {
                write!(f, "the trailer section has more than {bytes} bytes or {fields} fields")
            }
            Self::TransferCodingInHttp10 => {
                f.write_str("the answer is HTTP/1.0 and has a Transfer-Encoding, which came with HTTP/1.1")
            }
            Self::Unsolicited(came) => write!(f, "bytes came that no request asked for: {came}"),
            Self::UnsolicitedUpgrade => f.write_str("a 101 came, and no other protocol was offered"),
            Self::UnsupportedVersion(came) => {
                write!(f, "the answer is {came}; the only major version spoken here is HTTP/1")
            }
        }
    }
}

impl std::error::Error for Fault {}
