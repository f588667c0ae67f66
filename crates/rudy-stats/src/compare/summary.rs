//! Summarizes the rounds of one variant.

use super::estimate::median;
use super::null_distribution::NullDistribution;
use super::{ERROR, Interval, PAIRS_MAX};

/// The location of a variant's values.
///
/// For the variant's own row in a table. Overlapping intervals of two variants say nothing about their
/// difference: [`RatioEstimate`](super::RatioEstimate) removes the influence of the rounds on both.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// The number of rounds.
    pub rounds: usize,
    /// The median.
    pub median: f64,
    /// The 95 % interval of the median of all possible rounds, from order statistics (Thompson, Annals of
    /// Mathematical Statistics 7, 1936). `None` for fewer than six rounds.
    pub interval: Option<Interval>,
    /// The minimum.
    pub min: f64,
    /// The maximum.
    pub max: f64,
}

impl Summary {
    /// Summarizes values in any order. `None` if there are none, more than [`PAIRS_MAX`], or one that is not
    /// finite.
    #[must_use]
    pub fn new(values: &[f64]) -> Option<Self> {
        let is_valid =
            (1..=PAIRS_MAX).contains(&values.len()) && values.iter().all(|value| value.is_finite());
        if !is_valid {
            return None;
        }
        let mut sorted = values.to_vec();
        sorted.sort_unstable_by(f64::total_cmp);
        let ranks = NullDistribution::sign(sorted.len()).ranks(ERROR);
        Some(Self {
            rounds: sorted.len(),
            median: median(&sorted),
            interval: ranks.map(|ranks| Interval::between(&sorted, ranks)),
            min: sorted[0],
            max: sorted[sorted.len() - 1],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_of_the_median_has_the_ranks_of_r() {
        // R: qbinom(0.025, n, 0.5) is the rank of the lower end.
        for (rounds, rank) in [(6, 1), (8, 1), (9, 2), (10, 2), (20, 6), (50, 18), (100, 40)] {
            let values: Vec<f64> = (1..=rounds).map(f64::from).collect();
            let summary = Summary::new(&values).unwrap();
            let interval = summary.interval.unwrap();
            assert_eq!((interval.low, interval.high), (f64::from(rank), f64::from(rounds + 1 - rank)));
            assert!((0.95..0.995).contains(&interval.confidence), "{rounds}: {}", interval.confidence);
            assert_eq!((summary.min, summary.max), (1.0, f64::from(rounds)));
            assert!((summary.median - f64::from(rounds + 1) / 2.0).abs() < 1e-12);
        }
    }

    #[test]
    fn few_rounds_have_a_median_and_no_interval() {
        let summary = Summary::new(&[3.0, -1.0, 2.0]).unwrap();
        assert_eq!(summary, Summary { rounds: 3, median: 2.0, interval: None, min: -1.0, max: 3.0 });
        assert_eq!(Summary::new(&[]), None);
        assert_eq!(Summary::new(&[1.0, f64::NAN]), None);
    }
}
