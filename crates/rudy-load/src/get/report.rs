//! The report of a request, as text and as JSON.

use std::fmt::{self, Write as _};
use std::time::{Duration, SystemTime};

use http::{HeaderMap, Version};
use rudy_request::{Phases, Report};
use serde_json::{Map, Value, json};

use crate::units::visible;

/// The timings with curl's names.
fn named(phases: &Phases) -> [(&'static str, Duration); 5] {
    [
        ("time_namelookup", phases.name_lookup),
        ("time_connect", phases.connect),
        ("time_appconnect", phases.app_connect),
        ("time_starttransfer", phases.start_transfer),
        ("time_total", phases.total),
    ]
}

/// A report to show.
pub(super) struct Shown<'a>(pub(super) &'a Report);

/// The text report, with a line per property.
impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(report) = self;
        writeln!(f, "{} {}", report.method, report.url)?;
        let mut line = |name: &str, value: &dyn fmt::Display| writeln!(f, "  {name:<20}{value}");
        if !report.informational.is_empty() {
            line("interim", &report.informational.iter().map(u16::to_string).collect::<Vec<_>>().join(", "))?;
        }
        if let Some(head) = &report.head {
            let reason = if head.reason.is_empty() { String::new() } else { format!(" {}", head.reason) };
            line("status", &format_args!("{}{reason} (HTTP/{})", head.status, version(head.version)))?;
        }
        let connection = &report.connection;
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
        line("head", &format_args!("{} bytes", report.head_bytes))?;
        line("body", &self.body())?;
        for (name, value) in report.trailers.iter().flatten_fields() {
            line("trailer", &format_args!("{name}: {value}"))?;
        }
        for (name, time) in named(&report.phases) {
            line(name, &format_args!("{:.6} s", time.as_secs_f64()))?;
        }
        line("closed", &report.connection_end)
    }
}

impl Shown<'_> {
    fn body(&self) -> String {
        let Self(report) = self;
        let mut text = format!("{} bytes", report.body_bytes);
        let announced = report.head.as_ref().and_then(|head| head.length);
        if let Some(length) = announced.filter(|length| *length != report.body_bytes) {
            let _ = write!(text, " of {length}");
        }
        text
    }

    /// The JSON report, with units in its keys.
    pub(super) fn to_json(&self) -> Value {
        let Self(report) = self;
        let mut object = Map::new();
        let mut set = |key: &str, value: Value| object.insert(key.to_owned(), value);
        set("method", json!(report.method.as_str()));
        set("url", json!(report.url.to_string()));
        set("interim_statuses", json!(report.informational));
        set("status", json!(report.head.as_ref().map(|head| head.status)));
        set("reason", json!(report.head.as_ref().map(|head| &head.reason)));
        set("http_version", json!(report.head.as_ref().map(|head| version(head.version))));
        let connection = &report.connection;
        set("reused", json!(connection.new_reason.is_none()));
        set("new_because", json!(connection.new_reason.map(|reason| reason.to_string())));
        set("remote", json!(connection.remote));
        set("local", json!(connection.local));
        set("tls", json!(connection.tls));
        set("tls_handshake", json!(connection.tls_handshake));
        set("certificate_expires", json!(connection.certificate_expiry.map(date)));
        set("certificate_problems", json!(connection.certificate_problems));
        set("head_bytes", json!(report.head_bytes));
        set("body_bytes", json!(report.body_bytes));
        set("content_length_bytes", json!(report.head.as_ref().and_then(|head| head.length)));
        let trailers: Vec<_> =
            report.trailers.iter().flatten_fields().map(|(name, value)| json!([name, value])).collect();
        set("trailers", json!(trailers));
        for (name, time) in named(&report.phases) {
            set(&format!("{name}_s"), json!(round_to_microseconds(time)));
        }
        set("closed", json!(report.connection_end.name()));
        set("error_kind", json!(report.error.as_ref().map(|(kind, _)| kind)));
        set("error", json!(report.error.as_ref().map(|(_, text)| text)));
        Value::Object(object)
    }
}

fn version(version: Version) -> &'static str {
    match version {
        Version::HTTP_10 => "1.0",
        Version::HTTP_2 => "2",
        Version::HTTP_3 => "3",
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
