//! The Hodges-Lehmann estimate of a ratio, with its confidence interval and p-value.

use std::fmt;

use super::Delta;
use super::interval::Interval;
use super::null_distribution::NullDistribution;

/// Fewer pairs have no interval of 95 %: five equal signs happen by chance in one case of sixteen.
pub const PAIRS_MIN: usize = 6;

/// Maximum number of pairs. A thousand have half a million pairwise means, and 2^-1000 is near the limit of
/// an `f64`.
pub const PAIRS_MAX: usize = 1000;

/// The ratio of two variants, estimated from pairs.
///
/// With d = ln(a / b) of each round, and the Walsh averages, which are the means of all pairs of d and each d
/// itself:
///
/// - The estimate is their median (Hodges and Lehmann, "Estimates of location based on rank tests", Annals of
///   Mathematical Statistics 34, 1963).
/// - An interval lies between the k-th of them and the k-th from the end. k comes from the exact distribution
///   of Wilcoxon's signed-rank statistic (Tukey 1949; Hollander and Wolfe, "Nonparametric Statistical
///   Methods", 3.3).
/// - The p-value is that of the same test. It is at most α exactly if the interval of 1 - α excludes 1, so
///   both always agree.
///
/// Rounds without a difference, and differences of the same size, count against the observed difference: each
/// tie is broken in the way that makes it least certain. Pratt's method (JASA 54, 1959), which ranks the
/// zeros and then drops them, and midranks are slightly less conservative, but no interval of order
/// statistics belongs to them. Wilcoxon's method, which drops the zeros first, may find a difference because
/// more rounds showed none. With inclusive ends, the interval keeps its level with any ties (Noether,
/// "Wilcoxon confidence intervals for location parameters in the discrete case", JASA 62, 1967).
#[derive(Clone, Debug)]
pub struct RatioEstimate {
    pairs: usize,
    /// The logarithms of ratios whose median is the estimate, sorted: of pairs, the Walsh averages; else all of a value of A to one of B.
    log_estimates: Vec<f64>,
    null_distribution: NullDistribution,
}

impl RatioEstimate {
    /// Pairs the values of two variants by round: latencies, rates, bytes, or any positive metric.
    pub fn paired(a: &[f64], b: &[f64]) -> Result<Self, Error> {
        if a.len() != b.len() {
            return Err(Error::Unpaired { a: a.len(), b: b.len() });
        }
        check(a, b)?;
        let differences: Vec<f64> = a.iter().zip(b).map(|(a, b)| difference(*a, *b)).collect();
        Ok(Self::from_differences(&differences))
    }

    /// Compares rounds that have nothing in common, such as those of two runs on different days. The estimate is the median of
    /// all ratios of a value of A to one of B (Hodges and Lehmann 1963), and the interval and the p-value belong to the test of
    /// Mann and Whitney (Hollander and Wolfe, 4.1 to 4.3). The interval is wider than that of pairs if the machine changes between
    /// the rounds, and says nothing about a change between the runs.
    ///
    /// Ties count against the observed difference, as in [`paired`](Self::paired).
    pub fn unpaired(a: &[f64], b: &[f64]) -> Result<Self, Error> {
        check(a, b)?;
        let mut log_estimates: Vec<f64> =
            a.iter().flat_map(|a| b.iter().map(|b| difference(*a, *b))).collect();
        log_estimates.sort_unstable_by(f64::total_cmp);
        Ok(Self {
            pairs: a.len().min(b.len()),
            log_estimates,
            null_distribution: NullDistribution::rank_sum(a.len().min(b.len()), a.len().max(b.len())),
        })
    }

    fn from_differences(differences: &[f64]) -> Self {
        let pairs = differences.len();
        let mut log_estimates = Vec::with_capacity(pairs * (pairs + 1) / 2);
        for (index, first) in differences.iter().enumerate() {
            log_estimates.extend(differences[index..].iter().map(|second| f64::midpoint(*first, *second)));
        }
        log_estimates.sort_unstable_by(f64::total_cmp);
        Self { pairs, log_estimates, null_distribution: NullDistribution::signed_rank(pairs) }
    }

    /// The number of rounds.
    #[must_use]
    pub fn pairs(&self) -> usize {
        self.pairs
    }

    /// The estimated ratio of A to B.
    #[must_use]
    pub fn ratio(&self) -> f64 {
        median(&self.log_estimates).exp()
    }

    /// The interval of the ratio with this confidence, such as 0.95. `None` if there are too few pairs.
    #[must_use]
    pub fn interval(&self, confidence: f64) -> Option<Interval> {
        self.interval_with_error(1.0 - confidence)
    }

    /// The same, by error probability.
    pub(super) fn interval_with_error(&self, error: f64) -> Option<Interval> {
        Some(Interval::between(&self.log_estimates, self.null_distribution.ranks(error)?).exp())
    }

    /// The interval that shows that A and B are equivalent, with a probability of error of `error`: that of
    /// 1 - 2 × `error`, if it lies within the margins (TOST).
    pub(super) fn equivalence(&self, error: f64, delta: Delta) -> Option<Interval> {
        self.interval_with_error(2.0 * error).filter(|interval| delta.includes(interval))
    }

    /// The widest interval, from the lowest to the highest observed ratio.
    pub(super) fn full_range(&self) -> Interval {
        Interval::between(&self.log_estimates, self.null_distribution.full_range()).exp()
    }

    /// The two-sided p-value: the probability that chance alone causes such a difference or a larger one.
    #[must_use]
    pub fn p_value(&self) -> f64 {
        let below = self.log_estimates.partition_point(|log_estimates| *log_estimates < 0.0);
        let not_above = self.log_estimates.partition_point(|log_estimates| *log_estimates <= 0.0);
        self.null_distribution.p_value(not_above.min(self.log_estimates.len() - below))
    }
}

fn check(a: &[f64], b: &[f64]) -> Result<(), Error> {
    for values in [a, b] {
        if !(PAIRS_MIN..=PAIRS_MAX).contains(&values.len()) {
            return Err(Error::Pairs(values.len()));
        }
        if let Some(round) = values.iter().position(|value| !(value.is_finite() && *value > 0.0)) {
            return Err(Error::NotPositive { round, value: values[round] });
        }
    }
    Ok(())
}

/// ln(a / b) in steps of 2^-40, a part in 10^12 of the ratio. So 6 / 3 equals 2 / 1, and the mean of two is
/// exact. Rounds after the subtraction, which makes the result antisymmetric in a and b to the last bit.
fn difference(a: f64, b: f64) -> f64 {
    const STEPS: f64 = 1_099_511_627_776.0;
    ((a.ln() - b.ln()) * STEPS).round() / STEPS
}

/// The median of sorted values, of which there is at least one.
pub(super) fn median(sorted: &[f64]) -> f64 {
    let (low, high) = ((sorted.len() - 1) / 2, sorted.len() / 2);
    f64::midpoint(sorted[low], sorted[high])
}

/// The reason that values cannot be compared.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Error {
    /// The variants have different numbers of rounds.
    Unpaired {
        /// Values of the one.
        a: usize,
        /// Values of the other.
        b: usize,
    },
    /// Fewer than [`PAIRS_MIN`], or more than [`PAIRS_MAX`].
    Pairs(usize),
    /// A value without a logarithm.
    NotPositive {
        /// The index of the round, from 0.
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
                "{a} values cannot be compared with {b} round by round: both variants need values of the same rounds"
            ),
            Self::Pairs(pairs) if *pairs < PAIRS_MIN => write!(
                f,
                "{pairs} {} too few to compare: an interval of {:.0} % takes {PAIRS_MIN} or more",
                if *pairs == 1 { "round is" } else { "rounds are" },
                super::CONFIDENCE * 100.0,
            ),
            Self::Pairs(pairs) => {
                write!(f, "{pairs} rounds are more than the maximum of {PAIRS_MAX}")
            }
            Self::NotPositive { round, value } => write!(
                f,
                "{value} in round {} has no ratio to another value: only positive values can be compared",
                round + 1
            ),
        }
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The estimate, the ends of the 95 % interval, and the p-value of differences.
    fn results(differences: &[f64]) -> (f64, f64, f64, f64) {
        let estimate = RatioEstimate::from_differences(differences);
        let interval = estimate.interval(0.95).unwrap();
        (estimate.ratio().ln(), interval.low.ln(), interval.high.ln(), estimate.p_value())
    }

    fn assert_close(actual: (f64, f64, f64, f64), expected: (f64, f64, f64, f64)) {
        let (a, b) =
            ([actual.0, actual.1, actual.2, actual.3], [expected.0, expected.1, expected.2, expected.3]);
        assert!(a.iter().zip(b).all(|(a, b)| (a - b).abs() < 5e-6), "{a:?} {b:?}");
    }

    #[test]
    fn estimate_interval_and_p_value_match_hollander_and_wolfe() {
        // Hollander and Wolfe, 3.1; R: wilcox.test(x, y, paired = TRUE, conf.int = TRUE) has V = 40, p-value = 0.03906,
        // 0.010 to 0.786, and 0.46.
        let differences = [0.952, -0.147, 1.022, 0.43, 0.62, 0.59, 0.49, -0.08, 0.01];
        assert_close(results(&differences), (0.46, 0.010, 0.786, 0.039_062_5));
        let confidence = RatioEstimate::from_differences(&differences).interval(0.95).unwrap().confidence;
        assert!((confidence - 0.960_937_5).abs() < 1e-12);
    }

    #[test]
    fn estimate_interval_and_p_value_match_r_for_darwins_maize() {
        // Wilcoxon, "Individual comparisons by ranking methods", Biometrics Bulletin 1, 1945; R has V = 96 and p-value = 0.04126.
        let corn = [14., 56., 60., 16., 6., 8., -48., 49., 24., 28., 29., 41., -67., 23., 75.]
            .map(|d: f64| d / 100.0);
        // The interval is that between the 26th Walsh average and the 26th from the end, V being 25 or less with 2.4 %.
        assert_close(results(&corn), (0.25, 0.04, 0.415, 0.041_259_765_625));
    }

    #[test]
    fn p_values_match_scipy() {
        // scipy 1.17: wilcoxon(d, method="exact").pvalue
        for (differences, p_value) in [
            (&[0.034, -0.0311, -0.0038, 0.0365, -0.0251, 0.0533][..], 0.4375),
            (
                &[-0.0302, 0.0106, -0.5507, -0.0017, 0.0167, 0.0038, -0.0666, -0.0793, -0.0361, 0.0226],
                0.193_359_375,
            ),
            (
                &[
                    0.0639, 0.0734, -0.0219, -0.0625, 0.0466, 0.0343, 0.1451, 0.1002, 0.0581, -0.029, 0.0017,
                    -0.1644, 0.0736, 0.0406, 0.0352, 0.079, 0.0464, 0.0146, 0.0313, -0.0166,
                ],
                0.023_950_576_782_226_562,
            ),
        ] {
            let actual = RatioEstimate::from_differences(differences).p_value();
            assert!((actual - p_value).abs() < 1e-12, "{actual} {p_value}");
        }
    }

    #[test]
    fn the_exact_level_is_at_most_5_percent() {
        // Without a difference, both directions are equally likely, so this is the exact level.
        for (pairs, expected) in [(6_u32, 2), (8, 10), (10, 50)] {
            let is_difference = |signs: &u32| {
                let signed = |round: u32| if signs >> round & 1 == 0 { 1.0 } else { -1.0 };
                let differences: Vec<f64> =
                    (0..pairs).map(|round| signed(round) * 1.07_f64.powf(f64::from(round))).collect();
                !RatioEstimate::from_differences(&differences).interval(0.95).unwrap().contains(1.0)
            };
            assert_eq!((0..1_u32 << pairs).filter(is_difference).count(), expected, "{pairs}");
        }
    }

    #[test]
    fn zeros_and_ties_count_against_the_observed_difference() {
        let p_value = |differences: &[f64]| RatioEstimate::from_differences(differences).p_value();
        let six = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6];
        assert_close((p_value(&six), 0.0, 0.0, 0.0), (2.0 / 64.0, 0.0, 0.0, 0.0));
        // A seventh value of zero may count with either sign, at the lowest rank.
        let with_zero = p_value(&[0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6]);
        assert!((with_zero - 4.0 / 128.0).abs() < 1e-12, "{with_zero}");
        // One of the size of the third might as well rank above it: 4, not 3 or 3.5. Seven subsets have a sum up to 4.
        let with_tie = p_value(&[0.1, 0.2, 0.3, -0.3, 0.4, 0.5, 0.6]);
        assert!((with_tie - 2.0 * 7.0 / 128.0).abs() < 1e-12, "{with_tie}");
        assert_close(results(&[0.0; 8]), (0.0, 0.0, 0.0, 1.0));
    }

    #[test]
    fn rounding_errors_are_ties() {
        // ln 6 - ln 3 is not ln 2 to the last bit.
        let estimate =
            RatioEstimate::paired(&[6.0, 1.0, 2.0, 3.0, 10.0, 7.0], &[3.0, 2.0, 1.0, 6.0, 5.0, 14.0])
                .unwrap();
        assert!((estimate.p_value() - 1.0).abs() < 1e-12 && estimate.ratio().to_bits() == 1.0_f64.to_bits());
    }

    #[test]
    fn the_estimate_is_a_ratio() {
        let estimate =
            RatioEstimate::paired(&[2.0, 4.0, 6.0, 8.0, 10.0, 12.0], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
                .unwrap();
        let interval = estimate.interval(0.95).unwrap();
        for value in [estimate.ratio(), interval.low, interval.high] {
            assert!((value - 2.0).abs() < 1e-12, "{value}");
        }
        assert!(estimate.interval(0.97).is_none(), "six pairs have 96.9 % at most");
    }

    #[test]
    fn the_rank_sum_test_matches_an_enumeration() {
        // Hollander and Wolfe, 4.1, permeability of membranes, with a sixth value.
        let at_term = [0.80, 0.83, 1.89, 1.04, 1.45, 1.38, 1.91, 1.64, 0.73, 1.46];
        let earlier = [1.15, 0.88, 0.90, 0.74, 1.21, 0.95];
        let exp = |values: &[f64]| values.iter().map(|value| value.exp()).collect::<Vec<_>>();
        let unpaired = RatioEstimate::unpaired(&exp(&earlier), &exp(&at_term)).unwrap();
        let interval = unpaired.interval(0.95).unwrap();
        let actual = (unpaired.ratio().ln(), interval.low.ln(), interval.high.ln(), unpaired.p_value());
        // Counted over all 8,008 orders of 16 values, six of which are of one kind.
        assert_close(actual, (-0.37, -0.74, 0.12, 0.219_780_219_780));
    }

    #[test]
    fn an_outlier_moves_the_estimate_by_less_than_1_percent() {
        let mut a = [1.10, 1.12, 1.09, 1.11, 1.10, 1.08, 1.12, 1.11, 1.09, 1.10];
        let without_outlier = RatioEstimate::paired(&a, &[1.0; 10]).unwrap();
        a[3] = 1000.0;
        let with_outlier = RatioEstimate::paired(&a, &[1.0; 10]).unwrap();
        assert!((with_outlier.ratio() / without_outlier.ratio() - 1.0).abs() < 0.01);
        assert!(with_outlier.interval(0.95).unwrap().low > 1.08);
    }

    #[test]
    fn invalid_values_are_reported() {
        for (a, b, sentence) in [
            (&[1.0; 6][..], &[1.0; 7][..], "6 values cannot be compared with 7 round by round"),
            (&[1.0; 5], &[1.0; 5], "5 rounds are too few to compare"),
            (&[1.0; 1], &[1.0; 1], "1 round is too few to compare"),
            (&[1.0; 1001], &[1.0; 1001], "1001 rounds are more than the maximum of 1000"),
            (&[1.0, 1.0, 0.0, 1.0, 1.0, 1.0], &[1.0; 6], "0 in round 3 has no ratio"),
            (&[1.0; 6], &[1.0, 1.0, 1.0, 1.0, 1.0, f64::NAN], "NaN in round 6 has no ratio"),
        ] {
            let error = RatioEstimate::paired(a, b).unwrap_err().to_string();
            assert!(error.contains(sentence), "{error}");
        }
    }

    proptest! {
        #[test]
        fn the_interval_excludes_1_exactly_if_the_p_value_is_at_most_alpha(
            // Few distinct values, so that there are zeros and ties.
            pairs in prop::collection::vec((1..8_u32, 1..8_u32), 6..16), confidence in 0.8..0.96_f64,
        ) {
            let (a, b): (Vec<f64>, Vec<f64>) = pairs.into_iter().map(|(a, b)| (f64::from(a), f64::from(b))).unzip();
            let estimate = RatioEstimate::paired(&a, &b).unwrap();
            let interval = estimate.interval(confidence).unwrap();
            prop_assert_eq!(estimate.p_value() <= 1.0 - confidence, !interval.contains(1.0));
        }

        #[test]
        fn an_unpaired_interval_excludes_1_exactly_if_the_p_value_is_at_most_alpha(
            a in prop::collection::vec(1..8_u32, 6..12), b in prop::collection::vec(1..8_u32, 6..12), confidence in 0.8..0.99_f64,
        ) {
            let of = |values: Vec<u32>| values.into_iter().map(f64::from).collect::<Vec<_>>();
            let (a, b) = (of(a), of(b));
            let (one, other) = (RatioEstimate::unpaired(&a, &b).unwrap(), RatioEstimate::unpaired(&b, &a).unwrap());
            prop_assert_eq!(one.p_value() <= 1.0 - confidence, !one.interval(confidence).unwrap().contains(1.0));
            prop_assert_eq!(one.p_value().to_bits(), other.p_value().to_bits());
        }

        #[test]
        fn swapping_a_and_b_inverts_the_ratio(
            pairs in prop::collection::vec((0.1..10.0_f64, 0.1..10.0_f64), 6..16),
        ) {
            let (a, b): (Vec<f64>, Vec<f64>) = pairs.into_iter().unzip();
            let (one, other) = (RatioEstimate::paired(&a, &b).unwrap(), RatioEstimate::paired(&b, &a).unwrap());
            prop_assert!((one.ratio() * other.ratio() - 1.0).abs() < 1e-12);
            prop_assert_eq!(one.p_value().to_bits(), other.p_value().to_bits());
            let (one, other) = (one.interval(0.95).unwrap(), other.interval(0.95).unwrap());
            prop_assert!((one.low * other.high - 1.0).abs() < 1e-12 && (one.high * other.low - 1.0).abs() < 1e-12);
        }
    }
}
