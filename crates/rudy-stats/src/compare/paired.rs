//! One subject against another, round by round.

use std::fmt;

use super::interval::{Interval, percent};
use super::null::Null;

/// Of fewer pairs there is no interval of 95 %: five signs are all the same in one case of sixteen, without any difference.
pub const PAIRS_MIN: usize = 6;

/// More are not taken. There are half a million means of two among a thousand, and 2^-1000 is the smallest power of two
/// that the arithmetic has to bear.
pub const PAIRS_MAX: usize = 1000;

/// What the pairs of two subjects say of their ratio.
///
/// With d = ln(a / b) of each round and its Walsh averages, the means of every two d and of each with itself:
///
/// - the estimate is their median (Hodges and Lehmann, "Estimates of location based on rank tests", Annals of
///   Mathematical Statistics 34, 1963);
/// - an interval is between the k-th of them and the k-th from the end, k being from the exact distribution of Wilcoxon's
///   signed-rank statistic (Tukey 1949; Hollander and Wolfe, "Nonparametric Statistical Methods", 3.3);
/// - the p-value is that of the same test. It is at most α exactly where the interval of 1 - α leaves out 1, so one can
///   never contradict the other.
///
/// Rounds without a difference and differences of the same size are counted against the one that shows: as if each tie had
/// been broken the way that makes the difference least certain. Pratt's way (JASA 54, 1959), which ranks the zeros and then
/// leaves them out, and midranks are a little less careful, but belong to no interval that is made of order statistics; that
/// of Wilcoxon, who leaves out the zeros first, may find a difference because more rounds showed none. Ends that belong to
/// the interval keep its level whatever is tied (Noether, "Wilcoxon confidence intervals for location parameters in the
/// discrete case", JASA 62, 1967).
#[derive(Clone, Debug)]
pub struct Paired {
    pairs: usize,
    /// Of the logarithms, sorted.
    walsh: Vec<f64>,
    null: Null,
}

impl Paired {
    /// Two subjects whose values of the same round stand at the same place: latencies, rates, bytes, any positive figure.
    pub fn new(a: &[f64], b: &[f64]) -> Result<Self, Error> {
        if a.len() != b.len() {
            return Err(Error::Unpaired { a: a.len(), b: b.len() });
        }
        let pairs = a.len();
        if !(PAIRS_MIN..=PAIRS_MAX).contains(&pairs) {
            return Err(Error::Pairs(pairs));
        }
        for values in [a, b] {
            if let Some(round) = values.iter().position(|value| !(value.is_finite() && *value > 0.0)) {
                return Err(Error::NotPositive { round, value: values[round] });
            }
        }
        // Not ln(a / b), which is not to the last bit the negative of ln(b / a).
        let differences: Vec<f64> = a.iter().zip(b).map(|(a, b)| a.ln() - b.ln()).collect();
        Ok(Self::of_differences(&differences))
    }

    fn of_differences(differences: &[f64]) -> Self {
        let pairs = differences.len();
        let mut walsh = Vec::with_capacity(pairs * (pairs + 1) / 2);
        for (index, first) in differences.iter().enumerate() {
            walsh.extend(differences[index..].iter().map(|second| f64::midpoint(*first, *second)));
        }
        walsh.sort_unstable_by(f64::total_cmp);
        Self { pairs, walsh, null: Null::signed_rank(pairs) }
    }

    /// How many rounds.
    #[must_use]
    pub fn pairs(&self) -> usize {
        self.pairs
    }

    /// The estimate: A is so many times B.
    #[must_use]
    pub fn ratio(&self) -> f64 {
        median(&self.walsh).exp()
    }

    /// Between what the ratio lies with this confidence (0.95, say); nothing where so few pairs cannot have it.
    #[must_use]
    pub fn interval(&self, confidence: f64) -> Option<Interval> {
        self.interval_erring(1.0 - confidence)
    }

    /// The same, of the probability to err.
    pub(super) fn interval_erring(&self, error: f64) -> Option<Interval> {
        Some(Interval::between(&self.walsh, self.null.cut(error)?).exp())
    }

    /// The widest interval that there is, from the lowest ratio that was seen to the highest.
    pub(super) fn widest(&self) -> Interval {
        Interval::between(&self.walsh, self.null.widest()).exp()
    }

    /// How likely chance alone shows such a difference or a larger one, in either direction, where there is none.
    #[must_use]
    pub fn p_value(&self) -> f64 {
        let below = self.walsh.partition_point(|walsh| *walsh < 0.0);
        let not_above = self.walsh.partition_point(|walsh| *walsh <= 0.0);
        self.null.p_value(not_above.min(self.walsh.len() - below))
    }
}

/// Of sorted values, of which there is at least one.
pub(super) fn median(sorted: &[f64]) -> f64 {
    let (low, high) = ((sorted.len() - 1) / 2, sorted.len() / 2);
    f64::midpoint(sorted[low], sorted[high])
}

/// Why values cannot be compared.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Error {
    /// The subjects have not the same number of rounds.
    Unpaired {
        /// Values of the one.
        a: usize,
        /// Values of the other.
        b: usize,
    },
    /// Fewer than [`PAIRS_MIN`], or more than [`PAIRS_MAX`].
    Pairs(usize),
    /// A value that has no logarithm.
    NotPositive {
        /// In which round, the first being 0.
        round: usize,
        /// The value.
        value: f64,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unpaired { a, b } => write!(
                f,
                "{a} values cannot be compared with {b} round by round: give both subjects' values of the same rounds"
            ),
            Self::Pairs(pairs) if *pairs < PAIRS_MIN => write!(
                f,
                "{} is too few to compare: all of them could point the same way by chance more often than {} is sure; \
                 measure {PAIRS_MIN} rounds or more",
                if *pairs == 1 { "1 round".to_owned() } else { format!("{pairs} rounds") },
                percent(super::CONFIDENCE),
            ),
            Self::Pairs(pairs) => {
                write!(f, "{pairs} rounds are more than the {PAIRS_MAX} that are compared at once")
            }
            Self::NotPositive { round, value } => write!(
                f,
                "{value} in round {} has no ratio to another value: only positive figures can be compared",
                round + 1
            ),
        }
    }
}

impl std::error::Error for Error {}
