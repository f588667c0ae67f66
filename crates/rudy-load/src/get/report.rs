//! The report of a request, as text and as JSON.

use std::fmt::{self, Write as _};
use std::time::{Duration, SystemTime};

use http::{HeaderMap, Method, Version};
use serde_json::{Map, Value, json};

use super::observer::{Head, Phases};
use crate::Url;
use crate::units::visible;

/// The report of a request.
#[derive(Debug)]
pub(crate) struct Report {
    pub(super) method: Method,
    pub(super) url: Url,
    pub(crate) connection: ConnectionInfo,
    pub(crate) head: Option<Head>,
    pub(super) informational: Vec<u16>,
    pub(super) trailers: Option<HeaderMap>,
    pub(super) head_bytes: u64,
    pub(super) body_bytes: u64,
    pub(crate) phases: Phases,
    pub(super) connection_end: ConnectionEnd,
    /// The kind of error and its message.
    pub(super) error: Option<(&'static str, String)>,
}

/// The connection of a request.
#[derive(Debug, Clone, Default)]
pub(crate) struct ConnectionInfo {
    /// The reason for a new connection; `None` if the previous one was reused.
    pub(crate) new_reason: Option<NewConnectionReason>,
    pub(super) remote: Option<String>,
    pub(super) local: Option<String>,
    pub(super) tls: Option<String>,
    /// `full` or `resumed`, if the connection is new.
    pub(super) tls_handshake: Option<&'static str>,
    /// When the first certificate of the server expires.
    pub(super) certificate_expiry: Option<SystemTime>,
    /// What is wrong with the certificates, if they were accepted without a check.
    pub(super) certificate_problems: Vec<String>,
}

/// A reason for which a connection was opened instead of reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NewConnectionReason {
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
pub(super) enum ConnectionEnd {
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
    fn name(self) -> &'static str {
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

impl Phases {
    /// The timings with curl's names.
    fn named(&self) -> [(&'static str, Duration); 5] {
        [
            ("time_namelookup", self.name_lookup),
            ("time_connect", self.connect),
            ("time_appconnect", self.app_connect),
            ("time_starttransfer", self.start_transfer),
            ("time_total", self.total),
        ]
    }
}

/// The text report, with a line per property.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} {}", self.method, self.url)?;
        let mut line = |name: &str, value: &dyn fmt::Display| writeln!(f, "  {name:<20}{value}");
        if !self.informational.is_empty() {
            line("interim", &self.informational.iter().map(u16::to_string).collect::<Vec<_>>().join(", "))?;
        }
        if let Some(head) = &self.head {
            let reason = if head.reason.is_empty() { String::new() } else { format!(" {}", head.reason) };
            line("status", &format_args!("{}{reason} (HTTP/{})", head.status, version(head.version)))?;
        }
        let connection = &self.connection;
        match connection.new_reason {
            Some(reason) => line("connection", &format_args!("new ({reason})"))?,
            None => line("connection", &"reused")?,
        }
        for (name, value) in
            [("remote", &connection.remote), ("local", &connection.local), ("tls", &connection.tls)]
        {
            if let Some(value) = value {
                line(name, value)?;
            }
        }
        if let Some(handshake) = connection.tls_handshake {
            line("tls_handshake", &handshake)?;
        }
        if let Some(expiry) = connection.certificate_expiry {
            line("certificate", &format_args!("expires {}", date(expiry)))?;
        }
        for problem in &connection.certificate_problems {
            line("problem", &visible(problem))?;
        }
        line("head", &format_args!("{} bytes", self.head_bytes))?;
        line("body", &self.body())?;
        for (name, value) in self.trailers.iter().flatten_fields() {
            line("trailer", &format_args!("{name}: {value}"))?;
        }
        for (name, time) in self.phases.named() {
            line(name, &format_args!("{:.6} s", time.as_secs_f64()))?;
        }
        line("closed", &self.connection_end)
    }
}

impl Report {
    fn body(&self) -> String {
        let mut text = format!("{} bytes", self.body_bytes);
        let announced = self.head.as_ref().and_then(|head| head.length);
        if let Some(length) = announced.filter(|length| *length != self.body_bytes) {
            let _ = write!(text, " of {length}");
        }
        text
    }

    /// The JSON report, with units in its keys.
    pub(super) fn to_json(&self) -> Value {
        let mut object = Map::new();
        let mut set = |key: &str, value: Value| object.insert(key.to_owned(), value);
        set("method", json!(self.method.as_str()));
        set("url", json!(self.url.to_string()));
        set("interim_statuses", json!(self.informational));
        set("status", json!(self.head.as_ref().map(|head| head.status)));
        set("reason", json!(self.head.as_ref().map(|head| &head.reason)));
        set("http_version", json!(self.head.as_ref().map(|head| version(head.version))));
        let connection = &self.connection;
        set("reused", json!(connection.new_reason.is_none()));
        set("new_because", json!(connection.new_reason.map(|reason| reason.to_string())));
        set("remote", json!(connection.remote));
        set("local", json!(connection.local));
        set("tls", json!(connection.tls));
        set("tls_handshake", json!(connection.tls_handshake));
        set("certificate_expires", json!(connection.certificate_expiry.map(date)));
        set("certificate_problems", json!(connection.certificate_problems));
        set("head_bytes", json!(self.head_bytes));
        set("body_bytes", json!(self.body_bytes));
        set("content_length_bytes", json!(self.head.as_ref().and_then(|head| head.length)));
        let trailers: Vec<_> =
            self.trailers.iter().flatten_fields().map(|(name, value)| json!([name, value])).collect();
        set("trailers", json!(trailers));
        for (name, time) in self.phases.named() {
            set(&format!("{name}_s"), json!(round_to_microseconds(time)));
        }
        set("closed", json!(self.connection_end.name()));
        set("error_kind", json!(self.error.as_ref().map(|(kind, _)| kind)));
        set("error", json!(self.error.as_ref().map(|(_, text)| text)));
        Value::Object(object)
    }
}

fn version(version: Version) -> &'static str {
    match version {
        Version::HTTP_10 => "1.0",
        Version::HTTP_2 => "2",
        _ => "1.1",
    }
}

/// A point in time, to the second: `2026-11-24T10:00:00Z`.
pub(crate) fn date(time: SystemTime) -> String {
    jiff::Timestamp::try_from(time).map_or_else(|_| "at an unknown time".to_owned(), |time| time.to_string())
}

/// More digits would exceed the precision of the clock.
#[expect(clippy::cast_precision_loss, reason = "microseconds of 285 years are exact")]
fn round_to_microseconds(time: Duration) -> f64 {
    time.as_micros() as f64 / 1e6
}

/// Header fields as text that is safe for terminals.
trait FlattenFields<'a> {
    fn flatten_fields(self) -> impl Iterator<Item = (&'a str, String)>;
}

impl<'a, I: Iterator<Item = &'a HeaderMap>> FlattenFields<'a> for I {
    fn flatten_fields(self) -> impl Iterator<Item = (&'a str, String)> {
        self.flatten().map(|(name, value)| (name.as_str(), value.as_bytes().escape_ascii().to_string()))
    }
}
