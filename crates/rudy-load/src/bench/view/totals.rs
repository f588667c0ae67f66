//! The metrics of a part of a run, for the views.

use std::collections::BTreeMap;
use std::time::Duration;

use rudy_request::FailureKind;
use rudy_stats::Histogram;

use crate::bench::run::Interval;
use crate::units::{self, Unit};

/// The counts of one or more intervals.
#[derive(Debug, Clone, Default)]
pub(super) struct Totals {
    pub(super) length: Duration,
    /// Requests that ended, with or without a response.
    pub(super) requests: u64,
    responses: u64,
    succeeded: u64,
    received_bytes: u64,
    unexpected_bodies: u64,
    statuses: BTreeMap<usize, u64>,
    failures: BTreeMap<FailureKind, u64>,
    /// Latency of successful responses.
    pub(super) latency: Histogram,
    schedule_delay: Histogram,
}

impl Totals {
    pub(super) fn new(interval: &Interval) -> Self {
        let recorder = &interval.recorder;
        let statuses = recorder.statuses.iter().copied().enumerate().filter(|(_, count)| *count > 0);
        Self {
            length: interval.length,
            requests: recorder.requests(),
            responses: recorder.responses(),
            succeeded: recorder.succeeded,
            received_bytes: recorder.received_bytes,
            unexpected_bodies: recorder.unexpected_body.count,
            statuses: statuses.collect(),
            failures: recorder.failures.iter().map(|(kind, failed)| (*kind, failed.count)).collect(),
            latency: recorder.latency.clone(),
            schedule_delay: recorder.schedule_delay.clone(),
        }
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.length += other.length;
        self.requests += other.requests;
        self.responses += other.responses;
        self.succeeded += other.succeeded;
        self.received_bytes += other.received_bytes;
        self.unexpected_bodies += other.unexpected_bodies;
        for (status, count) in &other.statuses {
            *self.statuses.entry(*status).or_default() += count;
        }
        for (kind, count) in &other.failures {
            *self.failures.entry(*kind).or_default() += count;
        }
        self.latency.merge(&other.latency);
        self.schedule_delay.merge(&other.schedule_delay);
    }

    pub(super) fn responses_per_s(&self) -> f64 {
        units::per_second(self.responses, self.length)
    }

    /// The share of requests that failed: `0 %`.
    pub(super) fn error_rate(&self) -> String {
        let failed = self.requests - self.succeeded;
        units::share(units::float(failed) / units::float(self.requests.max(1)))
    }

    /// The rows of a table: names and values.
    pub(super) fn rows(&self) -> Vec<(&'static str, String)> {
        // A quantile with too few samples is not shown.
        let at = |quantile: f64| {
            let slower = units::float(self.latency.len()) * (1.0 - quantile);
            if slower < 1.0 { "-".to_owned() } else { units::duration(self.latency.quantile(quantile)) }
        };
        let max = if self.latency.is_empty() { "-".to_owned() } else { units::duration(self.latency.max()) };
        let received = Unit::Bytes.text(units::per_second(self.received_bytes, self.length));
        let mut rows = vec![
            ("requests", units::count(self.requests)),
            ("requests/s", units::digits(self.responses_per_s())),
            ("received/s", received),
            ("latency p50", at(0.5)),
            ("latency p90", at(0.9)),
            ("latency p99", at(0.99)),
            ("latency p99.9", at(0.999)),
            ("latency max", max),
        ];
        if !self.schedule_delay.is_empty() {
            rows.push(("delay p99", units::duration(self.schedule_delay.quantile(0.99))));
        }
        rows.push(("error rate", self.error_rate()));
        rows
    }

    /// Responses by status: `200: 1,500, 503: 1`.
    pub(super) fn statuses(&self) -> String {
        let statuses = self.statuses.iter();
        join_or_none(statuses.map(|(status, count)| format!("{status}: {}", units::count(*count))))
    }

    /// Failed requests by reason: `status 12, read 3`.
    pub(super) fn errors(&self) -> String {
        let by_status = self.responses - self.succeeded - self.unexpected_bodies;
        let kinds = self.failures.iter().map(|(kind, count)| (kind.name(), *count));
        let all = [("status", by_status), ("body", self.unexpected_bodies)].into_iter().chain(kinds);
        let non_zero = all.filter(|(_, count)| *count > 0);
        join_or_none(non_zero.map(|(name, count)| format!("{name} {}", units::count(count))))
    }
}

fn join_or_none(parts: impl Iterator<Item = String>) -> String {
    let parts: Vec<_> = parts.collect();
    if parts.is_empty() { "none".to_owned() } else { parts.join(", ") }
}
