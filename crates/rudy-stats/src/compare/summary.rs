//! The rounds of one subject alone.

use super::null::Null;
use super::paired::median;
use super::{ERROR, Interval, PAIRS_MAX};

/// Where the values of a subject's rounds lie.
///
/// It is for a subject's own line in a table. Two of them side by side are no comparison: that the intervals overlap says
/// nothing of the difference, which [`Paired`](super::Paired) sees without what a round does to both.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// How many rounds.
    pub rounds: usize,
    /// Half of them are above it.
    pub median: f64,
    /// Between what the median of all rounds that could be lies with 95 %, from the order of the values alone (Thompson, Annals of
    /// Mathematical Statistics 7, 1936); nothing of fewer than six rounds.
    pub interval: Option<Interval>,
    /// The lowest.
    pub min: f64,
    /// The highest.
    pub max: f64,
}

impl Summary {
    /// Of the rounds' values in any order; nothing where there are none, more than [`PAIRS_MAX`], or one that is not finite.
    #[must_use]
    pub fn of(values: &[f64]) -> Option<Self> {
        let is_fit = (1..=PAIRS_MAX).contains(&values.len()) && values.iter().all(|value| value.is_finite());
        if !is_fit {
            return None;
        }
        let mut sorted = values.to_vec();
        sorted.sort_unstable_by(f64::total_cmp);
        let cut = Null::sign(sorted.len()).cut(ERROR);
        Some(Self {
            rounds: sorted.len(),
            median: median(&sorted),
            interval: cut.map(|cut| Interval::between(&sorted, cut)),
            min: sorted[0],
            max: sorted[sorted.len() - 1],
        })
    }
}
