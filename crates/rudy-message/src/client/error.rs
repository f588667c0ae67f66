//! Why a request cannot be sent.

use std::fmt;

use http::Version;

use crate::BodyLength;

/// The reason why a request cannot be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestError {
    /// A Host that is not `uri-host [ ":" port ]` (RFC 9112 §3.2).
    BadHost(String),
    /// A target in a form that the method does not allow (RFC 9112 §3.2).
    BadTarget(String),
    /// A chunked body with HTTP/1.0, which does not support it (RFC 9112 §6.1).
    ChunkedInHttp10,
    /// A Content-Length or Transfer-Encoding field that does not match the body.
    ConflictingLength(BodyLength),
    /// An Expect without a body (RFC 9110 §10.1.1).
    ExpectWithoutContent,
    /// No Host with HTTP/1.1 (RFC 9112 §3.2).
    MissingHost,
    /// More than one Host (RFC 9112 §3.2).
    RepeatedHost,
    /// Neither HTTP/1.0 nor HTTP/1.1.
    UnsupportedVersion(Version),
}

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BadHost(host) => {
                write!(f, "Host is {host:?}; expected a host name or IP address with an optional port")
            }
            Self::BadTarget(target) => {
                // A query may have secrets, and errors are logged.
                let (path, and) = match target.split_once('?') {
                    Some((path, _)) => (path, " and a query"),
                    None => (target.as_str(), ""),
                };
                write!(
                    f,
                    "the request target is {path:?}{and}; expected a path or an absolute URI (OPTIONS: or *; CONNECT: host:port), \
                     with other characters percent-encoded"
                )
            }
            Self::ChunkedInHttp10 => {
                f.write_str("HTTP/1.0 does not support chunked bodies; use a body of known length")
            }
            Self::ConflictingLength(BodyLength::Known(length)) => write!(
                f,
                "the body is {length} bytes long, but Content-Length or Transfer-Encoding differs; omit the field"
            ),
            Self::ConflictingLength(BodyLength::Chunked) => f.write_str(
                "the body is chunked, but Content-Length or Transfer-Encoding differs; omit the field",
            ),
            Self::ExpectWithoutContent => f.write_str("the request has Expect, but no body"),
            Self::MissingHost => f.write_str("the Host field is missing"),
            Self::RepeatedHost => f.write_str("the request has more than one Host field"),
            Self::UnsupportedVersion(version) => {
                write!(f, "the version is {version:?}; expected HTTP/1.0 or HTTP/1.1")
            }
        }
    }
}

impl std::error::Error for RequestError {}
