//! Controls: compares a variant with itself, to detect other influences than the variant.

use std::fmt;

use super::{Delta, ERROR, Interval, RatioEstimate};

/// A variant that is measured twice in each round, and compared with itself.
///
/// It is evaluated like any comparison, at 95 % and without correction for the number of controls. One
/// control in twenty may therefore differ by chance, and fewer if the rounds are stable, because differences
/// within the margins of delta do not count. A control that differs by chance costs a repetition; a missed
/// one costs a false verdict. With a correction, controls could hardly fail: two controls of six rounds not
/// at all. The number of failures shows whether they exceed chance (Kohavi, Longbotham, Sommerfield and
/// Henne, "Controlled experiments on the web", Data Mining and Knowledge Discovery 18, 2009, expect one in
/// twenty for a valid A/A test).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Control {
    /// The ratio of the two measurements.
    pub ratio: f64,
    /// The confidence interval of the ratio.
    pub interval: Interval,
    /// The result.
    pub outcome: Outcome,
}

/// The result of a control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The variant is equivalent to itself.
    Agrees,
    /// No difference was found, and equivalence was not shown: more rounds are needed.
    Unclear,
    /// The variant differs from itself. Something else makes a difference, such as the order, the cores, or
    /// other processes.
    Differs,
}

impl Control {
    /// Evaluates the pairs of a variant with itself.
    #[must_use]
    pub fn new(estimate: &RatioEstimate, delta: Delta) -> Self {
        let ratio = estimate.ratio();
        if let Some(interval) = estimate.equivalence(ERROR, delta) {
            return Self { ratio, interval, outcome: Outcome::Agrees };
        }
        // With the minimum of pairs, the whole range is an interval of 96.9 %.
        let interval = estimate.interval_with_error(ERROR).unwrap_or_else(|| estimate.full_range());
        let outcome = if interval.contains(1.0) { Outcome::Unclear } else { Outcome::Differs };
        Self { ratio, interval, outcome }
    }

    /// Whether verdicts that depend on this control must be flagged.
    #[must_use]
    pub fn differs(&self) -> bool {
        self.outcome == Outcome::Differs
    }
}

/// The number of controls of sound variants that differ by chance, on average: one of twenty. It is an upper bound,
/// because a difference within the margins of delta is none.
///
/// ```
/// assert_eq!(rudy_stats::compare::expected_to_differ(7), 0.35);
/// ```
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "a count of controls")]
pub fn expected_to_differ(controls: usize) -> f64 {
    controls as f64 / 20.0
}

impl fmt::Display for Control {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { ratio, interval, outcome } = self;
        let outcome = match outcome {
            Outcome::Agrees => "agrees with itself",
            Outcome::Unclear => "not shown to differ from itself, nor to agree",
            Outcome::Differs => "differs from itself, by chance in one case of twenty",
        };
        write!(f, "A/A ratio {ratio:.3} ({interval}): {outcome}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_control_differs_if_its_interval_excludes_1_and_it_is_not_equivalent() {
        for (ratios, outcome) in [
            ([0.99, 1.01, 1.0, 1.02, 0.98, 1.0, 1.01], Outcome::Agrees),
            // Always more, and never by what matters.
            ([1.02, 1.01, 1.03, 1.02, 1.01, 1.03, 1.02], Outcome::Agrees),
            ([1.02, 1.11, 1.13, 1.02, 1.11, 1.13, 1.02], Outcome::Differs),
            ([0.92, 0.91, 0.93, 0.92, 0.95, 0.93, 0.92], Outcome::Differs),
            ([0.9, 1.1, 1.2, 0.8, 1.0, 0.9, 1.2], Outcome::Unclear),
        ] {
            let control = Control::new(&RatioEstimate::paired(&ratios, &[1.0; 7]).unwrap(), Delta::default());
            assert_eq!(control.outcome, outcome, "{ratios:?}");
            assert_eq!(control.differs(), outcome == Outcome::Differs);
        }
    }

    #[test]
    fn the_sentence_has_the_ratio_and_its_interval() {
        let control = Control::new(&RatioEstimate::paired(&[2.0; 6], &[1.0; 6]).unwrap(), Delta::default());
        assert_eq!(
            control.to_string(),
            "A/A ratio 2.000 (2.000 to 2.000, 96.8 % CI): differs from itself, by chance in one case of twenty"
        );
    }
}
