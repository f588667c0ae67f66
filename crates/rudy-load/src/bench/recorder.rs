//! The counts and histograms of one thread in one interval. The whole run is the sum of its intervals, so the metrics
//! during the run and at its end agree. The JSON form is lossless, so reports and rows can be added as well.

use std::collections::BTreeMap;
use std::time::Duration;

use rudy_request::{Failure, FailureKind};
use rudy_stats::{Histogram, SuccessRate};
use serde::{Deserialize, Serialize};

use super::handshakes::Handshakes;
use super::json;

/// Statuses have three digits (RFC 9110 §15); some services send 999.
const STATUSES: usize = 1000;

/// Counts and latency histograms, in constant memory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Recorder {
    /// Latency of successful responses: from the due time (open loop) or the send (closed loop) to the last byte.
    #[serde(rename = "latency_histogram", default, skip_serializing_if = "Histogram::is_empty")]
    pub latency: Histogram,
    /// Latency of failed responses, and of requests that were sent and had no response until they failed.
    #[serde(rename = "latency_failed_histogram", default, skip_serializing_if = "Histogram::is_empty")]
    pub latency_failed: Histogram,
    /// The waiting time of requests that were given up before they had a response, sent or not. It is a lower bound of
    /// their latency.
    #[serde(rename = "given_up_histogram", default, skip_serializing_if = "Histogram::is_empty")]
    pub given_up: Histogram,
    /// Service time: from the send to the last byte. Empty in a closed loop, where it equals the latency.
    #[serde(rename = "service_histogram", default, skip_serializing_if = "Histogram::is_empty")]
    pub service: Histogram,
    /// Time to the first byte, from the send.
    #[serde(rename = "first_byte_histogram", default, skip_serializing_if = "Histogram::is_empty")]
    pub first_byte: Histogram,
    /// Connect time: from the start of the attempt to TCP connected.
    #[serde(rename = "connect_histogram", default, skip_serializing_if = "Histogram::is_empty")]
    pub connect: Histogram,
    /// Time of the TLS handshake, from TCP connected.
    #[serde(rename = "tls_histogram", default, skip_serializing_if = "Histogram::is_empty")]
    pub tls: Histogram,
    /// Schedule delay: from the due time to the send, which follows the connection if the request opened one. Empty in a closed
    /// loop.
    #[serde(rename = "schedule_delay_histogram", default, skip_serializing_if = "Histogram::is_empty")]
    pub schedule_delay: Histogram,
    /// Latency of all complete responses, by status class.
    #[serde(rename = "status_class_histograms", default)]
    pub status_classes: BTreeMap<StatusClass, Histogram>,
    /// Responses by status.
    #[serde(rename = "status_codes", with = "json::statuses")]
    pub statuses: Box<[u64; STATUSES]>,
    /// Requests without a response, by reason.
    pub failures: BTreeMap<FailureKind, Failed>,
    /// Responses with a successful status and an unexpected body.
    pub unexpected_body: Failed,
    /// Responses, of any status, that differ from the first response to the same request.
    #[serde(rename = "unlike_the_first")]
    pub differing_responses: u64,
    /// Successful responses: a status below 400 and the expected body.
    pub succeeded: u64,
    /// Requests that were sent, or for which a connection was opened.
    pub sent: u64,
    /// Requests that were due before the end of the run and sent after it; included in `sent`.
    pub sent_after_end: u64,
    /// Bytes received after the warm-up, with the header.
    pub received_bytes: u64,
    /// The part of it that was received after the end of the run.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub received_bytes_after_end: u64,
    /// Bytes of bodies received after the warm-up.
    pub body_bytes: u64,
    /// Maximum number of requests in flight at once, on the thread with the most.
    pub peak_in_flight: u64,
    /// Connections opened, except during the warm-up.
    #[serde(rename = "connections_opened")]
    pub opened: u64,
    /// Connections that the server closed without a request in flight.
    #[serde(rename = "connections_closed_by_server")]
    pub closed_by_server: u64,
    /// TLS handshakes, except during the warm-up.
    #[serde(flatten)]
    pub handshakes: Handshakes,
    /// HTTP/2: requests that were sent again, because the server had refused them before it processed anything.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub repeated: u64,
    /// HTTP/2: the lowest number of concurrent streams that the server allowed on a connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_streams: Option<u32>,
    /// Warm-up spill-over: the total time during the measurement in which requests of the warm-up were in flight and
    /// blocked their connections.
    #[serde(rename = "warmup_spillover_s", with = "json::seconds")]
    pub warmup_spillover: Duration,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Failed requests of one kind.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failed {
    /// The number of requests.
    pub count: u64,
    /// A description of the first one.
    pub example: Option<String>,
}

impl Failed {
    fn add(&mut self, other: &Self) {
        self.count += other.count;
        if self.example.is_none() {
            self.example.clone_from(&other.example);
        }
    }
}

/// The class of a status: its first digit (RFC 9110 §15).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum StatusClass {
    /// 200 to 299.
    #[serde(rename = "2xx")]
    Success,
    /// 300 to 399.
    #[serde(rename = "3xx")]
    Redirect,
    /// 400 to 499.
    #[serde(rename = "4xx")]
    ClientError,
    /// 500 to 599.
    #[serde(rename = "5xx")]
    ServerError,
    /// Any other number.
    #[serde(rename = "other")]
    Other,
}

impl StatusClass {
    fn new(status: u16) -> Self {
        match status / 100 {
            2 => Self::Success,
            3 => Self::Redirect,
            4 => Self::ClientError,
            5 => Self::ServerError,
            _ => Self::Other,
        }
    }

    /// `2xx`
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Success => "2xx",
            Self::Redirect => "3xx",
            Self::ClientError => "4xx",
            Self::ServerError => "5xx",
            Self::Other => "other",
        }
    }
}

impl Default for Recorder {
    fn default() -> Self {
        Self {
            latency: Histogram::new(),
            latency_failed: Histogram::new(),
            given_up: Histogram::new(),
            service: Histogram::new(),
            first_byte: Histogram::new(),
            connect: Histogram::new(),
            tls: Histogram::new(),
            schedule_delay: Histogram::new(),
            status_classes: BTreeMap::new(),
            statuses: Box::new([0; STATUSES]),
            failures: BTreeMap::new(),
            unexpected_body: Failed::default(),
            differing_responses: 0,
            succeeded: 0,
            sent: 0,
            sent_after_end: 0,
            received_bytes: 0,
            received_bytes_after_end: 0,
            body_bytes: 0,
            peak_in_flight: 0,
            opened: 0,
            closed_by_server: 0,
            handshakes: Handshakes::default(),
            repeated: 0,
            allowed_streams: None,
            warmup_spillover: Duration::ZERO,
        }
    }
}

impl Recorder {
    /// Records a request without a response, which failed `after` its due time (open loop) or send (closed loop).
    pub fn record_failure(&mut self, failure: &Failure, after: Duration) {
        let failed = self.failures.entry(failure.kind()).or_default();
        failed.count += 1;
        failed.example.get_or_insert_with(|| failure.to_string());
        if !matches!(failure, Failure::NotSent) {
            self.latency_failed.record(after);
        }
        if matches!(failure, Failure::Timeout | Failure::Deadline | Failure::NotSent) {
            self.given_up.record(after);
        }
    }

    /// Records a response with a successful status and an unexpected body.
    pub fn record_unexpected_body(&mut self, body_bytes: u64, expected_bytes: Option<u64>) {
        self.unexpected_body.count += 1;
        self.unexpected_body.example.get_or_insert_with(|| match expected_bytes {
            Some(expected) if expected != body_bytes => {
                format!("a body of {body_bytes} bytes instead of {expected}")
            }
            _ => format!("a body of {body_bytes} bytes, as long as expected, with different content"),
        });
    }

    /// Records a complete response.
    pub fn record_response(&mut self, status: u16, latency: Duration, is_success: bool) {
        self.record_status(status);
        self.status_classes.entry(StatusClass::new(status)).or_default().record(latency);
        self.succeeded += u64::from(is_success);
        let histogram = if is_success { &mut self.latency } else { &mut self.latency_failed };
        histogram.record(latency);
    }

    /// Records the status of a response, without its latency.
    pub fn record_status(&mut self, status: u16) {
        if let Some(count) = self.statuses.get_mut(usize::from(status)) {
            *count += 1;
        }
    }

    /// Complete responses, successful or not.
    #[must_use]
    pub fn responses(&self) -> u64 {
        self.statuses.iter().sum()
    }

    /// Requests that ended without a complete response.
    #[must_use]
    pub fn failed(&self) -> u64 {
        self.failures.values().map(|failed| failed.count).sum()
    }

    /// Requests that ended without a complete response for this reason.
    #[must_use]
    pub fn failure_count(&self, kind: FailureKind) -> u64 {
        self.failures.get(&kind).map_or(0, |failed| failed.count)
    }

    /// Requests that ended, with or without a response.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.responses() + self.failed()
    }

    /// The fraction of requests that succeeded.
    #[must_use]
    pub fn success_rate(&self) -> SuccessRate {
        SuccessRate::new(self.succeeded, self.requests())
    }

    /// Adds the counts and histograms of another recorder.
    pub fn merge(&mut self, other: &Self) {
        for (own, other) in self.histograms_mut().into_iter().zip(other.histograms()) {
            own.merge(other);
        }
        for (class, histogram) in &other.status_classes {
            self.status_classes.entry(*class).or_default().merge(histogram);
        }
        for (count, more) in self.statuses.iter_mut().zip(other.statuses.iter()) {
            *count += more;
        }
        for (kind, failed) in &other.failures {
            self.failures.entry(*kind).or_default().add(failed);
        }
        self.unexpected_body.add(&other.unexpected_body);
        self.differing_responses += other.differing_responses;
        self.succeeded += other.succeeded;
        self.sent += other.sent;
        self.sent_after_end += other.sent_after_end;
        self.received_bytes += other.received_bytes;
        self.received_bytes_after_end += other.received_bytes_after_end;
        self.body_bytes += other.body_bytes;
        self.peak_in_flight = self.peak_in_flight.max(other.peak_in_flight);
        self.opened += other.opened;
        self.closed_by_server += other.closed_by_server;
        self.handshakes.merge(&other.handshakes);
        self.repeated += other.repeated;
        self.allow_streams(other.allowed_streams);
        self.warmup_spillover += other.warmup_spillover;
    }

    /// Records the number of concurrent streams that the server allows.
    pub(super) fn allow_streams(&mut self, allowed: Option<u32>) {
        self.allowed_streams = self.allowed_streams.into_iter().chain(allowed).min();
    }

    /// Sets all counts to zero and keeps the memory of the histograms: 264 KiB each, for which a new recorder would
    /// have page faults while it records.
    pub(super) fn clear(&mut self) {
        self.histograms_mut().into_iter().for_each(Histogram::clear);
        let mut empty = Self::default();
        for (new, cleared) in empty.histograms_mut().into_iter().zip(self.histograms_mut()) {
            std::mem::swap(new, cleared);
        }
        *self = empty;
    }

    fn histograms(&self) -> [&Histogram; 8] {
        [
            &self.latency,
            &self.latency_failed,
            &self.given_up,
            &self.service,
            &self.first_byte,
            &self.connect,
            &self.tls,
            &self.schedule_delay,
        ]
    }

    fn histograms_mut(&mut self) -> [&mut Histogram; 8] {
        [
            &mut self.latency,
            &mut self.latency_failed,
            &mut self.given_up,
            &mut self.service,
            &mut self.first_byte,
            &mut self.connect,
            &mut self.tls,
            &mut self.schedule_delay,
        ]
    }
}
