//! The percentiles of a run, with the requests that were given up.

use std::borrow::Cow;
use std::time::Duration;

use rudy_stats::Histogram;
use rudy_stats::histogram::{Bounded, Censored};

use crate::bench::Recorder;
use crate::units;

/// Latencies of responses, and of requests that were given up before they had a response: their latency is
/// only known to be at least the time that they had waited.
pub(super) struct Latencies<'a> {
    responses: &'a Histogram,
    given_up: Cow<'a, Histogram>,
    /// The responses, and the others as if they had ended when they were given up.
    all: Cow<'a, Histogram>,
}

impl<'a> Latencies<'a> {
    /// Successful responses and what was given up.
    pub(super) fn of_run(recorder: &'a Recorder) -> Self {
        let responses = &recorder.latency;
        let mut all = Cow::Borrowed(responses);
        if !recorder.given_up.is_empty() {
            all.to_mut().merge(&recorder.given_up);
        }
        Self { responses, given_up: Cow::Borrowed(&recorder.given_up), all }
    }

    /// All values are known.
    pub(super) fn complete(all: &'a Histogram) -> Self {
        Self { responses: all, given_up: Cow::Owned(Histogram::new()), all: Cow::Borrowed(all) }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// A quantile below 1. `None` if the sample has no value beyond it: the maximum would be printed under a
    /// name that promises more.
    pub(super) fn quantile(&self, q: f64) -> Option<Bounded> {
        // 1 - 0.9999 is slightly less than it should be.
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

/// `1.20 s`, or `≥ 1.20 s` for a lower bound.
pub(super) fn text(bounded: Bounded) -> String {
    let sign = if bounded.is_lower_bound { "≥ " } else { "" };
    format!("{sign}{}", units::duration(bounded.value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_depends_on_a_request_that_was_given_up_is_a_lower_bound() {
        let mut recorder = Recorder::default();
        recorder.latency.record_n(Duration::from_millis(1), 98);
        recorder.given_up.record(Duration::from_millis(300));
        recorder.given_up.record(Duration::from_millis(1200));
        let latencies = Latencies::of_run(&recorder);
        assert_eq!(latencies.quantile(0.9).map(text).as_deref(), Some("1.00 ms"));
        assert_eq!(latencies.quantile(0.99).map(text).as_deref(), Some("≥ 300 ms"));
        assert_eq!(text(latencies.max()), "≥ 1.20 s");
        assert!(latencies.mean().is_lower_bound);
    }

    #[test]
    fn a_percentile_without_a_sample_beyond_it_is_blank() {
        for (q, least) in [(0.5, 2), (0.9, 10), (0.99, 100), (0.999, 1000), (0.9999, 10_000)] {
            let mut values = Histogram::new();
            values.record_n(Duration::from_millis(1), least - 1);
            assert_eq!(Latencies::complete(&values).quantile(q), None, "{q}");
            values.record(Duration::from_millis(1));
            assert!(Latencies::complete(&values).quantile(q).is_some(), "{q}");
        }
    }
}
