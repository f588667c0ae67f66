//! What is known of a request when it has ended.

use std::fmt;
use std::time::{Duration, SystemTime};

use http::{HeaderMap, HeaderName, HeaderValue, Method, Version};

use crate::Url;

/// The report of a request.
#[derive(Debug)]
pub struct Report {
    /// The method.
    pub method: Method,
    /// The URL.
    pub url: Url,
    /// The connection that carried it.
    pub connection: ConnectionInfo,
    /// The head of the response, if there was one.
    pub head: Option<Head>,
    /// The statuses of the first interim responses.
    pub informational: Vec<u16>,
    /// The trailers, if there were any.
    pub trailers: Option<HeaderMap>,
    /// Size of all heads in bytes.
    pub head_bytes: u64,
    /// Size of the body in bytes.
    pub body_bytes: u64,
    /// When each phase had ended.
    pub phases: Phases,
    /// What became of the connection.
    pub connection_end: ConnectionEnd,
    /// The kind of error and its message.
    pub error: Option<(&'static str, String)>,
}

/// The connection of a request.
#[derive(Debug, Clone, Default)]
pub struct ConnectionInfo {
    /// The reason for a new connection; `None` if the previous one was reused.
    pub new_reason: Option<NewConnectionReason>,
    /// The address of the server.
    pub remote: Option<String>,
    /// The local address.
    pub local: Option<String>,
    /// Version, cipher suite and group of the key exchange.
    pub tls: Option<String>,
    /// `full` or `resumed`, if the connection is new.
    pub tls_handshake: Option<&'static str>,
    /// When the first certificate of the server expires.
    pub certificate_expiry: Option<SystemTime>,
    /// What is wrong with the certificates, if they were accepted without a check.
    pub certificate_problems: Vec<String>,
}

/// A reason for which a connection was opened instead of reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NewConnectionReason {
    /// It is the first connection.
    First,
    /// The previous connection was to another server.
    OtherServer,
    /// The previous connection was not reusable.
    NotKept,
    /// The server had closed the previous connection.
    ServerClosed,
    /// The server closed the previous connection while the request was sent. It was sent again (RFC 9112 §9.3.1).
    SentAgain,
}

/// The end of the connection of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectionEnd {
    /// There was no connection.
    NeverOpen,
    /// Open for the next request.
    Kept,
    /// Closed by the client, which has no more requests.
    ClosedByClient,
    /// Closed by the client, because one side announced the last response.
    ClosedAsAnnounced,
    /// Closed by the server without error.
    ClosedByServer,
    /// Closed by the server before the response was complete.
    ClosedEarly,
    /// Failed while the request or response was in flight.
    Failed,
    /// Closed by the client while the response was in flight.
    Aborted,
}

impl fmt::Display for NewConnectionReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::First => "the first",
            Self::OtherServer => "the last one was to another server",
            Self::NotKept => "the last one was not reusable",
            Self::ServerClosed => "the server had closed the last one",
            Self::SentAgain => {
                "the server closed the last one while the request was sent, which was sent again"
            }
        })
    }
}

impl ConnectionEnd {
    /// The name in JSON reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::NeverOpen => "never_open",
            Self::Kept => "kept",
            Self::ClosedByClient => "by_us",
            Self::ClosedAsAnnounced => "as_agreed",
            Self::ClosedByServer => "by_server",
            Self::ClosedEarly => "early_by_server",
            Self::Failed => "broken",
            Self::Aborted => "cut_by_us",
        }
    }
}

impl fmt::Display for ConnectionEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NeverOpen => "was never open",
            Self::Kept => "not yet: kept for the next request",
            Self::ClosedByClient => "by us, after the last request",
            Self::ClosedAsAnnounced => "by us, as announced in the request or response",
            Self::ClosedByServer => "by the server, after the response",
            Self::ClosedEarly => "by the server, before the response was complete",
            Self::Failed => "broken",
            Self::Aborted => "cut by us, with the response in flight",
        })
    }
}

/// The times of curl's phases, from the start of the request. Zero for phases that did not happen, on a
/// reused connection or without TLS.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Phases {
    /// The name lookup was complete.
    pub name_lookup: Duration,
    /// TCP was connected.
    pub connect: Duration,
    /// The TLS handshake with the server was complete.
    pub app_connect: Duration,
    /// The first byte of the response arrived.
    pub start_transfer: Duration,
    /// The request was complete.
    pub total: Duration,
}

/// The head of a response.
#[derive(Debug, Clone)]
pub struct Head {
    /// The status.
    pub status: u16,
    /// The reason phrase, without control characters, which could change the state of a terminal.
    pub reason: String,
    /// HTTP/1.0, HTTP/1.1 or HTTP/2.
    pub version: Version,
    /// The announced length of the body.
    pub length: Option<u64>,
    /// The fields.
    pub fields: HeaderMap,
}

impl Head {
    /// The value of a field, if there is one.
    #[must_use]
    pub fn get(&self, name: HeaderName) -> Option<&[u8]> {
        self.fields.get(name).map(HeaderValue::as_bytes)
    }
}
