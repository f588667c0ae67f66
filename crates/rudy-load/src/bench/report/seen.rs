//! All counts of a [`Recorder`] in their JSON form, without loss, so that rows and reports add up to a whole
//! run.

use std::collections::BTreeMap;
use std::time::Duration;

use rudy_stats::Histogram;
use rudy_stats::histogram::BlobError;
use serde::{Deserialize, Serialize};

use crate::FailureKind;
use crate::bench::Recorder;

/// Counts and histograms, of a run or an interval.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(in crate::bench) struct Seen {
    /// Requests that ended, with or without a response.
    requests: u64,
    /// Requests sent.
    sent: u64,
    /// Successful responses: a status below 400 and the expected body.
    right: u64,
    /// Bytes received, header included.
    bytes: u64,
    /// The part of them in bodies.
    body_bytes: u64,
    /// Maximum number of requests in flight at once, on the thread with the most.
    most_under_way: u64,
    /// Connections opened, before the run or during the measurement.
    connections_opened: u64,
    /// Connections that the server closed without a request in flight.
    connections_ended: u64,
    /// Total time, in seconds, in which requests of the warm-up were in flight during the measurement.
    #[serde(default)]
    carried_over_s: f64,
    /// Responses by status.
    status_codes: BTreeMap<String, u64>,
    /// Failed requests by reason.
    errors: Errors,
    /// An example of each, in words.
    error_examples: BTreeMap<String, String>,
    /// The unit of the histograms, which their format does not contain.
    histogram_unit: String,
    /// Latencies of successful responses as an `HdrHistogram` (V2, deflated, base64): from the due time or,
    /// in a closed loop, the send. Empty histograms are omitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    latency_histogram: Option<String>,
    /// The same for failed requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    latency_failed_histogram: Option<String>,
    /// From the send to the last byte; omitted in a closed loop, where the latency is the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    service_histogram: Option<String>,
    /// From the due time to the send.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    schedule_lag_histogram: Option<String>,
    /// From the send to the first byte.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    first_byte_histogram: Option<String>,
    /// From the connection attempt to TCP connected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    connect_histogram: Option<String>,
    /// From TCP connected to the end of the TLS handshake.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tls_histogram: Option<String>,
}

/// Failed requests by reason.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Errors {
    /// The connection could not be opened.
    connect: u64,
    /// The TLS handshake failed.
    tls: u64,
    /// The connection failed while the request was sent.
    write: u64,
    /// The connection failed before the response was complete.
    read: u64,
    /// The connection closed in the middle of the response.
    short_body: u64,
    /// The response is not valid HTTP.
    malformed: u64,
    /// The timeout, from the send.
    timeout: u64,
    /// The timeout, from the due time.
    deadline: u64,
    /// The body is not the expected one.
    unexpected_body: u64,
    /// Statuses from 400 to 499.
    status_4xx: u64,
    /// Statuses from 500 on.
    status_5xx: u64,
}

const UNIT: &str = "ns";

/// The reason for a response with a successful status and an unexpected body.
pub(super) const UNEXPECTED: &str = "unexpected_body";

impl Seen {
    pub(super) fn of(recorder: &Recorder) -> Self {
        let statuses = recorder.statuses.iter().enumerate().filter(|(_, count)| **count > 0);
        let blob = |histogram: &Histogram| (!histogram.is_empty()).then(|| histogram.to_base64());
        Self {
            requests: recorder.requests(),
            sent: recorder.sent,
            right: recorder.right,
            bytes: recorder.received_bytes,
            body_bytes: recorder.body_bytes,
            most_under_way: recorder.most_under_way,
            connections_opened: recorder.opened,
            connections_ended: recorder.ended,
            carried_over_s: recorder.carried_over.as_secs_f64(),
            status_codes: statuses.map(|(status, count)| (status.to_string(), *count)).collect(),
            errors: Errors::of(recorder),
            error_examples: examples(recorder),
            histogram_unit: UNIT.to_owned(),
            latency_histogram: blob(&recorder.latency),
            latency_failed_histogram: blob(&recorder.latency_failed),
            service_histogram: blob(&recorder.service),
            schedule_lag_histogram: blob(&recorder.lag),
            first_byte_histogram: blob(&recorder.first_byte),
            connect_histogram: blob(&recorder.connect),
            tls_histogram: blob(&recorder.tls),
        }
    }
}

fn examples(recorder: &Recorder) -> BTreeMap<String, String> {
    let failures = FailureKind::ALL.iter().map(|kind| (kind.name(), &recorder.examples[*kind as usize]));
    let all = failures.chain([(UNEXPECTED, &recorder.unexpected_example)]);
    all.filter_map(|(name, example)| Some((name.to_owned(), example.clone()?))).collect()
}

impl Errors {
    fn of(recorder: &Recorder) -> Self {
        let failed = |kind: FailureKind| recorder.failures[kind as usize];
        Self {
            connect: failed(FailureKind::Connect),
            tls: failed(FailureKind::Tls),
            write: failed(FailureKind::Write),
            read: failed(FailureKind::Read),
            short_body: failed(FailureKind::Short),
            malformed: failed(FailureKind::Malformed),
            timeout: failed(FailureKind::Timeout),
            deadline: failed(FailureKind::Deadline),
            unexpected_body: recorder.unexpected,
            status_4xx: recorder.statuses[400..500].iter().sum(),
            status_5xx: recorder.statuses[500..].iter().sum(),
        }
    }

    fn of_kind(&self, kind: FailureKind) -> u64 {
        match kind {
            FailureKind::Connect => self.connect,
            FailureKind::Tls => self.tls,
            FailureKind::Write => self.write,
            FailureKind::Read => self.read,
            FailureKind::Short => self.short_body,
            FailureKind::Malformed => self.malformed,
            FailureKind::Timeout => self.timeout,
            FailureKind::Deadline => self.deadline,
        }
    }
}

impl TryFrom<Seen> for Recorder {
    type Error = BlobError;

    fn try_from(seen: Seen) -> Result<Self, BlobError> {
        let histogram = |blob: Option<String>| match blob {
            Some(blob) => Histogram::from_base64(&blob),
            None => Ok(Histogram::new()),
        };
        let mut recorder = Self {
            latency: histogram(seen.latency_histogram)?,
            latency_failed: histogram(seen.latency_failed_histogram)?,
            service: histogram(seen.service_histogram)?,
            first_byte: histogram(seen.first_byte_histogram)?,
            connect: histogram(seen.connect_histogram)?,
            tls: histogram(seen.tls_histogram)?,
            lag: histogram(seen.schedule_lag_histogram)?,
            unexpected: seen.errors.unexpected_body,
            unexpected_example: seen.error_examples.get(UNEXPECTED).cloned(),
            right: seen.right,
            sent: seen.sent,
            received_bytes: seen.bytes,
            body_bytes: seen.body_bytes,
            most_under_way: seen.most_under_way,
            opened: seen.connections_opened,
            ended: seen.connections_ended,
            carried_over: Duration::try_from_secs_f64(seen.carried_over_s).unwrap_or_default(),
            ..Self::default()
        };
        for (status, count) in &seen.status_codes {
            // A status that no response can have is ignored.
            if let Some(cell) =
                status.parse::<usize>().ok().and_then(|status| recorder.statuses.get_mut(status))
            {
                *cell = *count;
            }
        }
        for kind in FailureKind::ALL {
            recorder.failures[kind as usize] = seen.errors.of_kind(kind);
            recorder.examples[kind as usize] = seen.error_examples.get(kind.name()).cloned();
        }
        Ok(recorder)
    }
}
