//! The report of a run, as text and as JSON. Both come from a [`Run`], so they contain the same information.

mod config;
mod document;
mod latencies;
mod rows;
mod table;
#[cfg(test)]
pub(in crate::bench) mod tests;
mod text;
mod verdict;

use rudy_request::FailureKind;
use rudy_stats::SuccessRate;
use serde::{Deserialize, Serialize};

pub use self::config::Config;
pub(super) use self::document::Document;
pub(super) use self::rows::Rows;
pub(super) use self::text::render;
pub(super) use self::verdict::Verdict;
use super::run::{Outcome, ThreadTime};
use crate::units;

/// A completed run: the part of the JSON report from which its other metrics are computed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// The settings.
    pub config: Config,
    /// The result.
    #[serde(flatten)]
    pub outcome: Outcome,
}

impl Run {
    /// Complete responses per second.
    #[must_use]
    pub fn responses_per_second(&self) -> f64 {
        units::per_second(self.outcome.recorder.responses(), self.outcome.duration)
    }

    /// The fraction of requests that succeeded.
    #[must_use]
    pub fn success_rate(&self) -> SuccessRate {
        self.outcome.recorder.success_rate()
    }

    /// The CPU usage of the busiest generator thread, as a fraction of a core.
    #[must_use]
    pub fn client_cpu(&self) -> f64 {
        self.outcome.threads.iter().map(ThreadTime::cpu_share).fold(0.0, f64::max)
    }

    /// Requests that were due during the measurement; `None` in a closed loop.
    #[must_use]
    pub fn due(&self) -> Option<u64> {
        self.config.is_open().then(|| self.outcome.recorder.requests() + self.outcome.in_flight_at_end)
    }

    /// The requested rate, or the mean of a ramp; `None` in a closed loop.
    pub(super) fn target_rate(&self) -> Option<f64> {
        match (self.config.rate, self.config.rate_at_end) {
            (Some(_), Some(_)) => {
                let planned = self.config.duration_s.unwrap_or(self.outcome.duration.as_secs_f64());
                Some(units::float(self.due()?) / planned.max(1e-9))
            }
            (rate, _) => {
                let share = self.config.share.as_ref();
                rate.map(|rate| share.map_or(rate, |share| share.split().rate(rate)))
            }
        }
    }

    /// The fraction of due requests that were sent before the end; `None` in a closed loop.
    #[must_use]
    pub fn rate_ratio(&self) -> Option<f64> {
        let due = self.due()?;
        let recorder = &self.outcome.recorder;
        let sent_in_time = recorder.sent.saturating_sub(recorder.sent_after_end);
        Some(if due == 0 { 1.0 } else { units::float(sent_in_time) / units::float(due) })
    }

    /// Average number of warm-up requests in flight during the measurement.
    pub(super) fn warmup_spillover(&self) -> f64 {
        let duration = self.outcome.duration.as_secs_f64().max(1e-9);
        let spillover = self.outcome.recorder.warmup_spillover.as_secs_f64() / duration;
        spillover.min(units::float(self.config.max_in_flight()))
    }

    /// Average number of requests in flight: rate times latency (Little's law).
    #[must_use]
    pub fn in_flight(&self) -> f64 {
        // A request that was sent during the measurement may have ended after it.
        self.in_flight_by_littles_law().min(units::float(self.config.max_in_flight()))
    }

    fn in_flight_by_littles_law(&self) -> f64 {
        let recorder = &self.outcome.recorder;
        let mean_in_flight = |requests, histogram: &rudy_stats::Histogram| {
            units::per_second(requests, self.outcome.duration) * histogram.mean().as_secs_f64()
        };
        let total = if self.config.is_open() {
            // The time in flight of a request without a response is taken from its due time.
            let failed = recorder.failed() - recorder.failure_count(FailureKind::NotSent);
            mean_in_flight(recorder.responses(), &recorder.service)
                + mean_in_flight(failed, &recorder.latency_failed)
        } else {
            mean_in_flight(recorder.latency.len(), &recorder.latency)
                + mean_in_flight(recorder.latency_failed.len(), &recorder.latency_failed)
        };
        total + self.warmup_spillover()
    }
}
