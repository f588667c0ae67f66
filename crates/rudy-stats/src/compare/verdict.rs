//! Verdicts from confidence intervals.

use std::fmt;

use super::Interval;

/// The smallest difference that matters: 0.05 is a factor of 1.05, up or down.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Delta(f64);

impl Delta {
    /// A factor of 1 + `delta`. `None` unless `delta` is above 0 and at most 1: with more than a factor of
    /// two, nothing would be different.
    #[must_use]
    pub fn new(delta: f64) -> Option<Self> {
        (delta > 0.0 && delta <= 1.0).then_some(Self(delta))
    }

    /// The value of `delta`.
    #[must_use]
    pub fn get(self) -> f64 {
        self.0
    }

    /// The range of equivalent ratios: from 1 / (1 + delta), not 1 - delta, to 1 + delta, so that it is
    /// symmetric in A and B.
    #[must_use]
    pub fn margins(self) -> (f64, f64) {
        (1.0 / (1.0 + self.0), 1.0 + self.0)
    }
}

impl Default for Delta {
    /// 5 %: about the effect of another compiler version or memory layout on the same program.
    fn default() -> Self {
        Self(0.05)
    }
}

/// Which direction of a figure is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// For times, CPU, memory.
    Lower,
    /// For rates.
    Higher,
}

/// The verdict about A in comparison with B.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// No difference that matters.
    Equivalent,
    /// A is better, possibly by less than delta.
    Better,
    /// A is worse, possibly by less than delta.
    Worse,
    /// Neither was shown: more rounds, or fewer disturbances, are needed.
    Inconclusive,
}

impl Verdict {
    /// The verdict for the `interval` of the ratio A / B. Applies the first matching rule: equivalent if the
    /// interval is within the margins of `delta`; better or worse if it excludes 1; otherwise inconclusive.
    ///
    /// The first rule is that of two one-sided tests (Schuirmann, Journal of Pharmacokinetics and
    /// Biopharmaceutics 15, 1987). They usually use an interval of 90 % for a level of 5 %. The interval here
    /// has 95 % or more, so A is wrongly called equivalent in at most one case of forty.
    #[must_use]
    pub fn of(interval: &Interval, better: Better, delta: Delta) -> Self {
        let (least, most) = delta.margins();
        if interval.low >= least && interval.high <= most {
            Self::Equivalent
        } else if interval.contains(1.0) {
            Self::Inconclusive
        } else if (interval.high < 1.0) == (better == Better::Lower) {
            Self::Better
        } else {
            Self::Worse
        }
    }

    /// Whether A is better or worse than B.
    #[must_use]
    pub fn is_difference(self) -> bool {
        matches!(self, Self::Better | Self::Worse)
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Equivalent => "equivalent",
            Self::Better => "better",
            Self::Worse => "worse",
            Self::Inconclusive => "inconclusive",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_rule_that_applies_decides() {
        use Better::{Higher, Lower};
        for (low, high, better, verdict) in [
            (0.96, 1.04, Lower, Verdict::Equivalent),
            // It excludes 1, but the difference is below delta.
            (1.01, 1.04, Lower, Verdict::Equivalent),
            (1.0 / 1.05, 1.05, Lower, Verdict::Equivalent),
            (1.01, 1.06, Lower, Verdict::Worse),
            (1.01, 1.06, Higher, Verdict::Better),
            (0.5, 0.9, Lower, Verdict::Better),
            (0.5, 0.9, Higher, Verdict::Worse),
            (0.9, 1.01, Lower, Verdict::Inconclusive),
            (0.9, 1.0, Lower, Verdict::Inconclusive),
            (0.5, 2.0, Higher, Verdict::Inconclusive),
        ] {
            let interval = Interval { low, high, confidence: 0.95 };
            assert_eq!(Verdict::of(&interval, better, Delta::default()), verdict, "{low} {high} {better:?}");
        }
    }

    #[test]
    fn delta_is_a_factor_up_and_down() {
        let (low, high) = Delta::new(0.25).unwrap().margins();
        assert!((low - 0.8).abs() < 1e-12 && (high - 1.25).abs() < 1e-12);
        for wrong in [0.0, -0.05, 1.01, f64::NAN, f64::INFINITY] {
            assert_eq!(Delta::new(wrong), None, "{wrong}");
        }
    }
}
