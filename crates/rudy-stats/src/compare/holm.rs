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
    /// The interval of the ratio, at the level that the number of comparisons needs: for an equivalence that of
    /// its two one-sided tests, and else that of a difference. With too few rounds, the widest interval that
    /// they allow.
    pub interval: Interval,
    /// The probability that chance alone causes such a difference or a larger one.
    pub p_value: f64,
    /// The same for a single comparison: at most 0.05 exactly if the interval of a difference excludes 1, unless
    /// there were too few rounds.
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
/// Of m comparisons, one in twenty would be called a difference by chance. Holm's procedure ("A simple sequentially
/// rejective multiple test procedure", Scandinavian Journal of Statistics 6, 1979) compares the smallest p-value with
/// α / m, the next with α / (m - 1), and so on until one is above. The adjusted p-values say the same: each is at most α exactly if the procedure finds a difference. At
/// most one report of twenty then contains a false difference, however the comparisons depend on each other.
///
/// No useful intervals belong to Holm's procedure: simultaneous ones end at 1 for each difference found (Strassburger
/// and Bretz, Statistics in Medicine 27, 2008; Guilbaud, Biometrical Journal 50, 2008). Instead, this function returns
/// Bonferroni's intervals of 1 - α / m. They are all right together with 95 %, and support every "equivalent" and every
/// size. If Holm finds a difference in step j that such an interval misses, the interval is that of the step, of
/// 1 - α / (m - j + 1) (Serlin, "Confidence intervals and the scientific method: a case for Holm on the range", Journal
/// of Experimental Education 61, 1993). It is right at its own level, and no longer together with the others. So an
/// interval excludes 1 exactly if Holm finds a difference, and the verdict always agrees with the interval.
///
/// An interval of 1 - α / m needs rounds: see [`rounds_needed`].
///
/// # Equivalence
///
/// Whether A and B are equivalent is another question with a hypothesis of its own, so its tests are a family of their
/// own: two one-sided tests (TOST) of level α for each comparison, which are an interval of 1 - 2α within the margins of
/// delta, corrected by Holm. At most one report of twenty contains a false equivalence. If A and B are shown to be
/// both equivalent and different, the difference is below delta, and the verdict is equivalent.
#[must_use]
pub fn evaluate(comparisons: &[Comparison]) -> Vec<Finding> {
    let p_values: Vec<f64> = comparisons.iter().map(|comparison| comparison.estimate.p_value()).collect();
    let steps = steps(&p_values);
    let equivalences = equivalences(comparisons);
    let findings = comparisons.iter().zip(p_values).zip(steps).zip(equivalences);
    findings
        .map(|(((comparison, p_value), step), equivalence)| {
            finding(comparison, p_value, step, equivalence, comparisons.len())
        })
        .collect()
}

/// For each comparison the interval that shows its equivalence, by Holm's procedure: while any of the k others is
/// shown with α / k, it leaves the family.
fn equivalences(comparisons: &[Comparison]) -> Vec<Option<Interval>> {
    let mut shown: Vec<Option<Interval>> = vec![None; comparisons.len()];
    loop {
        let left = shown.iter().filter(|interval| interval.is_none()).count();
        let mut others = (0..comparisons.len()).filter(|index| shown[*index].is_none());
        let next = others.find_map(|index| {
            let Comparison { estimate, delta, .. } = &comparisons[index];
            Some((index, estimate.equivalence(ERROR / float(left), *delta)?))
        });
        let Some((index, interval)) = next else { return shown };
        shown[index] = Some(interval);
    }
}

fn finding(
    comparison: &Comparison,
    p_value: f64,
    step: Step,
    equivalence: Option<Interval>,
    comparisons: usize,
) -> Finding {
    let Comparison { estimate, better, controls, .. } = comparison;
    let difference = estimate.interval_with_error(step.error);
    let verdict = match (equivalence, difference) {
        (Some(_), _) => Verdict::Equivalent,
        (None, Some(interval)) => Verdict::from_interval(&interval, *better),
        (None, None) => Verdict::Inconclusive,
    };
    let interval = equivalence.or(difference);
    let (rounds, needed) = (estimate.pairs(), rounds_needed(comparisons));
    Finding {
        ratio: estimate.ratio(),
        interval: interval.unwrap_or_else(|| estimate.full_range()),
        p_value,
        p_adjusted: step.p_adjusted,
        verdict,
        too_few: interval.is_none().then_some(TooFew { rounds, comparisons, needed }),
        is_flagged: controls.iter().any(Control::differs),
    }
}

/// The minimum number of rounds for a number of comparisons, so that one of them can be found different: 6 for one, 7 for up to three, 8 for up to six, 9 for up to twelve.
///
/// The smallest p-value of n rounds is 2 in 2^n, when all have the same sign; the first step of Holm requires
/// α / m. This is a minimum: with so few rounds, a difference must show in every round.
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

/// The result of Holm's procedure for a comparison.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Step {
    p_adjusted: f64,
    /// The error probability of its interval.
    error: f64,
}

fn steps(p_values: &[f64]) -> Vec<Step> {
    let count = p_values.len();
    let mut ascending: Vec<usize> = (0..count).collect();
    ascending.sort_by(|a, b| p_values[*a].total_cmp(&p_values[*b]));
    let mut steps = vec![Step { p_adjusted: 1.0, error: ERROR }; count];
    let all = float(count);
    let mut p_adjusted = 0.0_f64;
    for (behind, index) in ascending.into_iter().enumerate() {
        let (p_value, left) = (p_values[index], float(count - behind));
        p_adjusted = p_adjusted.max(p_value * left).min(1.0);
        let is_found = p_adjusted <= ERROR;
        let error = if is_found && p_value * all > ERROR { ERROR / left } else { ERROR / all };
        steps[index] = Step { p_adjusted, error };
    }
    steps
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
    fn adjusted_p_values_match_r() {
        // p.adjust(p, "holm"), as in the documentation of stdlib's padjust.
        for (p_values, adjusted) in [
            (&[0.319, 0.201, 0.4, 0.374, 0.113][..], &[0.957, 0.804, 0.957, 0.957, 0.565][..]),
            (&[0.01, 0.04, 0.03, 0.005], &[0.03, 0.06, 0.06, 0.02]),
            (&[0.7, 0.8], &[1.0, 1.0]),
            (&[0.03], &[0.03]),
            (&[], &[]),
        ] {
            let actual: Vec<f64> = steps(p_values).into_iter().map(|step| step.p_adjusted).collect();
            let is_close =
                actual.iter().zip(adjusted).all(|(actual, adjusted)| (actual - adjusted).abs() < 1e-12);
            assert!(is_close && actual.len() == adjusted.len(), "{actual:?} {adjusted:?}");
        }
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
    fn intervals_have_the_bonferroni_level_or_that_of_the_holm_step() {
        // Fourteen of the 1024 subsets of the ranks 1 to 10 have a sum of at most 6.
        let findings = evaluate(&[slower(10, 0), slower(10, 3), slower(10, 5)]);
        let p_values: Vec<f64> = findings.iter().map(|finding| finding.p_value * 512.0).collect();
        assert!((p_values[0] - 1.0).abs() < 1e-9 && (p_values[1] - 14.0).abs() < 1e-9, "{p_values:?}");
        // 1/512 is below 5 % / 3; 14/512 is above it, and above 5 % / 2 in the second step.
        assert_eq!(findings[0].verdict, Verdict::Worse);
        assert_eq!(findings[1].verdict, Verdict::Inconclusive);
        let levels: Vec<bool> =
            findings.iter().map(|finding| finding.interval.confidence >= 1.0 - ERROR / 3.0).collect();
        assert_eq!(levels, [true; 3]);

        // Of two, 14/512 is above 5 % / 2, and is compared with 5 % in the second step.
        let findings = evaluate(&[slower(10, 3), slower(10, 0)]);
        assert_eq!((findings[0].verdict, findings[1].verdict), (Verdict::Worse, Verdict::Worse));
        assert!(findings[0].interval.confidence < 1.0 - ERROR / 2.0);
        assert!(findings[1].interval.confidence >= 1.0 - ERROR / 2.0);
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
                    prop_assert!(Delta::default().includes(&finding.interval));
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
