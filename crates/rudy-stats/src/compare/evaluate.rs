//! Evaluates all comparisons of a report, corrected for their number.

use std::fmt;

use super::{Better, Control, Delta, ERROR, Interval, RatioEstimate, Verdict};

/// A comparison of A and B in a metric.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// The paired values of A and B.
    pub estimate: RatioEstimate,
    /// Whether lower or higher values are better.
    pub better: Better,
    /// The smallest difference that matters.
    pub delta: Delta,
    /// The controls of A and B in this metric, if measured.
    pub controls: Vec<Control>,
}

/// The result of a comparison.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Finding {
    /// The ratio of A to B.
    pub ratio: f64,
    /// The interval of the ratio, at the level that the number of comparisons needs. With too few rounds, the widest
    /// interval that they allow.
    pub interval: Interval,
    /// The probability that chance alone causes such a difference or a larger one.
    pub p_value: f64,
    /// The same for a single comparison: at most 0.05 exactly if the interval excludes 1, unless there were too few
    /// rounds.
    pub p_adjusted: f64,
    /// The verdict.
    pub verdict: Verdict,
    /// The numbers of rounds, if no values of so few rounds could lead to a verdict.
    pub too_few: Option<TooFew>,
    /// Whether a control of this comparison differs from itself, so that the same cause may explain the
    /// difference.
    pub is_flagged: bool,
}

/// There were fewer rounds than this number of comparisons needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooFew {
    /// The number of rounds.
    pub rounds: usize,
    /// The number of comparisons.
    pub comparisons: usize,
    /// The number of rounds needed.
    pub needed: usize,
}

/// Evaluates all comparisons of a report, in their order.
///
/// # Correction for multiple comparisons
///
/// Of m comparisons, one in twenty would be called a difference by chance. So each is held against α / m (Bonferroni), in two
/// questions:
///
/// - Is there a difference? The interval of 1 - α / m excludes 1.
/// - Are both equivalent? Two one-sided tests of level α / m (TOST), which are an interval of 1 - 2α / m within the margins of
///   delta. It is narrower than the interval above, which is the one that is returned.
///
/// At most one report of twenty has any wrong verdict, of either kind, however the comparisons depend on each other: for each ratio, only one
/// kind can be wrong. If the ratio is within the margins, an equivalence is right; if it is outside, a difference is right, and
/// one in the wrong direction implies an upper (or lower) bound that would also have shown the equivalence. So the probability
/// of an error is at most α / m in each. If A and B are shown to be both equivalent and different, the difference is below
/// delta, and the verdict is equivalent.
///
/// All intervals hold together in at least 19 of 20 reports. Holm's procedure (Scandinavian Journal of Statistics 6, 1979) would find more: it
/// compares the smallest p-value with α / m, the next with α / (m - 1). But no useful intervals belong to it: simultaneous ones end
/// at 1 for each difference found (Guilbaud, Biometrical Journal 50, 2008), those of its steps do not hold together,
/// and with one such family for differences and one for equivalences, one report of ten has an error.
///
/// An interval of 1 - α / m needs rounds: see [`rounds_needed`].
#[must_use]
pub fn evaluate(comparisons: &[Comparison]) -> Vec<Finding> {
    comparisons.iter().map(|comparison| finding(comparison, comparisons.len())).collect()
}

fn finding(comparison: &Comparison, comparisons: usize) -> Finding {
    let Comparison { estimate, better, delta, controls } = comparison;
    let error = ERROR / float(comparisons);
    let interval = estimate.interval_with_error(error);
    let verdict = match interval {
        None => Verdict::Inconclusive,
        Some(_) if estimate.equivalence(error, *delta).is_some() => Verdict::Equivalent,
        Some(interval) => Verdict::from_interval(&interval, *better),
    };
    let (rounds, needed) = (estimate.pairs(), rounds_needed(comparisons));
    Finding {
        ratio: estimate.ratio(),
        interval: interval.unwrap_or_else(|| estimate.full_range()),
        p_value: estimate.p_value(),
        p_adjusted: (estimate.p_value() * float(comparisons)).min(1.0),
        verdict,
        too_few: interval.is_none().then_some(TooFew { rounds, comparisons, needed }),
        is_flagged: controls.iter().any(Control::differs),
    }
}

/// The minimum number of rounds for a number of comparisons, so that one of them can be found different: 6 for one, 7 for up to three, 8 for up to six, 9 for up to twelve.
///
/// The smallest p-value of n rounds is 2 in 2^n, when all have the same sign, and a difference requires α / m. This is a minimum: with so few rounds, a difference must show in every round.
#[must_use]
pub fn rounds_needed(comparisons: usize) -> usize {
    // A count of comparisons is far below 2^32 and the loop below 40.
    let error = ERROR / f64::from(u32::try_from(comparisons.max(1)).unwrap_or(u32::MAX));
    let (mut rounds, mut chance) = (1, 1.0);
    while chance > error {
        rounds += 1;
        chance /= 2.0;
    }
    rounds
}

#[expect(clippy::cast_precision_loss, reason = "of comparisons, or of rounds")]
fn float(count: usize) -> f64 {
    count as f64
}

impl fmt::Display for Finding {
    /// `0.893 times (0.887 to 0.903, 96.0 % CI): better`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3} times ({}): {}", self.ratio, self.interval, self.verdict)?;
        if let Some(too_few) = self.too_few {
            write!(f, ". {too_few}")?;
        }
        if self.is_flagged {
            f.write_str(". It depends on a variant that differs from itself")?;
        }
        Ok(())
    }
}

impl fmt::Display for TooFew {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rounds, comparisons, needed } = *self;
        let each = rudy_units::share_down(1.0 - ERROR / float(comparisons), 1);
        let counted =
            if comparisons == 1 { "1 comparison".into() } else { format!("{comparisons} comparisons") };
        write!(
            f,
            "{needed} rounds are needed for {counted}, for a confidence of {each} in each; there were {rounds}"
        )
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::compare::Outcome;

    fn comparison(ratios: &[f64]) -> Comparison {
        Comparison {
            estimate: RatioEstimate::paired(ratios, &vec![1.0; ratios.len()]).unwrap(),
            better: Better::Lower,
            delta: Delta::default(),
            controls: Vec::new(),
        }
    }

    /// In all rounds except `against`, A is slower, by an amount that grows with the round.
    fn slower(rounds: usize, against: usize) -> Comparison {
        let ratio = |round: usize| 1.2 + 0.01 * float(round);
        let ratios: Vec<f64> = (0..rounds)
            .map(|round| if round < against { 1.0 / ratio(round) } else { ratio(round) })
            .collect();
        comparison(&ratios)
    }

    #[test]
    fn rounds_needed_grow_with_the_number_of_comparisons() {
        let needed = [0, 1, 2, 3, 4, 6, 7, 12, 13, 25, 26].map(rounds_needed);
        assert_eq!(needed, [6, 6, 7, 7, 8, 8, 9, 9, 10, 10, 11]);
    }

    #[test]
    fn too_few_rounds_are_inconclusive_and_name_the_number_needed() {
        let findings = evaluate(&[slower(6, 0), slower(6, 0), slower(6, 0), slower(6, 0), slower(6, 0)]);
        for finding in &findings {
            assert_eq!(finding.verdict, Verdict::Inconclusive);
            assert_eq!(finding.too_few, Some(TooFew { rounds: 6, comparisons: 5, needed: 8 }));
            let text = finding.to_string();
            assert!(
                text.ends_with(
                    "96.8 % CI): inconclusive. 8 rounds are needed for 5 comparisons, for a confidence of 99.0 % in each; \
                     there were 6"
                ),
                "{text}"
            );
        }
        let enough = evaluate(&[slower(8, 0), slower(8, 0), slower(8, 0), slower(8, 0), slower(8, 0)]);
        assert!(enough.iter().all(|finding| finding.verdict == Verdict::Worse && finding.too_few.is_none()));
        let alone = &evaluate(&[slower(6, 0)])[0];
        assert_eq!((alone.verdict, alone.too_few), (Verdict::Worse, None));
    }

    #[test]
    fn every_interval_has_the_level_of_bonferroni_whatever_the_verdict() {
        // Fourteen of the 1024 subsets of the ranks 1 to 10 have a sum of at most 6.
        let findings = evaluate(&[slower(10, 0), slower(10, 3), slower(10, 5)]);
        let p_values: Vec<f64> = findings.iter().map(|finding| finding.p_value * 512.0).collect();
        assert!((p_values[0] - 1.0).abs() < 1e-9 && (p_values[1] - 14.0).abs() < 1e-9, "{p_values:?}");
        // 1/512 is below 5 % / 3, and 14/512 above it.
        assert_eq!(findings[0].verdict, Verdict::Worse);
        assert_eq!(findings[1].verdict, Verdict::Inconclusive);

        // Alone, 14/512 is a difference; of two, it is above 5 % / 2 whatever the other is.
        assert_eq!(evaluate(&[slower(10, 3)])[0].verdict, Verdict::Worse);
        let equal = comparison(&[1.001, 0.999, 1.002, 0.998, 1.003, 0.997, 1.001, 0.999, 1.002, 0.998]);
        let different = evaluate(&[slower(10, 3), slower(10, 0), equal]);
        let verdicts: Vec<_> = different.iter().map(|finding| finding.verdict).collect();
        assert_eq!(verdicts, [Verdict::Inconclusive, Verdict::Worse, Verdict::Equivalent]);
        for finding in findings.iter().chain(&different) {
            assert!(finding.interval.confidence >= 1.0 - ERROR / 3.0, "{finding}");
        }
    }

    #[test]
    fn a_verdict_is_flagged_by_a_control_that_differs() {
        let control = |outcome| {
            let estimate = &slower(6, 0).estimate;
            Control { outcome, ..Control::new(estimate, Delta::default()) }
        };
        for (outcomes, is_flagged) in [
            (&[][..], false),
            (&[Outcome::Agrees, Outcome::Unclear], false),
            (&[Outcome::Agrees, Outcome::Differs], true),
        ] {
            let controls = outcomes.iter().copied().map(control).collect();
            let finding = evaluate(&[Comparison { controls, ..slower(8, 0) }])[0];
            assert_eq!(finding.is_flagged, is_flagged, "{outcomes:?}");
            assert_eq!(finding.verdict, Verdict::Worse, "it stays, and is marked");
            assert_eq!(finding.to_string().contains("differs from itself"), is_flagged);
        }
    }

    proptest! {
        #[test]
        fn interval_verdict_and_adjusted_p_value_agree(
            variants in prop::collection::vec(prop::collection::vec(0.9..1.3_f64, 6..14), 1..6),
        ) {
            let comparisons: Vec<_> = variants.iter().map(|ratios| comparison(ratios)).collect();
            for finding in evaluate(&comparisons) {
                if finding.too_few.is_some() {
                    prop_assert!(finding.verdict == Verdict::Inconclusive && finding.p_adjusted > ERROR);
                    continue;
                }
                if finding.verdict == Verdict::Equivalent {
                    prop_assert!(finding.interval.contains(finding.ratio));
                    continue;
                }
                prop_assert_eq!(finding.p_adjusted <= ERROR, !finding.interval.contains(1.0));
                prop_assert!(!finding.verdict.is_difference() || finding.p_adjusted <= ERROR);
                prop_assert!(finding.p_adjusted >= finding.p_value);
                prop_assert!(finding.interval.contains(finding.ratio));
            }
        }
    }
}
