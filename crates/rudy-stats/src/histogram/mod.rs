//! Latency histograms in constant memory, with three significant digits.
//!
//! The cells are those of `HdrHistogram` (Gil Tene, <https://hdrhistogram.github.io/HdrHistogram/>): the
//! width of each is at most a thousandth of its value. Histograms of the same range therefore add up cell by
//! cell, and the sum equals a histogram of all values. Averages of percentiles have no such property.

mod censored;
mod spectrum;
mod v2;

use std::fmt;
use std::time::Duration;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub use censored::{Bounded, Censored};
pub use v2::BlobError;

/// The number of significant digits.
const DIGITS: u8 = 3;

/// The longest duration that is distinguished: an hour, in nanoseconds.
const MAX_NS: u64 = 3_600_000_000_000;

/// A histogram of durations from 0 and 1 ns to 1 h, with a precision of a thousandth of the value.
///
/// It uses 264 KiB (33 × 1024 cells of 8 bytes), independent of the number of values. A duration above an
/// hour counts as an hour; [`saturated`](Self::saturated) returns their number.
#[derive(Clone, PartialEq)]
pub struct Histogram {
    counts: hdrhistogram::Histogram<u64>,
}

impl fmt::Debug for Histogram {
    /// A summary: the cells are thirty thousand.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (min, median, max) = (self.min(), self.quantile(0.5), self.max());
        write!(f, "Histogram({} values, min {min:?}, median {median:?}, max {max:?})", self.len())
    }
}

impl Histogram {
    /// Longer values count as this one.
    pub const MAX: Duration = Duration::from_nanos(MAX_NS);

    /// An empty histogram.
    #[must_use]
    pub fn new() -> Self {
        let counts = hdrhistogram::Histogram::new_with_bounds(1, MAX_NS, DIGITS)
            .expect("1 ns to 1 h with three digits is a range that HdrHistogram has");
        Self { counts }
    }

    /// Counts a duration.
    pub fn record(&mut self, duration: Duration) {
        self.record_n(duration, 1);
    }

    /// Counts a duration `times` times.
    pub fn record_n(&mut self, duration: Duration, times: u64) {
        let nanoseconds = u64::try_from(duration.as_nanos()).unwrap_or(MAX_NS);
        self.counts.saturating_record_n(nanoseconds.min(MAX_NS), times);
    }

    /// The duration that the fraction `q` (0 to 1) of the values did not exceed; 0 if empty.
    ///
    /// It is the upper end of a cell, so it is at most a thousandth too high.
    #[must_use]
    pub fn quantile(&self, q: f64) -> Duration {
        // The product of q and the count can slightly exceed the intended integer (0.07 × 100 does) and would
        // then select the next value. The reference implementation steps down by one bit for the same reason.
        let q = if q > 0.0 { q.min(1.0).next_down() } else { 0.0 };
        Duration::from_nanos(self.counts.value_at_quantile(q))
    }

    /// The same, if at least one value is above: `None` where n × (1 − q) < 1, because the result would be the
    /// maximum under another name.
    #[must_use]
    pub fn quantile_if_supported(&self, q: f64) -> Option<Duration> {
        #[expect(clippy::cast_precision_loss, reason = "counts beyond 2^53 do not occur")]
        let above = self.len() as f64 * (1.0 - q);
        // 1 - 0.99 is slightly more than a hundredth, 1 - 0.9999 slightly less than its share.
        (above > 1.0 - 1e-9).then(|| self.quantile(q))
    }

    /// The number of values that did not exceed `duration`.
    #[must_use]
    pub fn count_within(&self, duration: Duration) -> u64 {
        let nanoseconds = u64::try_from(duration.as_nanos()).unwrap_or(MAX_NS);
        self.counts.count_between(0, nanoseconds.min(MAX_NS))
    }

    /// The mean, from the middle of each cell; 0 if empty.
    #[must_use]
    pub fn mean(&self) -> Duration {
        Duration::from_secs_f64(self.counts.mean() / 1e9)
    }

    /// The standard deviation; 0 if empty.
    #[must_use]
    pub fn stdev(&self) -> Duration {
        Duration::from_secs_f64(self.counts.stdev() / 1e9)
    }

    /// The minimum, with three digits; 0 if empty.
    #[must_use]
    pub fn min(&self) -> Duration {
        Duration::from_nanos(if self.is_empty() { 0 } else { self.counts.min() })
    }

    /// The maximum, with three digits; 0 if empty.
    #[must_use]
    pub fn max(&self) -> Duration {
        Duration::from_nanos(if self.is_empty() { 0 } else { self.counts.max() })
    }

    /// The number of values.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.counts.len()
    }

    /// Whether the histogram has no values.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// The number of values of an hour or longer, whose exact length is unknown.
    ///
    /// It is the count of the last cell, which starts 0.8 s before the hour, so it needs no separate counter
    /// and survives merging and encoding.
    #[must_use]
    pub fn saturated(&self) -> u64 {
        self.counts.count_at(MAX_NS)
    }

    /// Adds the values of another histogram, without loss: the cells are the same.
    pub fn merge(&mut self, other: &Self) {
        self.counts.add(&other.counts).expect("all of our histograms have the same range");
    }

    /// Removes all values and retains the memory.
    pub fn clear(&mut self) {
        self.counts.reset();
    }

    /// The non-empty cells in ascending order: the upper end of each, and its count.
    pub fn cells(&self) -> impl Iterator<Item = (Duration, u64)> + '_ {
        let cells = self.counts.iter_recorded();
        cells.map(|cell| {
            let end = self.counts.highest_equivalent(cell.value_iterated_to());
            (Duration::from_nanos(end), cell.count_at_value())
        })
    }
}

/// The text of [`to_base64`](Self::to_base64).
impl Serialize for Histogram {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&self.to_base64())
    }
}

impl<'de> Deserialize<'de> for Histogram {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Self::from_base64(&String::deserialize(from)?).map_err(D::Error::custom)
    }
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(nanoseconds: impl IntoIterator<Item = u64>) -> Histogram {
        let mut histogram = Histogram::new();
        for value in nanoseconds {
            histogram.record(Duration::from_nanos(value));
        }
        histogram
    }

    #[test]
    fn quantiles_of_one_to_a_hundred_are_the_numbers_themselves() {
        let histogram = of(1..=100);
        for percent in 1_u32..=100 {
            let quantile = histogram.quantile(f64::from(percent) / 100.0);
            assert_eq!(quantile, Duration::from_nanos(u64::from(percent)), "p{percent}");
        }
        assert_eq!(histogram.mean(), Duration::from_nanos(51), "50.5, to the nanosecond");
        assert_eq!(histogram.len(), 100);
    }

    #[test]
    fn an_empty_histogram_is_zero_everywhere() {
        let empty = Histogram::new();
        let results =
            [empty.quantile(0.5), empty.quantile(1.0), empty.mean(), empty.stdev(), empty.min(), empty.max()];
        assert_eq!(results, [Duration::ZERO; 6]);
        assert!(empty.is_empty());
        assert_eq!((empty.saturated(), empty.cells().count()), (0, 0));
    }

    #[test]
    fn zero_is_a_value() {
        let histogram = of([0, 0, 5]);
        assert_eq!((histogram.min(), histogram.quantile(0.5)), (Duration::ZERO, Duration::ZERO));
        assert_eq!(histogram.len(), 3);
    }

    #[test]
    fn values_above_an_hour_saturate() {
        let mut histogram = of([1, u64::MAX]);
        histogram.record(Duration::MAX);
        histogram.record_n(Histogram::MAX, 2);
        histogram.record(Duration::from_secs(3599));
        assert_eq!((histogram.len(), histogram.saturated()), (6, 4));
        let max = histogram.max();
        assert!(max >= Histogram::MAX && max < Histogram::MAX + Duration::from_secs(4), "{max:?}");
    }

    #[test]
    fn clear_removes_all_values() {
        let mut histogram = of(1..1000);
        histogram.clear();
        assert_eq!(histogram, Histogram::new());
        histogram.record(Duration::from_nanos(7));
        assert_eq!((histogram.min().as_nanos(), histogram.max().as_nanos()), (7, 7));
    }

    #[test]
    fn the_count_within_a_bound_includes_the_bound_itself() {
        assert_eq!(of(1..=1000).count_within(Duration::from_nanos(250)), 250);
    }

    #[test]
    fn a_quantile_without_a_value_above_it_is_blank() {
        for (q, needed) in [(0.5, 2), (0.99, 100), (0.999, 1000), (0.9999, 10_000)] {
            assert!(of(1..=needed).quantile_if_supported(q).is_some(), "{q} of {needed}");
            assert_eq!(of(1..needed).quantile_if_supported(q), None, "{q} of {}", needed - 1);
        }
        assert_eq!(Histogram::new().quantile_if_supported(0.5), None);
    }

    proptest! {
        #[test]
        fn a_quantile_is_the_sample_of_that_rank_to_a_thousandth(
            mut values in prop::collection::vec(0..MAX_NS, 1..200),
            q in 0.0..=1.0_f64,
        ) {
            let histogram = of(values.iter().copied());
            values.sort_unstable();
            #[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rank below 200")]
            let rank = ((q * values.len() as f64).ceil() as usize).max(1);
            let found = u64::try_from(histogram.quantile(q).as_nanos()).unwrap();
            let exact = values[rank - 1];
            if q > 0.0 {
                prop_assert!(found >= exact && found - exact <= exact / 1000 + 1, "{found} for {exact}");
            }
        }

        #[test]
        fn a_merged_histogram_equals_one_of_all_values(
            first in prop::collection::vec(any::<u64>(), 0..100),
            second in prop::collection::vec(0..10_000_000_000_u64, 0..100),
        ) {
            let mut merged = of(first.iter().copied());
            merged.merge(&of(second.iter().copied()));
            prop_assert_eq!(merged, of(first.into_iter().chain(second)));
        }
    }
}
