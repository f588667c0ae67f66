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

    /// Whether an interval is within the margins.
    ///
    /// If the interval has 1 - 2α, these are two one-sided tests of level α each (TOST: Schuirmann, Journal of
    /// Pharmacokinetics and Biopharmaceutics 15, 1987): A is wrongly called equivalent with a probability of α.
    #[must_use]
    pub fn includes(self, interval: &Interval) -> bool {
        let (least, most) = self.margins();
        interval.low >= least && interval.high <= most
    }
}

impl Default for Delta {
    /// 5 %: about the effect of another compiler version or memory layout on the same program.
    fn default() -> Self {
        Self(0.05)
    }
}

/// Which direction of a metric is better.
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
    /// Better or worse if the `interval` of the ratio A / B excludes 1, and otherwise inconclusive. Whether both are
    /// equivalent is another question: see [`Delta::includes`].
    pub(super) fn from_interval(interval: &Interval, better: Better) -> Self {
        if interval.contains(1.0) {
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
    fn an_interval_that_excludes_1_is_a_difference() {
        use Better::{Higher, Lower};
        for (low, high, better, verdict) in [
            (1.01, 1.06, Lower, Verdict::Worse),
            (1.01, 1.06, Higher, Verdict::Better),
            (0.5, 0.9, Lower, Verdict::Better),
            (0.5, 0.9, Higher, Verdict::Worse),
            (0.9, 1.01, Lower, Verdict::Inconclusive),
            (0.9, 1.0, Lower, Verdict::Inconclusive),
            (0.5, 2.0, Higher, Verdict::Inconclusive),
        ] {
            let interval = Interval { low, high, confidence: 0.95 };
            assert_eq!(Verdict::from_interval(&interval, better), verdict, "{low} {high} {better:?}");
        }
    }

    #[test]
    fn delta_is_a_factor_up_and_down() {
        let (low, high) = Delta::new(0.25).unwrap().margins();
        assert!((low - 0.8).abs() < 1e-12 && (high - 1.25).abs() < 1e-12);
        let includes = |low, high| Delta::default().includes(&Interval { low, high, confidence: 0.9 });
        assert!(includes(0.96, 1.04) && includes(1.0 / 1.05, 1.05) && includes(1.01, 1.04));
        assert!(!includes(0.95, 1.04) && !includes(0.96, 1.051));
        for wrong in [0.0, -0.05, 1.01, f64::NAN, f64::INFINITY] {
            assert_eq!(Delta::new(wrong), None, "{wrong}");
        }
    }
}
