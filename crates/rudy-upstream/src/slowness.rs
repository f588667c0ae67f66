//! Which members are too slow in comparison with the others.

use std::time::Duration;

/// The number of latencies that a comparison needs, and after which there is another one: the average forgets older ones by then.
pub(crate) const LATENCIES_MIN: u64 = 20;

/// A latency that is never too high: the differences below it are those of a network or of a few requests.
const LATENCY_MIN: Duration = Duration::from_millis(10);

/// Returns the median latency of the other members if that of a member is more than `ratio` times as high. `others` has those that are up;
/// without any, the member is the last one.
pub(crate) fn too_slow(latency: Duration, ratio: u32, others: &mut [Duration]) -> Option<Duration> {
    others.sort_unstable();
    // Of an even number, the higher one: two members cannot both be too slow for each other.
    let median = *others.get(others.len() / 2)?;
    (latency > LATENCY_MIN && latency > median.saturating_mul(ratio)).then_some(median)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_is_too_slow_in_comparison_with_most_others() {
        let ms = Duration::from_millis;
        for (latency, others, median) in [
            (100, &[][..], None),
            (100, &[10], Some(10)),
            (30, &[10], None),
            (31, &[10], Some(10)),
            (9, &[1, 1], None),
            (100, &[10, 90], None),
            (100, &[90, 10, 10], Some(10)),
            (100, &[10, 40, 40], None),
        ] {
            let mut others: Vec<_> = others.iter().copied().map(ms).collect();
            assert_eq!(too_slow(ms(latency), 3, &mut others), median.map(ms), "{latency} {others:?}");
        }
    }
}
