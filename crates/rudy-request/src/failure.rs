//! Failures of requests.

use std::fmt;
use std::io;

use rudy_http::h1::client::Fault;
use rudy_http::h2::{ConnectionError, ErrorCode};
use rudy_http::h3;
use serde::{Deserialize, Serialize};

/// The failure of a request that has no complete response.
#[derive(Debug)]
pub enum Failure {
    /// The connection could not be opened.
    Connect(io::Error),
    /// The TLS handshake failed.
    Tls(io::Error),
    /// The connection failed before the response was complete.
    Read(io::Error),
    /// The connection failed while the request was sent, and there was no response to read.
    Write(io::Error),
    /// The server closed the connection before the response was complete.
    Short(Fault),
    /// The response is not valid HTTP.
    Malformed(Fault),
    /// The server closed an HTTP/2 connection before the response was complete, with this reason if it gave one.
    Closed(Option<String>),
    /// The server violates HTTP/2, in the response or on its connection.
    Http2(ConnectionError),
    /// The server reset the stream of the response.
    Reset(ErrorCode),
    /// The server violates HTTP/3, in the response or on its connection.
    Http3(h3::ConnectionError),
    /// The server reset the stream of the response, over HTTP/3.
    ResetHttp3(h3::ErrorCode),
    /// The server refused the stream before it processed the request.
    Refused,
    /// The server allows only this number of concurrent streams on a connection.
    StreamLimit(u32),
    /// The timeout of the response, from the send, has passed.
    Timeout,
    /// The timeout of the response, from the due time, has passed.
    Deadline,
    /// The run ended before a connection was free.
    NotSent,
}

/// The kinds of [`Failure`], for counting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// [`Failure::Connect`]
    Connect,
    /// [`Failure::Tls`]
    Tls,
    /// [`Failure::Write`]
    Write,
    /// [`Failure::Read`]
    Read,
    /// [`Failure::Short`], [`Failure::Closed`]
    #[serde(rename = "short_body")]
    Short,
    /// [`Failure::Malformed`], [`Failure::Http2`], [`Failure::Http3`]
    Malformed,
    /// [`Failure::Reset`], [`Failure::ResetHttp3`]
    Reset,
    /// [`Failure::Refused`], [`Failure::StreamLimit`]
    Refused,
    /// [`Failure::Timeout`]
    Timeout,
    /// [`Failure::Deadline`]
    Deadline,
    /// [`Failure::NotSent`]
    NotSent,
}

impl FailureKind {
    /// All kinds, in the order in which they can happen to a request.
    pub const ALL: [Self; 11] = [
        Self::Connect,
        Self::Tls,
        Self::Write,
        Self::Read,
        Self::Short,
        Self::Malformed,
        Self::Reset,
        Self::Refused,
        Self::Timeout,
        Self::Deadline,
        Self::NotSent,
    ];

    /// The name in reports and in JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::Tls => "tls",
            Self::Write => "write",
            Self::Read => "read",
            Self::Short => "short_body",
            Self::Malformed => "malformed",
            Self::Reset => "reset",
            Self::Refused => "refused",
            Self::Timeout => "timeout",
            Self::Deadline => "deadline",
            Self::NotSent => "not_sent",
        }
    }
}

impl Failure {
    /// The kind of this failure.
    #[must_use]
    pub fn kind(&self) -> FailureKind {
        match self {
            Self::Connect(_) => FailureKind::Connect,
            Self::Tls(_) => FailureKind::Tls,
            Self::Write(_) => FailureKind::Write,
            Self::Read(_) => FailureKind::Read,
            Self::Short(_) | Self::Closed(_) => FailureKind::Short,
            Self::Malformed(_) | Self::Http2(_) | Self::Http3(_) => FailureKind::Malformed,
            Self::Reset(_) | Self::ResetHttp3(_) => FailureKind::Reset,
            Self::Refused | Self::StreamLimit(_) => FailureKind::Refused,
            Self::Timeout => FailureKind::Timeout,
            Self::Deadline => FailureKind::Deadline,
            Self::NotSent => FailureKind::NotSent,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connect(error) => write!(f, "could not connect: {}", format_error(error)),
            Self::Tls(error) => write!(f, "TLS failed: {}", format_error(error)),
            Self::Read(error) => {
                write!(f, "the connection failed before the response was complete: {}", format_error(error))
            }
            Self::Write(error) => {
                write!(f, "the connection failed while the request was sent: {}", format_error(error))
            }
            Self::Short(fault) | Self::Malformed(fault) => write!(f, "{fault}"),
            Self::Closed(None) => f.write_str("the connection was closed before the response was complete"),
            Self::Closed(Some(reason)) => write!(f, "the server closed the connection: {reason}"),
            Self::Http2(error) => error.fmt(f),
            Self::Http3(error) => error.fmt(f),
            Self::Reset(code) => write!(f, "the server reset the stream: {code}"),
            Self::ResetHttp3(code) => write!(f, "the server reset the stream: {code}"),
            Self::Refused => f.write_str("the server refused the stream (REFUSED_STREAM)"),
            Self::StreamLimit(allowed) => {
                write!(f, "the server allows only {allowed} concurrent streams on a connection")
            }
            Self::Timeout => f.write_str("no complete response within the timeout"),
            Self::Deadline => f.write_str("no complete response by the deadline"),
            Self::NotSent => f.write_str("no connection was free before the end of the run"),
        }
    }
}

impl std::error::Error for Failure {}

/// Formats an error of the operating system without its number.
fn format_error(error: &io::Error) -> String {
    let text = error.to_string();
    match text.find(" (os error") {
        Some(end) => text[..end].to_lowercase(),
        None => text,
    }
}
