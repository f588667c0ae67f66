//! The exact distributions of the signed-rank and the sign statistic under the null hypothesis.

/// The lower half of a symmetric distribution on 0, 1, 2, …
///
/// Exact for all allowed sizes. The normal approximation is off by a tenth and more in the tails, which many
/// comparisons use, even with 100 pairs ("Extended tables of the Wilcoxon matched pair signed rank
/// statistic", JASA 60, 1965). A thousand pairs take a tenth of a second.
#[derive(Clone, Debug)]
pub(super) struct NullDistribution {
    /// At index `t`, the probability of `t` or less.
    cumulative: Vec<f64>,
}

/// The number of sorted values to omit at each end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Ranks {
    /// The rank of the lower end, counted from 1; the upper end has the same rank from above.
    pub(super) rank: usize,
    /// The confidence level of the interval.
    pub(super) confidence: f64,
}

impl NullDistribution {
    /// The sum of a random subset of the ranks 1 to `pairs`.
    pub(super) fn signed_rank(pairs: usize) -> Self {
        let half = pairs * (pairs + 1) / 4;
        let mut probabilities = vec![0.0; half + 1];
        probabilities[0] = 1.0;
        for rank in 1..=pairs {
            let reached = (rank * (rank + 1) / 2).min(half);
            // Downwards, so that each rank is added once.
            for sum in (0..=reached).rev() {
                let with = if sum >= rank { probabilities[sum - rank] } else { 0.0 };
                probabilities[sum] = f64::midpoint(probabilities[sum], with);
            }
        }
        Self::from_probabilities(probabilities)
    }

    /// The rank-sum statistic of Mann and Whitney: of `a` values and `b` others in random order, the number of pairs in which
    /// the one is above the other.
    ///
    /// Counts by the recurrence of their paper ("On a test of whether one of two random variables is stochastically larger
    /// than the other", Annals of Mathematical Statistics 18, 1947): the highest of all values is one of `a`, and above all
    /// `b`, or one of `b`.
    pub(super) fn rank_sum(a: usize, b: usize) -> Self {
        let half = a * b / 2;
        // At index `b`, the distribution of `a` values and this number of others; `a` grows by one in each step.
        let mut probabilities = vec![vec![0.0; half + 1]; b + 1];
        for distribution in &mut probabilities {
            distribution[0] = 1.0;
        }
        for a_count in 1..=a {
            for b_count in 1..=b {
                let (fewer, rest) = probabilities.split_at_mut(b_count);
                let share = fraction(a_count, a_count + b_count);
                for above in (0..=half).rev() {
                    let highest_is_of_a = if above >= b_count { rest[0][above - b_count] } else { 0.0 };
                    rest[0][above] = share * highest_is_of_a + (1.0 - share) * fewer[b_count - 1][above];
                }
            }
        }
        Self::from_probabilities(probabilities.swap_remove(b))
    }

    /// The number of heads among `values` coins.
    pub(super) fn sign(values: usize) -> Self {
        let half = values / 2;
        let mut probabilities = vec![0.0; half + 1];
        probabilities[0] = 1.0;
        for _ in 0..values {
            for heads in (0..=half).rev() {
                let with = if heads > 0 { probabilities[heads - 1] } else { 0.0 };
                probabilities[heads] = f64::midpoint(probabilities[heads], with);
            }
        }
        Self::from_probabilities(probabilities)
    }

    fn from_probabilities(mut probabilities: Vec<f64>) -> Self {
        let mut sum = 0.0;
        for probability in &mut probabilities {
            sum += *probability;
            *probability = sum;
        }
        Self { cumulative: probabilities }
    }

    /// The two-sided probability of a value at least as extreme as `statistic`.
    pub(super) fn p_value(&self, statistic: usize) -> f64 {
        self.cumulative.get(statistic).map_or(1.0, |cumulative| (2.0 * cumulative).min(1.0))
    }

    /// The largest number of values to omit, so that the error probability is at most `error`. `None` if even
    /// the whole range exceeds it.
    pub(super) fn ranks(&self, error: f64) -> Option<Ranks> {
        let rank = self.cumulative.partition_point(|cumulative| 2.0 * cumulative <= error);
        (rank > 0).then(|| self.ranks_at(rank))
    }

    /// The whole range.
    pub(super) fn full_range(&self) -> Ranks {
        self.ranks_at(1)
    }

    fn ranks_at(&self, rank: usize) -> Ranks {
        Ranks { rank, confidence: 1.0 - self.p_value(rank - 1) }
    }
}

#[expect(clippy::cast_precision_loss, reason = "at most twice the maximum number of rounds")]
fn fraction(part: usize, whole: usize) -> f64 {
    part as f64 / whole as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The largest statistic with a two-sided p-value of at most `error`.
    fn critical(pairs: usize, error: f64) -> Option<usize> {
        NullDistribution::signed_rank(pairs).ranks(error).map(|ranks| ranks.rank - 1)
    }

    #[test]
    fn critical_values_of_the_signed_rank_match_the_tables() {
        // <https://oeis.org/A226330>, n = 6 to 60, of a one-tail level of 2.5 %.
        let five_percent = [
            0, 2, 3, 5, 8, 10, 13, 17, 21, 25, 29, 34, 40, 46, 52, 58, 65, 73, 81, 89, 98, 107, 116, 126,
            137, 147, 159, 170, 182, 195, 208, 221, 235, 249, 264, 279, 294, 310, 327, 343, 361, 378, 396,
            415, 434, 453, 473, 494, 514, 536, 557, 579, 602, 625, 648,
        ];
        for (pairs, expected) in (6..).zip(five_percent) {
            assert_eq!(critical(pairs, 0.05), Some(expected), "{pairs}");
        }
        assert_eq!(critical(5, 0.05), None);
        // n = 8 to 50, of 1 %, counted in whole numbers; scipy 1.17's distribution has the same.
        let one_percent = [
            0, 1, 3, 5, 7, 9, 12, 15, 19, 23, 27, 32, 37, 42, 48, 54, 61, 68, 75, 83, 91, 100, 109, 118, 128,
            138, 148, 159, 171, 182, 194, 207, 220, 233, 247, 261, 276, 291, 307, 322, 339, 355, 373,
        ];
        for (pairs, expected) in (8..).zip(one_percent) {
            assert_eq!(critical(pairs, 0.01), Some(expected), "{pairs}");
        }
        assert_eq!(critical(7, 0.01), None);
    }

    #[test]
    fn many_pairs_match_the_normal_approximation() {
        // Mean n (n + 1) / 4, variance n (n + 1) (2 n + 1) / 24.
        let expected = 22_575.0 - 1.959_964 * (300.0 * 301.0 * 601.0 / 24.0_f64).sqrt();
        let rank =
            f64::from(u32::try_from(NullDistribution::signed_rank(300).ranks(0.05).unwrap().rank).unwrap());
        assert!((rank - expected).abs() < 3.0, "{rank} {expected}");
    }

    #[test]
    fn the_maximum_number_of_values_does_not_underflow() {
        let least = NullDistribution::sign(crate::compare::PAIRS_MAX).cumulative[0];
        assert!(least.is_normal() && (least.log2() + 1000.0).abs() < 1e-9, "{least}");
    }

    #[test]
    fn small_distributions_match_an_enumeration() {
        // Of the eight subsets of {1, 2, 3} one has the sum 0, one 1, one 2, and two 3.
        assert_eq!(NullDistribution::signed_rank(3).cumulative, [0.125, 0.25, 0.375, 0.625]);
        assert_eq!(NullDistribution::sign(4).cumulative, [0.0625, 0.3125, 0.6875]);
        assert_eq!(NullDistribution::signed_rank(1).cumulative, [0.5]);
        // Two values among two others: of the six orders one has 0 pairs, one 1, and two 2.
        let of_two: Vec<_> = NullDistribution::rank_sum(2, 2)
            .cumulative
            .iter()
            .map(|cumulative| (6.0 * cumulative).round())
            .collect();
        assert_eq!(of_two, [1.0, 2.0, 4.0]);
    }

    #[test]
    fn critical_values_of_the_rank_sum_match_the_tables() {
        // Siegel, "Nonparametric Statistics", table K: two-tailed, 5 %.
        for (a, b, expected) in [(4, 4, 0), (5, 5, 2), (8, 8, 13), (10, 10, 23), (20, 20, 127), (9, 15, 34)] {
            let critical = |a, b| NullDistribution::rank_sum(a, b).ranks(0.05).map(|ranks| ranks.rank - 1);
            assert_eq!([critical(a, b), critical(b, a)], [Some(expected); 2], "{a} {b}");
        }
        assert_eq!(NullDistribution::rank_sum(3, 3).ranks(0.05), None);
    }
}
