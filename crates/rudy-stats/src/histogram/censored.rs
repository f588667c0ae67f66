//! Latencies of which some are known only as lower bounds.

use std::time::Duration;

use super::Histogram;

/// The latencies of all requests: exact for those with a response, lower bounds for those that were given up.
///
/// Leaving the latter out would hide the longest waits, which is coordinated omission at the end of a run.
#[derive(Debug, Clone, Copy)]
pub struct Censored<'a> {
    /// Latencies of requests with a response.
    pub observed: &'a Histogram,
    /// The waiting times of the other requests, until they were given up.
    pub given_up: &'a Histogram,
}

/// A latency, or a lower bound of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounded {
    /// The latency.
    pub value: Duration,
    /// Whether the actual latency may be longer.
    pub is_lower_bound: bool,
}

impl Censored<'_> {
    /// Returns the duration that the fraction `q` (0 to 1) of the requests did not exceed, or `None` without a
    /// request.
    ///
    /// Each given-up request would have taken at least as long as it had waited. With each at that time, the
    /// quantile is a lower bound. With each at infinity, it is an upper bound. If both agree, it is exact.
    ///
    /// ```
    /// use std::time::Duration;
    /// use rudy_stats::histogram::{Censored, Histogram};
    ///
    /// let (mut observed, mut given_up) = (Histogram::new(), Histogram::new());
    /// observed.record_n(Duration::from_millis(1), 95);
    /// given_up.record_n(Duration::from_millis(300), 5);
    /// let all = Censored { observed: &observed, given_up: &given_up };
    /// assert!(!all.quantile(0.9).unwrap().is_lower_bound);
    /// let p99 = all.quantile(0.99).unwrap();
    /// assert!(p99.is_lower_bound && p99.value >= Duration::from_millis(300));
    /// ```
    #[must_use]
    pub fn quantile(&self, q: f64) -> Option<Bounded> {
        if self.given_up.is_empty() {
            let value = self.observed.quantile(q);
            return (!self.observed.is_empty()).then_some(Bounded { value, is_lower_bound: false });
        }
        let mut all = self.observed.clone();
        all.merge(self.given_up);
        let value = all.quantile(q);
        let longest = self.quantile_with_infinite_waits(q);
        Some(Bounded { value, is_lower_bound: longest.is_none_or(|longest| longest > value) })
    }

    /// `None` if the quantile is one of the given-up requests.
    #[expect(clippy::cast_precision_loss, reason = "a share has no use for more than 53 bits")]
    fn quantile_with_infinite_waits(&self, q: f64) -> Option<Duration> {
        let observed = self.observed.len() as f64;
        let q = q * (observed + self.given_up.len() as f64) / observed;
        // One bit of rounding must not turn the last response into a given-up request.
        (q <= 1.0 + 1e-12).then(|| self.observed.quantile(q))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(milliseconds: &[u64]) -> Histogram {
        let mut histogram = Histogram::new();
        for ms in milliseconds {
            histogram.record(Duration::from_millis(*ms));
        }
        histogram
    }

    #[test]
    fn without_a_request_there_is_no_latency() {
        let none = Histogram::new();
        assert_eq!(Censored { observed: &none, given_up: &none }.quantile(0.5), None);
    }

    #[test]
    fn with_only_given_up_requests_every_quantile_is_a_lower_bound() {
        let (none, waited) = (Histogram::new(), of(&[5, 7]));
        let all = Censored { observed: &none, given_up: &waited };
        for q in [0.0, 0.5, 1.0] {
            assert!(all.quantile(q).unwrap().is_lower_bound, "{q}");
        }
    }

    #[test]
    fn a_request_given_up_early_makes_later_quantiles_lower_bounds() {
        let (observed, waited) = (of(&[1, 2, 3, 4, 5, 6, 7, 8, 9]), of(&[1]));
        let median = Censored { observed: &observed, given_up: &waited }.quantile(0.5).unwrap();
        // The given-up request is one of the shortest or one of the longest: 4 ms or 5 ms.
        assert!(median.is_lower_bound && median.value < Duration::from_millis(5), "{median:?}");
    }

    proptest! {
        /// Whatever the given-up requests would have taken, the true quantile is at least the bound, and
        /// equals an exact one.
        #[test]
        fn the_true_quantile_agrees(
            observed in proptest::collection::vec(1_u64..1000, 0..40),
            waits in proptest::collection::vec((1_u64..1000, 0_u64..1000), 1..20),
            q in 0.0_f64..=1.0,
        ) {
            let given_up: Vec<u64> = waits.iter().map(|(waited, _)| *waited).collect();
            let truth: Vec<u64> =
                observed.iter().copied().chain(waits.iter().map(|(waited, more)| waited + more)).collect();
            let (observed, given_up, truth) = (of(&observed), of(&given_up), of(&truth).quantile(q));
            let bounded = Censored { observed: &observed, given_up: &given_up }.quantile(q).unwrap();
            prop_assert!(bounded.value <= truth);
            prop_assert!(bounded.is_lower_bound || bounded.value == truth);
        }
    }
}
