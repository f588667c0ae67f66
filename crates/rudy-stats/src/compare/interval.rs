//! An interval between two of some sorted values.

use std::fmt;

use super::null::Cut;

/// Between what two values something lies, and how sure that is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// The lower end, which belongs to it.
    pub low: f64,
    /// The upper end, which belongs to it.
    pub high: f64,
    /// With what probability such an interval holds what it is of: what was attained, which is what was asked for or
    /// somewhat more, since there are only so many values to end at.
    pub confidence: f64,
}

impl Interval {
    /// Whether both ends and all between them hold it.
    #[must_use]
    pub fn contains(&self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }

    pub(super) fn between(sorted: &[f64], cut: Cut) -> Self {
        let Cut { rank, confidence } = cut;
        Self { low: sorted[rank - 1], high: sorted[sorted.len() - rank], confidence }
    }

    /// Of the logarithms' interval that of what they are of.
    pub(super) fn exp(self) -> Self {
        Self { low: self.low.exp(), high: self.high.exp(), ..self }
    }
}

impl fmt::Display for Interval {
    /// `1.042 to 1.101, 95.1 % sure`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3} to {:.3}, {} sure", self.low, self.high, percent(self.confidence))
    }
}

/// Cut, not rounded: 99.96 % is never 100 %.
pub(super) fn percent(share: f64) -> String {
    format!("{:.1} %", (share * 1000.0 + 1e-9).floor() / 10.0)
}
