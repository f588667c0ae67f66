//! Requests to the collector.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, header};
use rudy_request::{Access, Error, Failure, Memory, Options, Session, Template, Trust, Waiter};
use rudy_trace::otlp::{Accepted, error_message};
use rudy_units::visible;

use super::table::TracingTable;

/// The maximum size of a response body that is read: it has a message at most.
const BODY_BYTES_MAX: usize = 64 * 1024;

/// The part of a message of the collector that is logged.
const MESSAGE_CHARS_MAX: usize = 300;

/// What has become of a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The collector has accepted the spans, or all but some.
    Accepted(Accepted),
    /// It may accept them later: the value of `Retry-After`, and why it does not.
    Later(Option<HeaderValue>, String),
    /// It never will: the reason.
    Never(String),
}

/// Returns how requests are sent.
pub(super) fn options(table: &TracingTable) -> Options {
    let trust =
        table.trusted_certificates.as_ref().map_or(Trust::Platform, |file| Trust::File(file.0.clone()));
    let (timeout, connect_timeout) = (Some(table.timeout.0), Some(table.timeout.0));
    Options { timeout, connect_timeout, access: Access { trust, ..Access::default() }, ..Options::default() }
}

/// The collector, and the connection to it.
pub(super) struct Collector<'a> {
    table: &'a TracingTable,
    session: Session<'a>,
    fields: HeaderMap,
}

impl<'a> Collector<'a> {
    pub(super) fn new(table: &'a TracingTable, options: &'a Options, waiter: &'a Waiter) -> Self {
        let mut fields = HeaderMap::new();
        fields.insert(
            header::USER_AGENT,
            HeaderValue::from_static(concat!("rudy/", env!("CARGO_PKG_VERSION"))),
        );
        fields.extend(table.headers.to_map());
        fields.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/x-protobuf"));
        Self { table, session: Session::new(options, waiter), fields }
    }

    /// Sends a request with this body, and waits for the response.
    pub(super) fn send(&mut self, body: Bytes) -> Outcome {
        let template = Template {
            method: Method::POST,
            fields: self.fields.clone(),
            body: Some(body),
            ..Template::default()
        };
        let mut received = Memory::new(BODY_BYTES_MAX);
        let (report, error) = self.session.send(&self.table.endpoint.0, &template, false, &mut received);
        match (report.head, error) {
            // Whatever happens to its body, the head says what has become of the spans.
            (Some(head), _) => {
                outcome(head.status, head.fields.get(header::RETRY_AFTER), &received.into_bytes())
            }
            (None, Some(error)) => Outcome::Later(None, self.why_failed(&error)),
            (None, None) => Outcome::Later(None, "no response".to_owned()),
        }
    }

    fn why_failed(&self, error: &Error) -> String {
        match error {
            Error::Failed(Failure::Connect(error)) => format!("cannot connect: {error}"),
            Error::ConnectTimeout | Error::Failed(Failure::Timeout) => {
                format!("no response within {} (`timeout`)", rudy_units::duration(self.table.timeout.0))
            }
            error => error.to_string(),
        }
    }
}

/// Decides by the status: OTLP names those after which a client tries again ("OTLP/HTTP Response").
fn outcome(status: u16, retry_after: Option<&HeaderValue>, body: &[u8]) -> Outcome {
    match status {
        200..300 => Outcome::Accepted(Accepted::decode(body)),
        429 | 502..=504 => {
            let why = format!("it responded with {status}{}", shown(&error_message(body)));
            Outcome::Later(retry_after.cloned(), why)
        }
        _ => Outcome::Never(format!("it responded with {status}{}", shown(&error_message(body)))),
    }
}

/// Returns a message of the collector for the end of a log line.
pub(super) fn shown(message: &str) -> String {
    let short: String = message.chars().take(MESSAGE_CHARS_MAX).collect();
    if short.is_empty() { String::new() } else { format!(": {}", visible(&short)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_decides_whether_spans_are_sent_again() {
        let seconds = HeaderValue::from_static("7");
        for status in [429, 502, 503, 504] {
            let Outcome::Later(after, why) = outcome(status, Some(&seconds), b"") else { panic!("{status}") };
            assert_eq!((after.as_ref(), why), (Some(&seconds), format!("it responded with {status}")));
        }
        for status in [301, 400, 401, 404, 413, 500, 501, 505, 999] {
            assert!(matches!(outcome(status, Some(&seconds), b""), Outcome::Never(_)), "{status}");
        }
        assert_eq!(outcome(200, None, b"no protobuf"), Outcome::Accepted(Accepted::default()));
        let why = "it responded with 400: bad\u{fffd}".to_owned();
        assert_eq!(outcome(400, None, b"\x12\x04bad\xff"), Outcome::Never(why));
    }
}
