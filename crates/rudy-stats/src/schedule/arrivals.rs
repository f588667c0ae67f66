//! The arrival times of a schedule: at equal gaps, as a Poisson process, or with jitter.

use std::time::Duration;

use super::{Schedule, Share, float, whole};
use crate::random::SplitMix64;

/// The iterator of [`Schedule::due`].
#[derive(Clone, Debug)]
pub struct Due {
    pub(super) schedule: Schedule,
    pub(super) positions: Positions,
}

#[derive(Clone, Debug)]
pub(super) enum Positions {
    Count(u64),
    RandomPositions(RandomPositions),
}

impl Iterator for Due {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        Some(match &mut self.positions {
            Positions::Count(k) => {
                *k += 1;
                self.schedule.due_at(*k - 1)
            }
            Positions::RandomPositions(random_positions) => {
                self.schedule.profile.time_of(random_positions.next())
            }
        })
    }
}

/// The distribution of gaps, with a mean of 1.
#[derive(Clone, Copy, Debug)]
pub(super) enum Gap {
    Exponential,
    Jittered,
}

/// For exponential gaps: the positions of a Poisson process of rate 1/N per request of the whole plan.
///
/// N independent Poisson processes of rate R/N together are one of rate R (superposition). Each share
/// therefore draws its own gaps with its own seed, and all shares together are exactly the plan. Drawing one
/// process and taking every N-th arrival would instead give each share Erlang gaps, which are far too even.
///
/// A variable rate is the same process on a transformed time axis: an arrival at position x of a process of
/// rate 1 is due when the plan expects x requests (the time-change theorem; Devroye, "Non-Uniform Random
/// Variate Generation", 1986, chapter VI).
#[derive(Clone, Debug)]
pub(super) struct RandomPositions {
    gap: Gap,
    random: SplitMix64,
    /// The number of shares, by which this process is thinner than the plan.
    shares: f64,
    /// The position in two parts, so that late gaps are added as exactly as the first.
    pub(super) whole: u64,
    pub(super) fraction: f64,
}

impl RandomPositions {
    pub(super) fn new(gap: Gap, seed: u64, share: Share) -> Self {
        // The generator hashes its state, so seeds that differ by one are unrelated.
        let own = SplitMix64(seed).next() ^ SplitMix64(share.of << 32 | share.index).next();
        Self { gap, random: SplitMix64(own), shares: float(share.of), whole: 0, fraction: 0.0 }
    }

    pub(super) fn next(&mut self) -> f64 {
        let unit = self.random.unit();
        self.fraction += self.shares
            * match self.gap {
                // By inversion: 1 − u is above 0, so its logarithm is finite.
                Gap::Exponential => -(1.0 - unit).ln(),
                Gap::Jittered => 0.9 + 0.2 * unit,
            };
        self.whole = self.whole.saturating_add(whole(self.fraction));
        self.fraction = self.fraction.fract();
        float(self.whole) + self.fraction
    }
}
