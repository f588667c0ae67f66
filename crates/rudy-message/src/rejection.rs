//! Why a request is rejected, and the status of the response.

use http::StatusCode;
use http::header::{self, HeaderMap, HeaderValue};

use crate::Malformed;

/// The methods that a 405 for CONNECT lists (RFC 9110 §15.5.6). The target of CONNECT is not a resource with methods, so these
/// are the methods of RFC 9110 and RFC 5789 that any resource may support. TRACE is missing because it would reflect
/// credentials.
const ALLOWED: &str = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS";

/// The reason why a request is rejected.
///
/// The connection always closes after a rejection, because the start of the next message is unknown or not trustworthy. The log and the
/// client get the message. A limit has the name of its key in the configuration, so that an operator finds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Rejection {
    /// Both Content-Length and Transfer-Encoding (RFC 9112 §6.1): a sign of request smuggling.
    #[error("the request has both Content-Length and Transfer-Encoding")]
    AmbiguousLength,
    /// A chunk that violates RFC 9112 §7.1, with the reason.
    #[error("{0}")]
    BadChunk(&'static str),
    /// A Content-Length that is not a single decimal number (RFC 9110 §8.6).
    #[error("Content-Length is not a single decimal number")]
    BadContentLength,
    /// A Host that is not `uri-host [ ":" port ]` (RFC 9112 §3.2).
    #[error("Host is not a host name or IP address with an optional port")]
    BadHost,
    /// A method that is not a token (RFC 9110 §9.1).
    #[error("the method has invalid characters")]
    BadMethod,
    /// Not `method SP request-target SP HTTP-version` (RFC 9112 §3).
    #[error("the request line is not a method, a target and a version separated by single spaces")]
    BadRequestLine,
    /// A request target in none of the four forms (RFC 9112 §3.2).
    #[error("the request target is not a path, an absolute URI, an authority or *")]
    BadTarget,
    /// A Transfer-Encoding that does not end in exactly one `chunked`, or one in an HTTP/1.0 request (RFC 9112 §6.1).
    #[error("Transfer-Encoding does not end in a single chunked, or the request is HTTP/1.0")]
    BadTransferCoding,
    /// A line that ends in LF without CR. RFC 9112 §2.2 allows a recipient to accept it, but recipients that differ enable
    /// request smuggling.
    #[error("a line ends in LF without CR")]
    BareLineFeed,
    /// A body larger than the limit.
    #[error("the request body is larger than the limit (`body_bytes`)")]
    BodyTooLarge,
    /// A body slower than the minimum rate.
    #[error("the request body is slower than the minimum rate (`limits.body_rate_min`)")]
    BodyTooSlow,
    /// A CONNECT request: this server is not a proxy (RFC 9110 §9.3.6). CONNECT is well formed, but its target is not a
    /// resource of any service.
    #[error("CONNECT is not supported; this server is not a proxy")]
    ConnectNotAllowed,
    /// An Expect other than `100-continue` (RFC 9110 §10.1.1).
    #[error("unsupported Expect; the only supported expectation is 100-continue")]
    ExpectationFailed,
    /// A field continued on the next line (RFC 9112 §5.2).
    #[error("a field is continued on the next line")]
    FoldedField,
    /// A field that is not allowed as a trailer (RFC 9110 §6.5.1).
    #[error("a field is not allowed as a trailer")]
    ForbiddenTrailer,
    /// A head or a trailer section with too many bytes or fields.
    #[error(
        "the request head is too large or has too many fields (`limits.head_bytes`, `limits.head_fields`)"
    )]
    HeadTooLarge,
    /// A head that was not complete before its timeout.
    #[error("the request head was not complete in time (`limits.head_timeout`)")]
    HeadTooSlow,
    /// An HTTP/0.9 request.
    #[error("HTTP/0.9 is not supported")]
    Http09,
    /// A field line with invalid characters in its name or value (RFC 9112 §5.1, RFC 9110 §5.5).
    #[error("a field line has invalid characters")]
    InvalidField,
    /// No Host on HTTP/1.1 (RFC 9112 §3.2).
    #[error("the Host field is missing")]
    MissingHost,
    /// More than one Host (RFC 9112 §3.2).
    #[error("the request has more than one Host field")]
    RepeatedHost,
    /// A request target longer than the limit.
    #[error("the request target is longer than the limit (`limits.target_bytes`)")]
    TargetTooLong,
    /// A TLS handshake on a port that accepts plain HTTP.
    #[error("this port accepts plain HTTP, but the client started TLS; use http://")]
    TlsOnPlainPort,
    /// A transfer coding other than chunked (RFC 9112 §6.1).
    #[error("unsupported transfer coding; the only supported one is chunked")]
    UnsupportedTransferCoding,
    /// A major version other than 1.
    #[error("unsupported HTTP version; the only supported major version is 1")]
    UnsupportedVersion,
}

impl Rejection {
    /// Returns the fields of the response, without those that the connection adds.
    #[must_use]
    pub fn fields(self) -> HeaderMap {
        let mut fields = HeaderMap::new();
        fields.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
        if self == Self::ConnectNotAllowed {
            fields.insert(header::ALLOW, HeaderValue::from_static(ALLOWED));
        }
        fields
    }

    /// Returns the status of the response.
    #[must_use]
    pub fn status(self) -> StatusCode {
        match self {
            Self::BodyTooSlow | Self::HeadTooSlow => StatusCode::REQUEST_TIMEOUT,
            Self::BodyTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::ConnectNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
            Self::TargetTooLong => StatusCode::URI_TOO_LONG,
            Self::ExpectationFailed => StatusCode::EXPECTATION_FAILED,
            Self::HeadTooLarge => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            Self::UnsupportedTransferCoding => StatusCode::NOT_IMPLEMENTED,
            Self::UnsupportedVersion => StatusCode::HTTP_VERSION_NOT_SUPPORTED,
            _ => StatusCode::BAD_REQUEST,
        }
    }
}

impl From<Malformed> for Rejection {
    fn from(malformed: Malformed) -> Self {
        match malformed {
            Malformed::BadChunk(how) => Self::BadChunk(how),
            Malformed::BareLineFeed => Self::BareLineFeed,
            Malformed::BodyTooLarge => Self::BodyTooLarge,
            Malformed::FoldedField => Self::FoldedField,
            Malformed::ForbiddenTrailer => Self::ForbiddenTrailer,
            Malformed::InvalidField => Self::InvalidField,
            Malformed::SectionTooLarge => Self::HeadTooLarge,
        }
    }
}
