//! Confidence intervals.

use std::fmt;

use super::null_distribution::Ranks;

/// A confidence interval with its confidence level.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// The lower end, inclusive.
    pub low: f64,
    /// The upper end, inclusive.
    pub high: f64,
    /// The confidence level that was reached. It can exceed the requested one, because the ends are among a
    /// limited number of values.
    pub confidence: f64,
}

impl Interval {
    /// Whether the interval lies between the two bounds.
    #[must_use]
    pub fn contains(&self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }

    pub(super) fn between(sorted: &[f64], ranks: Ranks) -> Self {
        let Ranks { rank, confidence } = ranks;
        Self { low: sorted[rank - 1], high: sorted[sorted.len() - rank], confidence }
    }

    /// The interval of a ratio, from that of its logarithm.
    pub(super) fn exp(self) -> Self {
        Self { low: self.low.exp(), high: self.high.exp(), ..self }
    }
}

impl fmt::Display for Interval {
    /// `1.042 to 1.101, 95.1 % CI`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3} to {:.3}, {} CI", self.low, self.high, rudy_units::share_down(self.confidence, 1))
    }
}
