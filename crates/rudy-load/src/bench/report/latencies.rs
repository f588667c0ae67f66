//! The latencies of a run, with those of requests that were given up as lower bounds.

use std::borrow::Cow;
use std::time::Duration;

use rudy_stats::Histogram;
use rudy_stats::histogram::{Bounded, Censored};

use crate::bench::Recorder;
use crate::units;

/// The latencies of responses, and of requests that were given up before they had a response. The waiting time of the
/// latter is a lower bound of their latency (censored data).
pub(super) struct Latencies<'a> {
    responses: &'a Histogram,
    given_up: Cow<'a, Histogram>,
    /// The responses, and the requests that were given up with their waiting time.
    all: Cow<'a, Histogram>,
}

impl<'a> Latencies<'a> {
    /// The latencies of successful responses and of requests that were given up.
    pub(super) fn new(recorder: &'a Recorder) -> Self {
        let responses = &recorder.latency;
        let mut all = Cow::Borrowed(responses);
        if !recorder.given_up.is_empty() {
            all.to_mut().merge(&recorder.given_up);
        }
        Self { responses, given_up: Cow::Borrowed(&recorder.given_up), all }
    }

    /// A distribution without lower bounds.
    pub(super) fn complete(all: &'a Histogram) -> Self {
        Self { responses: all, given_up: Cow::Owned(Histogram::new()), all: Cow::Borrowed(all) }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// A quantile, from 0 to less than 1. `None` with fewer than 1 / (1 - q) samples, whose maximum it would be.
    pub(super) fn quantile(&self, q: f64) -> Option<Bounded> {
        // The difference 1 - 0.9999 is rounded down.
        let has_samples = units::float(self.all.len()) * (1.0 - q) >= 1.0 - 1e-9;
        let all = Censored { observed: self.responses, given_up: &self.given_up };
        if has_samples { all.quantile(q) } else { None }
    }

    pub(super) fn mean(&self) -> Bounded {
        self.bounded(self.all.mean())
    }

    pub(super) fn max(&self) -> Bounded {
        self.bounded(self.all.max())
    }

    pub(super) fn min(&self) -> Duration {
        self.all.min()
    }

    pub(super) fn stdev(&self) -> Duration {
        self.all.stdev()
    }

    fn bounded(&self, value: Duration) -> Bounded {
        Bounded { value, is_lower_bound: !self.given_up.is_empty() }
    }
}

/// Formats a duration: `1.20 s`, or `≥ 1.20 s` for a lower bound.
pub(super) fn format_bounded(bounded: Bounded) -> String {
    let sign = if bounded.is_lower_bound { "≥ " } else { "" };
    format!("{sign}{}", units::duration(bounded.value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_depend_on_requests_given_up_are_lower_bounds() {
        let mut recorder = Recorder::default();
        recorder.latency.record_n(Duration::from_millis(1), 98);
        recorder.given_up.record(Duration::from_millis(300));
        recorder.given_up.record(Duration::from_millis(1200));
        let latencies = Latencies::new(&recorder);
        assert_eq!(latencies.quantile(0.9).map(format_bounded).as_deref(), Some("1.00 ms"));
        assert_eq!(latencies.quantile(0.99).map(format_bounded).as_deref(), Some("≥ 300 ms"));
        assert_eq!(format_bounded(latencies.max()), "≥ 1.20 s");
        assert!(latencies.mean().is_lower_bound);
    }

    #[test]
    fn a_percentile_with_too_few_samples_is_none() {
        for (q, min_samples) in [(0.5, 2), (0.9, 10), (0.99, 100), (0.999, 1000), (0.9999, 10_000)] {
            let mut values = Histogram::new();
            values.record_n(Duration::from_millis(1), min_samples - 1);
            assert_eq!(Latencies::complete(&values).quantile(q), None, "{q}");
            values.record(Duration::from_millis(1));
            assert!(Latencies::complete(&values).quantile(q).is_some(), "{q}");
        }
    }
}
