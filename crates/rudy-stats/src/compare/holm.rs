//! The comparisons of a report, corrected for how many they are.

use std::fmt;

use super::interval::percent;
use super::{Better, Control, Delta, ERROR, Interval, Paired, Verdict};

/// One question of a report: how A compares with B in a figure.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// The values of A, paired with those of B.
    pub paired: Paired,
    /// Which way of the figure is the good one.
    pub better: Better,
    /// What difference matters.
    pub delta: Delta,
    /// What A and B in this figure were against themselves, as far as that was measured.
    pub controls: Vec<Control>,
}

/// The answer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Finding {
    /// A is so many times B.
    pub ratio: f64,
    /// Between what that lies, at the level that so many comparisons need; where the rounds are too few for it the widest
    /// that they have.
    pub interval: Interval,
    /// How likely chance alone shows such a difference or a larger one.
    pub p_value: f64,
    /// The same, as if this were the only comparison: at most 0.05 exactly where the interval leaves out 1.
    pub p_adjusted: f64,
    /// What the interval shows.
    pub verdict: Verdict,
    /// Why nothing was shown, where no values could have shown anything.
    pub too_few: Option<TooFew>,
    /// A control on which this rests differs from itself: it may be no more than what made the control differ.
    pub is_flagged: bool,
}

/// There were fewer rounds than so many comparisons need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooFew {
    /// How many there were.
    pub rounds: usize,
    /// For how many comparisons.
    pub comparisons: usize,
    /// How many it takes.
    pub needed: usize,
}

/// Answers all questions of a report, in their order.
///
/// # What is corrected, and how
///
/// Of m comparisons one in twenty would be called a difference by chance. Holm's procedure ("A simple sequentially rejective
/// multiple test procedure", Scandinavian Journal of Statistics 6, 1979) holds the smallest p-value against α / m, the next
/// against α / (m - 1), and so on until one is above; [`holm`] is the same as adjusted p-values. So in at most one report of
/// twenty is there any difference that is none, however the comparisons depend on each other.
///
/// Intervals that belong to Holm's procedure and say how large a difference is are not to be had: those that are right all at
/// once end, for each difference found, at 1 (Strassburger and Bretz, Statistics in Medicine 27, 2008; Guilbaud, Biometrical
/// Journal 50, 2008). What is given instead are Bonferroni's of 1 - α / m, which are right all at once with 95 %, and so
/// support every "equivalent" and every size that is read off them. Where Holm finds a difference that such an interval
/// still misses, in the j-th step, the interval is that of the step, of 1 - α / (m - j + 1) (Serlin, "Confidence intervals
/// and the scientific method: a case for Holm on the range", Journal of Experimental Education 61, 1993). It is right at its
/// own level, and no longer together with the others. So an interval leaves out 1 exactly where Holm finds a difference,
/// and the verdict is what the interval that is shown shows.
///
/// An interval of 1 - α / m needs rounds: see [`rounds_needed`].
#[must_use]
pub fn judge(comparisons: &[Comparison]) -> Vec<Finding> {
    let p_values: Vec<f64> = comparisons.iter().map(|comparison| comparison.paired.p_value()).collect();
    let steps = steps(&p_values);
    let findings = comparisons.iter().zip(p_values).zip(steps);
    findings
        .map(|((comparison, p_value), step)| finding(comparison, p_value, step, comparisons.len()))
        .collect()
}

fn finding(comparison: &Comparison, p_value: f64, step: Step, comparisons: usize) -> Finding {
    let Comparison { paired, better, delta, controls } = comparison;
    let interval = paired.interval_erring(step.error);
    let verdict = interval.map_or(Verdict::Inconclusive, |interval| Verdict::of(&interval, *better, *delta));
    let (rounds, needed) = (paired.pairs(), rounds_needed(comparisons));
    Finding {
        ratio: paired.ratio(),
        interval: interval.unwrap_or_else(|| paired.widest()),
        p_value,
        p_adjusted: step.p_adjusted,
        verdict,
        too_few: interval.is_none().then_some(TooFew { rounds, comparisons, needed }),
        is_flagged: controls.iter().any(Control::differs),
    }
}

/// How many rounds so many comparisons need at least, for one of them to be found different or equivalent: 6 for one, 7 for
/// up to three, 8 for up to six, 9 for up to twelve.
///
/// The surest that n rounds can be is when all show the same sign, which chance does in 2 cases of 2^n; Holm's first step
/// asks for α / m. It is the least. To be found with so few, a difference must show in every round.
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

/// Holm's adjusted p-values, in the order of those given: each is at most α exactly where his procedure at level α finds a
/// difference.
#[must_use]
pub fn holm(p_values: &[f64]) -> Vec<f64> {
    steps(p_values).into_iter().map(|step| step.p_adjusted).collect()
}

/// What Holm's procedure says of a comparison.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Step {
    p_adjusted: f64,
    /// With what probability its interval may err.
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
    /// `0.893 times (0.887 to 0.903, 96.0 % sure): better`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3} times ({}): {}", self.ratio, self.interval, self.verdict)?;
        if let Some(too_few) = self.too_few {
            write!(f, ". {too_few}")?;
        }
        if self.is_flagged {
            f.write_str(". It rests on a subject that differs from itself")?;
        }
        Ok(())
    }
}

impl fmt::Display for TooFew {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rounds, comparisons, needed } = *self;
        let each = percent(1.0 - ERROR / float(comparisons));
        let so_many =
            if comparisons == 1 { "1 comparison".into() } else { format!("{comparisons} comparisons") };
        write!(f, "{needed} rounds are needed for {so_many}, to be {each} sure of each; there were {rounds}")
    }
}
