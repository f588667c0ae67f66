//! Why a request cannot be sent.

use http::Version;

use crate::BodyLength;

/// The reason why a request cannot be sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// A Host that is not `uri-host [ ":" port ]` (RFC 9112 §3.2).
    #[error("Host is {0:?}; expected a host name or IP address with an optional port")]
    BadHost(String),
    /// A target in a form that the method does not allow (RFC 9112 §3.2).
    #[error("the request target is {}; expected a path or an absolute URI (OPTIONS: or *; CONNECT: host:port), with other characters percent-encoded", without_query(.0))]
    BadTarget(String),
    /// A chunked body with HTTP/1.0, which does not support it (RFC 9112 §6.1).
    #[error("HTTP/1.0 does not support chunked bodies; use a body of known length")]
    ChunkedInHttp10,
    /// A Content-Length or Transfer-Encoding field that does not match the body.
    #[error("the body is {}, but Content-Length or Transfer-Encoding differs; omit the field", length(.0))]
    ConflictingLength(BodyLength),
    /// An Expect without a body (RFC 9110 §10.1.1).
    #[error("the request has Expect, but no body")]
    ExpectWithoutContent,
    /// No Host with HTTP/1.1 (RFC 9112 §3.2).
    #[error("the Host field is missing")]
    MissingHost,
    /// More than one Host (RFC 9112 §3.2).
    #[error("the request has more than one Host field")]
    RepeatedHost,
    /// Neither HTTP/1.0 nor HTTP/1.1.
    #[error("the version is {0:?}; expected HTTP/1.0 or HTTP/1.1")]
    UnsupportedVersion(Version),
}

/// A query may have secrets, and errors are logged.
fn without_query(target: &str) -> String {
    match target.split_once('?') {
        Some((path, _)) => format!("{path:?} and a query"),
        None => format!("{target:?}"),
    }
}

fn length(body: &BodyLength) -> String {
    match body {
        BodyLength::Known(length) => format!("{length} bytes long"),
        BodyLength::Chunked => "chunked".to_owned(),
    }
}
