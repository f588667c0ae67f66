//! Why a request is rejected, and the status of the response.

use std::fmt;

use http::StatusCode;
use http::header::{self, HeaderMap, HeaderValue};

use crate::Malformed;

/// The methods that a 405 for CONNECT lists (RFC 9110 §15.5.6). The target of CONNECT is not a resource with methods, so these
/// are the methods of RFC 9110 and RFC 5789 that any resource may support. TRACE is missing because it would reflect
/// credentials.
const ALLOWED: &str = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS";

/// The reason why a request is rejected.
///
/// The connection always closes after a rejection, because the start of the next message is unknown or not trustworthy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Rejection {
    /// Both Content-Length and Transfer-Encoding (RFC 9112 §6.1): a sign of request smuggling.
    AmbiguousLength,
    /// A chunk that violates RFC 9112 §7.1, with the reason.
    BadChunk(&'static str),
    /// A Content-Length that is not a single decimal number (RFC 9110 §8.6).
    BadContentLength,
    /// A Host that is not `uri-host [ ":" port ]` (RFC 9112 §3.2).
    BadHost,
    /// A method that is not a token (RFC 9110 §9.1).
    BadMethod,
    /// Not `method SP request-target SP HTTP-version` (RFC 9112 §3).
    BadRequestLine,
    /// A request target in none of the four forms (RFC 9112 §3.2).
    BadTarget,
    /// A Transfer-Encoding that does not end in exactly one `chunked`, or one in an HTTP/1.0 request (RFC 9112 §6.1).
    BadTransferCoding,
    /// A line that ends in LF without CR. RFC 9112 §2.2 allows a recipient to accept it, but recipients that differ enable
    /// request smuggling.
    BareLineFeed,
    /// A body larger than the limit.
    BodyTooLarge,
    /// A body slower than the minimum rate.
    BodyTooSlow,
    /// A CONNECT request: this server is not a proxy (RFC 9110 §9.3.6). CONNECT is well formed, but its target is not a
    /// resource of any service.
    ConnectNotAllowed,
    /// An Expect other than `100-continue` (RFC 9110 §10.1.1).
    ExpectationFailed,
    /// A field continued on the next line (RFC 9112 §5.2).
    FoldedField,
    /// A field that is not allowed as a trailer (RFC 9110 §6.5.1).
    ForbiddenTrailer,
    /// A head or a trailer section with too many bytes or fields.
    HeadTooLarge,
    /// A head that was not complete before its timeout.
    HeadTooSlow,
    /// An HTTP/0.9 request.
    Http09,
    /// A field line with invalid characters in its name or value (RFC 9112 §5.1, RFC 9110 §5.5).
    InvalidField,
    /// No Host on HTTP/1.1 (RFC 9112 §3.2).
    MissingHost,
    /// More than one Host (RFC 9112 §3.2).
    RepeatedHost,
    /// A request target longer than the limit.
    TargetTooLong,
    /// A TLS handshake on a port that accepts plain HTTP.
    TlsOnPlainPort,
    /// A transfer coding other than chunked (RFC 9112 §6.1).
    UnsupportedTransferCoding,
    /// A major version other than 1.
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

/// The reason, for the log and the client. A limit has the name of its key in the configuration, so that an operator finds it.
impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AmbiguousLength => "the request has both Content-Length and Transfer-Encoding",
            Self::BadChunk(how) => how,
            Self::BadContentLength => "Content-Length is not a single decimal number",
            Self::BadHost => "Host is not a host name or IP address with an optional port",
            Self::BadMethod => "the method has invalid characters",
            Self::BadRequestLine => {
                "the request line is not a method, a target and a version separated by single spaces"
            }
            Self::BadTarget => "the request target is not a path, an absolute URI, an authority or *",
            Self::BadTransferCoding => {
                "Transfer-Encoding does not end in a single chunked, or the request is HTTP/1.0"
            }
            Self::BareLineFeed => "a line ends in LF without CR",
            Self::BodyTooLarge => "the request body is larger than the limit (`body_bytes`)",
            Self::ConnectNotAllowed => "CONNECT is not supported; this server is not a proxy",
            Self::BodyTooSlow => "the request body is slower than the minimum rate (`limits.body_rate_min`)",
            Self::ExpectationFailed => "unsupported Expect; the only supported expectation is 100-continue",
            Self::FoldedField => "a field is continued on the next line",
            Self::ForbiddenTrailer => "a field is not allowed as a trailer",
            Self::HeadTooLarge => "the request head is too large or has too many fields (`limits.head_bytes`, `limits.head_fields`)",
            Self::HeadTooSlow => "the request head was not complete in time (`limits.head_timeout`)",
            Self::Http09 => "HTTP/0.9 is not supported",
            Self::InvalidField => "a field line has invalid characters",
            Self::MissingHost => "the Host field is missing",
            Self::RepeatedHost => "the request has more than one Host field",
            Self::TargetTooLong => "the request target is longer than the limit (`limits.target_bytes`)",
            Self::TlsOnPlainPort => "this port accepts plain HTTP, but the client started TLS; use http://",
            Self::UnsupportedTransferCoding => {
                "unsupported transfer coding; the only supported one is chunked"
            }
            Self::UnsupportedVersion => "unsupported HTTP version; the only supported major version is 1",
        })
    }
}

impl std::error::Error for Rejection {}
