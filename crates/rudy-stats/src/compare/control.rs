//! A against A: whether what was measured can be told from itself.

use std::fmt;

use super::{Better, Delta, ERROR, Interval, Paired, Verdict};

/// A subject measured twice in each round, the one time against the other.
///
/// It is judged as any comparison is, at 95 % by itself: so one control in twenty may differ by chance, and where the rounds are
/// steady fewer do, since what is within the margins of delta is no difference. It is not corrected for the number of
/// controls. A control that differs by chance costs a repetition, one that was missed costs a false verdict, and corrected
/// ones could hardly fail: two controls of six rounds not at all. Whether there are more failures than chance makes is seen
/// from their number (Kohavi, Longbotham, Sommerfield and Henne, "Controlled experiments on the web", Data Mining and Knowledge
/// Discovery 18, 2009, have one in twenty for what a sound A/A test shows).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Control {
    /// The one time is so many times the other.
    pub ratio: f64,
    /// Between what it lies.
    pub interval: Interval,
    /// What that shows.
    pub outcome: Outcome,
}

/// What a control has shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The subject is equivalent to itself.
    Agrees,
    /// It was not shown to differ from itself, nor to be equivalent: it takes more rounds to see what matters.
    Unclear,
    /// The subject differs from itself: something else than the subjects makes a difference here, such as their order,
    /// their cores, or what else runs.
    Differs,
}

impl Control {
    /// What the pairs of a subject with itself show.
    #[must_use]
    pub fn of(paired: &Paired, delta: Delta) -> Self {
        // With the fewest pairs that there may be the whole range is an interval of 96.9 %.
        let interval = paired.interval_erring(ERROR).unwrap_or_else(|| paired.widest());
        // Which way would be the better one is all the same.
        let outcome = match Verdict::of(&interval, Better::Lower, delta) {
            Verdict::Equivalent => Outcome::Agrees,
            Verdict::Inconclusive => Outcome::Unclear,
            Verdict::Better | Verdict::Worse => Outcome::Differs,
        };
        Self { ratio: paired.ratio(), interval, outcome }
    }

    /// Whether what rests on it is to be flagged.
    #[must_use]
    pub fn differs(&self) -> bool {
        self.outcome == Outcome::Differs
    }
}

impl fmt::Display for Control {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { ratio, interval, outcome } = self;
        let outcome = match outcome {
            Outcome::Agrees => "agrees with itself",
            Outcome::Unclear => "not shown to differ from itself, nor to agree",
            Outcome::Differs => "differs from itself, by chance in one case of twenty",
        };
        write!(f, "{ratio:.3} times itself ({interval}): {outcome}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_control_differs_where_it_leaves_out_1_by_what_matters() {
        for (ratios, outcome) in [
            ([0.99, 1.01, 1.0, 1.02, 0.98, 1.0, 1.01], Outcome::Agrees),
            // Always more, and never by what matters.
            ([1.02, 1.01, 1.03, 1.02, 1.01, 1.03, 1.02], Outcome::Agrees),
            ([1.02, 1.11, 1.13, 1.02, 1.11, 1.13, 1.02], Outcome::Differs),
            ([0.92, 0.91, 0.93, 0.92, 0.95, 0.93, 0.92], Outcome::Differs),
            ([0.9, 1.1, 1.2, 0.8, 1.0, 0.9, 1.2], Outcome::Unclear),
        ] {
            let control = Control::of(&Paired::new(&ratios, &[1.0; 7]).unwrap(), Delta::default());
            assert_eq!(control.outcome, outcome, "{ratios:?}");
            assert_eq!(control.differs(), outcome == Outcome::Differs);
        }
    }

    #[test]
    fn it_is_said_in_a_sentence() {
        let control = Control::of(&Paired::new(&[2.0; 6], &[1.0; 6]).unwrap(), Delta::default());
        assert_eq!(
            control.to_string(),
            "2.000 times itself (2.000 to 2.000, 96.8 % sure): differs from itself, by chance in one case of twenty"
        );
    }
}
