//! The report as JSON. Every key names its unit; keys without a unit are counts or fractions.

use std::collections::BTreeMap;
use std::time::Duration;

use rudy_stats::Histogram;
use rudy_stats::histogram::Bounded;
use serde::Serialize;

use super::Run;
use super::latencies::Latencies;
use super::verdict::Verdict;
use crate::bench::{Recorder, StatusClass};

/// The document that `--json` writes: results first, then the [`Run`] from which they are computed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(in crate::bench) struct Document<'a> {
    /// The program and version.
    rudy_version: &'static str,
    /// The first URL.
    target: &'a str,
    /// The verdict, as a sentence.
    verdict: String,
    /// Validity warnings.
    warnings: Vec<String>,
    /// The limit of the run: `client`, `server` or `machine`; null if it is not known.
    bottleneck: Option<&'static str>,
    /// Complete responses per second.
    achieved_rate: f64,
    /// The requested rate, or the mean of a ramp; null in a closed loop.
    target_rate: Option<f64>,
    /// The fraction of due requests that were sent before the end; null in a closed loop.
    rate_ratio: Option<f64>,
    /// Requests that ended, with or without a response.
    requests: u64,
    /// Requests that were due and not sent, because all connections were busy.
    not_sent: u64,
    /// Average number of requests in flight.
    in_flight: f64,
    /// The fraction of requests that failed.
    error_rate: f64,
    success_rate: SuccessRateDocument,
    #[serde(flatten)]
    distributions: Distributions,
    /// The unit of the histograms, which their format does not contain.
    histogram_unit: &'static str,
    #[serde(flatten)]
    run: &'a Run,
}

/// The success rate, in nines.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
struct SuccessRateDocument {
    /// The fraction of successful responses.
    share: f64,
    /// The number of nines of that fraction; null without a failure.
    nines: Option<f64>,
    /// The number of nines of the lower confidence bound, with 95 % confidence.
    nines_at_least: f64,
    /// The upper bound of the failure rate, with 95 % confidence, if failures are independent.
    failures_at_most: f64,
}

/// Latencies in microseconds.
#[expect(clippy::struct_field_names, reason = "keys of the report, which name their unit")]
#[derive(Debug, Clone, PartialEq, Serialize)]
struct Distributions {
    /// Latency of successful responses, from the due time (open loop) or the send (closed loop) to the last byte, and
    /// of requests that were given up, as a lower bound.
    latency_us: Option<LatencySummary>,
    /// Latency of complete responses, by status class.
    latency_by_status_us: BTreeMap<StatusClass, Option<LatencySummary>>,
    /// Service time: from the send to the last byte.
    service_us: Option<LatencySummary>,
    /// Time to the first byte, from the send.
    first_byte_us: Option<LatencySummary>,
    /// Schedule delay: from the due time to the send; null in a closed loop.
    schedule_delay_us: Option<LatencySummary>,
    max_schedule_delay_us: Option<f64>,
    connect_us: Option<LatencySummary>,
    tls_us: Option<LatencySummary>,
    /// Latency of failed requests.
    latency_failed_us: Option<LatencySummary>,
}

/// Summary statistics of a distribution, in microseconds. A percentile with too few samples is null.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct LatencySummary {
    mean: f64,
    stdev: f64,
    min: f64,
    p50: Option<f64>,
    p75: Option<f64>,
    p90: Option<f64>,
    p99: Option<f64>,
    p99_9: Option<f64>,
    p99_99: Option<f64>,
    max: f64,
    /// The names of the statistics that are lower bounds, because they depend on requests that were given up.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    lower_bounds: Vec<&'static str>,
}

impl<'a> Document<'a> {
    pub(in crate::bench) fn new(run: &'a Run) -> Self {
        let Run { config, outcome } = run;
        let recorder = &outcome.recorder;
        let verdict = Verdict::new(run);
        Self {
            rudy_version: env!("CARGO_PKG_VERSION"),
            target: &config.target,
            bottleneck: verdict.bottleneck(),
            warnings: verdict.warnings.iter().map(ToString::to_string).collect(),
            verdict: verdict.sentence,
            achieved_rate: run.responses_per_second(),
            target_rate: run.target_rate(),
            rate_ratio: run.rate_ratio(),
            requests: recorder.requests(),
            not_sent: recorder.failure_count(rudy_request::FailureKind::NotSent),
            in_flight: run.in_flight(),
            error_rate: 1.0 - run.success_rate().share(),
            success_rate: SuccessRateDocument::new(run),
            distributions: Distributions::new(recorder),
            histogram_unit: "ns",
            run,
        }
    }
}

impl SuccessRateDocument {
    fn new(run: &Run) -> Self {
        let rate = run.success_rate();
        Self {
            share: rate.share(),
            nines: Some(rate.nines()).filter(|nines| nines.is_finite()),
            nines_at_least: rate.nines_lower_bound(),
            failures_at_most: rate.failures_at_most(),
        }
    }
}

impl Distributions {
    fn new(recorder: &Recorder) -> Self {
        let complete = |histogram: &Histogram| LatencySummary::new(&Latencies::complete(histogram));
        let classes = recorder.status_classes.iter();
        let schedule_delay = complete(&recorder.schedule_delay);
        Self {
            latency_us: LatencySummary::new(&Latencies::new(recorder)),
            latency_by_status_us: classes.map(|(class, latency)| (*class, complete(latency))).collect(),
            service_us: complete(&recorder.service),
            first_byte_us: complete(&recorder.first_byte),
            max_schedule_delay_us: schedule_delay.as_ref().map(|delay| delay.max),
            schedule_delay_us: schedule_delay,
            connect_us: complete(&recorder.connect),
            tls_us: complete(&recorder.tls),
            latency_failed_us: complete(&recorder.latency_failed),
        }
    }
}

impl LatencySummary {
    /// `None` for an empty distribution.
    pub(super) fn new(latencies: &Latencies<'_>) -> Option<Self> {
        if latencies.is_empty() {
            return None;
        }
        let mut lower_bounds = Vec::new();
        let mut value = |name, bounded: Bounded| {
            if bounded.is_lower_bound {
                lower_bounds.push(name);
            }
            microseconds(bounded.value)
        };
        let mean = value("mean", latencies.mean());
        let mut quantile = |name, q| latencies.quantile(q).map(|bounded| value(name, bounded));
        let [p50, p75, p90, p99, p99_9, p99_99] =
            [("p50", 0.5), ("p75", 0.75), ("p90", 0.9), ("p99", 0.99), ("p99_9", 0.999), ("p99_99", 0.9999)]
                .map(|(name, q)| quantile(name, q));
        let max = value("max", latencies.max());
        let (min, stdev) = (microseconds(latencies.min()), microseconds(latencies.stdev()));
        Some(Self { mean, stdev, min, p50, p75, p90, p99, p99_9, p99_99, max, lower_bounds })
    }
}

/// A duration in microseconds, rounded to the nanosecond.
fn microseconds(duration: Duration) -> f64 {
    let nanoseconds = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
    crate::units::float(nanoseconds) / 1e3
}
