//! The report as JSON. Every key names its unit; what has none is a count or a share.

use std::time::Duration;

use rudy_stats::histogram::BlobError;
use rudy_stats::{Histogram, Nines};
use serde::{Deserialize, Serialize};

use super::seen::Seen;
use super::verdict::Verdict;
use super::{Config, Run};
use crate::bench::run::{Outcome, ThreadTime};
use crate::units;

/// What `--json` writes: figures to read, and under them everything that they were made of.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(in crate::bench) struct Document {
    /// Who wrote it.
    rudy_version: String,
    /// The first URL.
    target: String,
    /// What was done.
    config: Config,
    /// It was ended before its time.
    is_interrupted: bool,
    /// `generator` where the generator was the limit, `server` where it could not keep up with a rate; otherwise null.
    bottleneck: Option<String>,
    /// The time that counts.
    duration_s: f64,
    /// Whole answers per second.
    achieved_rate: f64,
    /// The rate that was asked for, of a ramp its mean; null in a closed loop.
    target_rate: Option<f64>,
    /// Requests sent, of those that were due; null in a closed loop.
    rate_ratio: Option<f64>,
    /// Requests that were due and not sent, because no connection was free.
    unsent: u64,
    /// Requests that were under way when it was interrupted.
    abandoned: u64,
    /// Requests under way at once, on average.
    under_way: f64,
    /// Of the requests that ended, those that were not answered rightly.
    error_rate: f64,
    nines: NinesFigures,
    /// Of right answers: from when they were due (open loop) or sent (closed loop) to the last byte.
    latency_us: Option<Figures>,
    /// From the send to the last byte.
    service_us: Option<Figures>,
    /// From the send to the first byte.
    first_byte_us: Option<Figures>,
    /// By how much requests were sent later than they were due; null in a closed loop.
    schedule_lag_us: Option<Figures>,
    max_schedule_lag_us: Option<f64>,
    connect_us: Option<Figures>,
    tls_us: Option<Figures>,
    /// Of wrong answers, and of what got none.
    latency_failed_us: Option<Figures>,
    /// Each thread that generated.
    threads: Vec<ThreadFigures>,
    #[serde(flatten)]
    seen: Seen,
}

/// How many nines the answers had.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
struct NinesFigures {
    /// The share of right answers.
    share: f64,
    /// How many nines that is; null where nothing failed.
    seen: Option<f64>,
    /// How many nines the sample proves, 95 % sure.
    proven: f64,
    /// The share of failures that the service has at most, 95 % sure.
    failures_at_most: f64,
}

/// A distribution in figures, in microseconds.
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
    /// All time, the warm-up included.
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

/// Everything else is made of this.
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
    /// Nothing where nothing was seen.
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

/// To the nanosecond.
fn microseconds(duration: Duration) -> f64 {
    let nanoseconds = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
    units::float(nanoseconds) / 1e3
}

impl ThreadFigures {
    fn of(time: &ThreadTime) -> Self {
        Self { cpu_s: time.cpu.as_secs_f64(), wall_s: time.wall.as_secs_f64() }
    }
}
