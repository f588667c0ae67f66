//! Whether a step held, and what broke where it did not.

use std::time::Duration;

use rudy_stats::Slo;
use rudy_stats::knee::{Cause, Report};

use crate::bench::report::{RATE_KEPT, Run};
use crate::bench::run::Interval;
use crate::units;

/// Requests that are sent late by less than this are on time.
const LATE: Duration = Duration::from_millis(1);

/// A generating thread that computed for more than this share of the time had nothing left to give.
const BUSY: f64 = 0.9;

/// By so many times must the lag have grown over a step for requests to be piling up.
const GROWTH: f64 = 2.0;

/// What is said of a step.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Ruling {
    pub(super) report: Report,
    /// Why, with figures.
    pub(super) words: String,
}

impl Ruling {
    /// Nothing could be connected to any more.
    pub(super) fn gone(words: String) -> Self {
        Self { report: Report::Broke(Cause::Errors), words }
    }
}

/// Holds a step against the objective. The rate must have been kept too, and the requests must not pile up: what still waits
/// when a step ends has no latency yet.
pub(super) fn judge(slo: &Slo, run: &Run, slope: &Slope) -> Ruling {
    let seen = &run.outcome.seen;
    let judgements = slo.judge(&seen.latency, run.nines());
    let (held, broken): (Vec<_>, Vec<_>) = judgements.iter().partition(|judgement| judgement.holds());
    let ratio = run.rate_ratio().unwrap_or(1.0);
    let is_behind = ratio < RATE_KEPT || slope.grows();
    let words = |judgements: &[&rudy_stats::slo::Judgement]| {
        judgements.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
    };
    if broken.is_empty() && !is_behind {
        return Ruling { report: Report::Held, words: words(&held) };
    }
    let late = seen.lag.quantile(0.99);
    let is_late = is_behind || late > LATE;
    let behind =
        format!("{:.1} % of what was due was sent, late by {} at 99 %", ratio * 100.0, units::time(late));
    let (cause, words) = if broken.iter().any(|judgement| judgement.is_of_errors()) {
        (Cause::Errors, words(&broken))
    } else if is_late && is_generators(run) {
        (Cause::Generator, format!("the generator was late: {behind}"))
    } else if broken.is_empty() {
        (Cause::Backlog, format!("requests piled up: {behind}"))
    } else {
        (Cause::Latency, words(&broken))
    };
    Ruling { report: Report::Broke(cause), words }
}

/// Whether requests were late of the generator's own making.
fn is_generators(run: &Run) -> bool {
    let seen = &run.outcome.seen;
    let config = &run.config;
    let is_one_each = config.requests_per_connection == Some(1);
    // Of a thread, the smallest number.
    let places = u64::from(config.connections / config.threads.max(1)) * u64::from(config.pipeline);
    // Connections that were lost and opened anew were not free either.
    let have_stood = is_one_each || seen.opened <= u64::from(config.connections);
    let has_always_free = have_stood && seen.most_under_way < places;
    let is_busy = run.outcome.threads.iter().any(|thread| thread.share() >= BUSY);
    has_always_free || (is_busy && run.under_way() < BUSY * units::float(config.places()))
}

/// How late requests were sent, over a step.
#[derive(Debug, Clone, Default)]
pub(super) struct Slope {
    mean_lags: Vec<Duration>,
}

impl Slope {
    pub(super) fn add(&mut self, interval: &Interval) {
        // A step has few parts, and in what comes after the last nothing is sent.
        if !interval.seen.lag.is_empty() {
            self.mean_lags.push(interval.seen.lag.mean());
        }
    }

    /// Whether each part was later than the one before, and the last by much: more is asked than is answered, and had the step
    /// been longer it would have been worse. It shows before the percentiles do.
    fn grows(&self) -> bool {
        let lags = &self.mean_lags;
        let (Some(first), Some(last)) = (lags.first(), lags.last()) else { return false };
        lags.len() > 2
            && lags.is_sorted_by(|a, b| a < b)
            && *last > LATE
            && last.as_secs_f64() > first.as_secs_f64() * GROWTH
    }
}
