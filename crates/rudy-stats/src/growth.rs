//! Whether a count grows persistently, as the sockets of a process that leaks, and how fast.
//!
//! Counts of sockets are no independent samples: a connection of a minute is in sixty of them, so a count
//! wanders like a random walk. A test of the slope that ignores this gives false alarms for healthy servers. Therefore:
//!
//! 1. The time is cut into ten blocks, each represented by its minimum. A burst does not raise a minimum; a
//!    socket that is never closed does.
//! 2. The mean of the nine increments must be far above their deviation (a t test, which is exact for a
//!    random walk and strict for anything that returns to its mean), and the growth must be a number of
//!    sockets that chance does not explain.
//! 3. The second half must grow like the whole: a pool that fills grows more and more slowly.
//!
//! Error rates of a verdict after each sample for an hour, by simulation: fewer than 1 in 200
//! servers with stationary connections of 1 s to 5 min, 1 in 100 with connections of an hour, and 1 in 50
//! unbounded random walks. A leak of 2/s is found after 100 s, in noise with a deviation of 30 sockets after
//! 190 s; a leak of 0.2/s after 160 s and 26 min. A saw-tooth is a false alarm if the watch covers less than two of
//! its periods.
//!
//! The slope is the median of the slopes between all pairs of blocks (Theil 1950; Sen, JASA 63, 1968): a
//! single outlier does not move it. Sen's interval holds for independent noise around a line. The number of
//! leaked sockets is a sum, so that its noise adds up; where the interval of the mean increment is wider, it
//! counts.

/// The growth of a count.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Growth {
    /// The slope.
    pub per_s: f64,
    /// The lower end of its 95 % confidence interval, not below 0.
    pub per_s_low: f64,
    /// The upper end of that interval.
    pub per_s_high: f64,
    /// The count at the first sample on the line with this slope.
    pub at_start: f64,
}

/// The number of blocks.
const BLOCKS: usize = 10;

/// The number of increments between blocks.
const INCREMENTS: f64 = 9.0;

/// The minimum number of samples: two in each block, so that a minimum is one.
pub const SAMPLES_MIN: usize = 2 * BLOCKS;

/// The minimum growth. Sockets that arrive at random and stay have a variance of their number, so that 16 are
/// four standard deviations above none.
pub const GROWTH_MIN: f64 = 16.0;

/// The minimum of the t statistic with eight degrees of freedom: one in 6,000 random walks exceeds it. Chance
/// has many occasions, because a watch tests many counters at each sample.
const T_MIN: f64 = 6.0;

/// The 97.5th percentile of the t distribution with eight degrees of freedom.
const T_95: f64 = 2.306;

/// The deviation of increments is at least that of rounding to whole sockets.
const DEVIATION_MIN: f64 = 0.5;

/// The minimum slope of the second half in relation to the whole. A pool that fills exponentially falls below
/// once it is watched for about its time constant.
const SECOND_HALF_MIN: f64 = 0.75;

/// The positions of the ends of the 95 % interval among the 45 sorted slopes, from 0. Hollander, Wolfe,
/// "Nonparametric Statistical Methods", section 9.3: for ten points, Kendall's K is 23 or more with a
/// probability of 2.3 %.
const INTERVAL: (usize, usize) = (11, 33);

/// The persistent growth of `counts`, which were sampled at the ascending times `times_s`.
///
/// `None` if the count does not grow, if its growth may be chance, if it has stopped, or without enough
/// samples.
#[must_use]
pub fn persistent(times_s: &[f64], counts: &[f64]) -> Option<Growth> {
    let (minima, block_s) = minima(times_s, counts)?;
    let error = standard_error(&minima);
    let growth = minima[BLOCKS - 1] - minima[0];
    let is_chance = growth < GROWTH_MIN || growth / INCREMENTS < T_MIN * error;
    let slopes = slopes(&minima);
    let slope = median(&slopes);
    if is_chance || median(&self::slopes(&minima[BLOCKS / 2..])) < SECOND_HALF_MIN * slope {
        return None;
    }
    let low = slopes[INTERVAL.0].min(slope - T_95 * error).max(0.0);
    let high = slopes[INTERVAL.1].max(slope + T_95 * error);
    let [per_s, per_s_low, per_s_high] = [slope, low, high].map(|slope| slope / block_s);
    Some(Growth { per_s, per_s_low, per_s_high, at_start: intercept(&minima, slope) })
}

/// The minimum of each block, and the length of a block in seconds.
fn minima(times_s: &[f64], counts: &[f64]) -> Option<([f64; BLOCKS], f64)> {
    if counts.len() < SAMPLES_MIN || times_s.len() != counts.len() {
        return None;
    }
    let (begin, end) = (*times_s.first()?, *times_s.last()?);
    let block_s = (end - begin) / (INCREMENTS + 1.0);
    if block_s <= 0.0 {
        return None;
    }
    let mut minima = [f64::INFINITY; BLOCKS];
    for (time, count) in times_s.iter().zip(counts) {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to 10")]
        let block = ((time - begin) / block_s) as usize;
        let minimum = &mut minima[block.min(BLOCKS - 1)];
        *minimum = minimum.min(*count);
    }
    minima.iter().all(|minimum| minimum.is_finite()).then_some((minima, block_s))
}

/// The standard error of the mean of the increments of the minima, if the increments are independent.
fn standard_error(minima: &[f64; BLOCKS]) -> f64 {
    let mean = (minima[BLOCKS - 1] - minima[0]) / INCREMENTS;
    let squares: f64 = minima.windows(2).map(|pair| (pair[1] - pair[0] - mean).powi(2)).sum();
    (squares / (INCREMENTS - 1.0)).sqrt().max(DEVIATION_MIN) / INCREMENTS.sqrt()
}

/// The slopes between all pairs, per block, ascending.
#[expect(clippy::cast_precision_loss, reason = "a distance of at most ten blocks")]
fn slopes(minima: &[f64]) -> Vec<f64> {
    let mut slopes = Vec::with_capacity(minima.len() * (minima.len() - 1) / 2);
    for (later, last) in minima.iter().enumerate() {
        slopes.extend(
            minima[..later]
                .iter()
                .enumerate()
                .map(|(earlier, first)| (last - first) / (later - earlier) as f64),
        );
    }
    slopes.sort_unstable_by(f64::total_cmp);
    slopes
}

/// The median of the intercepts of lines through each block. The minimum of a growing count is at the start of its
/// block.
fn intercept(minima: &[f64; BLOCKS], slope: f64) -> f64 {
    let mut intercepts = *minima;
    for (block, intercept) in (0_u32..).zip(&mut intercepts) {
        *intercept -= slope * f64::from(block);
    }
    intercepts.sort_unstable_by(f64::total_cmp);
    median(&intercepts)
}

fn median(sorted: &[f64]) -> f64 {
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[middle] } else { f64::midpoint(sorted[middle - 1], sorted[middle]) }
}

#[cfg(test)]
mod tests;
