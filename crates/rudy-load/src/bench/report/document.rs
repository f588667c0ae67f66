//! The report as JSON. Every key names its unit; keys without a unit are counts or fractions.

use std::time::Duration;

use rudy_stats::histogram::BlobError;
use rudy_stats::{Histogram, Nines};
use serde::{Deserialize, Serialize};

use super::seen::Seen;
use super::verdict::Verdict;
use super::{Config, Run};
use crate::bench::run::{Outcome, ThreadTime};
use crate::units;

/// The document that `--json` writes: results first, then the counts and histograms behind them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(in crate::bench) struct Document {
    /// The program and version.
    rudy_version: String,
    /// The first URL.
    target: String,
    /// The settings of the run.
    config: Config,
    /// Whether the run was interrupted.
    is_interrupted: bool,
    /// `generator` if the load generator was the limit, `server` if the server could not keep up with a rate;
    /// otherwise null.
    bottleneck: Option<String>,
    /// The duration of the measurement.
    duration_s: f64,
    /// Complete responses per second.
    achieved_rate: f64,
    /// The requested rate, or the mean of a ramp; null in a closed loop.
    target_rate: Option<f64>,
    /// The fraction of due requests that were sent; null in a closed loop.
    rate_ratio: Option<f64>,
    /// Requests that were due and not sent, because no connection was free.
    unsent: u64,
    /// Requests in flight when the run was interrupted.
    abandoned: u64,
    /// Average number of requests in flight.
    under_way: f64,
    /// The fraction of requests that failed.
    error_rate: f64,
    nines: NinesFigures,
    /// Of successful responses: from the due time (open loop) or the send (closed loop) to the last byte.
    latency_us: Option<Figures>,
    /// From the send to the last byte.
    service_us: Option<Figures>,
    /// From the send to the first byte.
    first_byte_us: Option<Figures>,
    /// Delay between due time and send; null in a closed loop.
    schedule_lag_us: Option<Figures>,
    max_schedule_lag_us: Option<f64>,
    connect_us: Option<Figures>,
    tls_us: Option<Figures>,
    /// Of failed requests.
    latency_failed_us: Option<Figures>,
    /// The generator threads.
    threads: Vec<ThreadFigures>,
    #[serde(flatten)]
    seen: Seen,
}

/// The success rate in nines.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
struct NinesFigures {
    /// The fraction of successful responses.
    share: f64,
    /// The number of nines; null without a failure.
    seen: Option<f64>,
    /// The number of nines that the sample proves, with 95 % confidence.
    proven: f64,
    /// The upper bound of the failure rate, with 95 % confidence.
    failures_at_most: f64,
}

/// Statistics of a distribution, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct Figures {
    mean: f64,
    stdev: f64,
    min: f64,
    p50: f64,
    p75: f64,
    p90: f64,
    p99: f64,
    p99_9: f64,
    p99_99: f64,
    max: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
struct ThreadFigures {
    /// CPU time.
    cpu_s: f64,
    /// Elapsed time, including the warm-up.
    wall_s: f64,
}

impl Document {
    pub(in crate::bench) fn of(run: &Run) -> Self {
        let Run { config, outcome } = run;
        let seen = &outcome.seen;
        let lag = if config.is_open() { Figures::of(&seen.lag) } else { None };
        Self {
            rudy_version: env!("CARGO_PKG_VERSION").to_owned(),
            target: config.target.clone(),
            config: config.clone(),
            is_interrupted: outcome.is_interrupted,
            bottleneck: Verdict::of(run).name().map(str::to_owned),
            duration_s: outcome.duration.as_secs_f64(),
            achieved_rate: units::per_second(seen.answers(), outcome.duration),
            target_rate: run.target_rate(),
            rate_ratio: run.rate_ratio(),
            unsent: outcome.unsent,
            abandoned: outcome.abandoned,
            under_way: run.under_way(),
            error_rate: 1.0 - run.nines().share(),
            nines: NinesFigures::of(run.nines()),
            latency_us: Figures::of(&seen.latency),
            service_us: Figures::of(&seen.service),
            first_byte_us: Figures::of(&seen.first_byte),
            max_schedule_lag_us: lag.map(|lag| lag.max),
            schedule_lag_us: lag,
            connect_us: Figures::of(&seen.connect),
            tls_us: Figures::of(&seen.tls),
            latency_failed_us: Figures::of(&seen.latency_failed),
            threads: outcome.threads.iter().map(ThreadFigures::of).collect(),
            seen: Seen::of(seen),
        }
    }
}

/// The counts and histograms behind all other figures.
impl TryFrom<Document> for Run {
    type Error = BlobError;

    fn try_from(document: Document) -> Result<Self, BlobError> {
        let thread = |time: &ThreadFigures| ThreadTime {
            cpu: Duration::from_secs_f64(time.cpu_s),
            wall: Duration::from_secs_f64(time.wall_s),
        };
        let outcome = Outcome {
            seen: document.seen.try_into()?,
            duration: Duration::from_secs_f64(document.duration_s),
            unsent: document.unsent,
            abandoned: document.abandoned,
            threads: document.threads.iter().map(thread).collect(),
            is_interrupted: document.is_interrupted,
        };
        Ok(Self { config: document.config, outcome })
    }
}

impl NinesFigures {
    fn of(nines: Nines) -> Self {
        let seen = Some(nines.seen()).filter(|seen| seen.is_finite());
        Self {
            share: nines.share(),
            seen,
            proven: nines.proven(),
            failures_at_most: nines.failures_at_most(),
        }
    }
}

impl Figures {
    /// `None` for an empty histogram.
    pub(super) fn of(histogram: &Histogram) -> Option<Self> {
        let quantile = |q| microseconds(histogram.quantile(q));
        (!histogram.is_empty()).then(|| Self {
            mean: microseconds(histogram.mean()),
            stdev: microseconds(histogram.stdev()),
            min: microseconds(histogram.min()),
            p50: quantile(0.5),
            p75: quantile(0.75),
            p90: quantile(0.9),
            p99: quantile(0.99),
            p99_9: quantile(0.999),
            p99_99: quantile(0.9999),
            max: microseconds(histogram.max()),
        })
    }
}

/// Rounded to the nanosecond.
fn microseconds(duration: Duration) -> f64 {
    let nanoseconds = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
    units::float(nanoseconds) / 1e3
}

impl ThreadFigures {
    fn of(time: &ThreadTime) -> Self {
        Self { cpu_s: time.cpu.as_secs_f64(), wall_s: time.wall.as_secs_f64() }
    }
}
