//! Distributes the first ticks of streams over the interval, so that streams opened in a burst do not tick
//! simultaneously.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Assigns a phase of the interval to each stream.
///
/// The phases are multiples of the golden ratio: any number of consecutive ones divide the interval almost
/// evenly. Random phases would cluster: with 1,000 streams in 100 slots, some slots would have twenty. The
/// phases belong to one common clock and are not delays from the start of each stream, so that they stay even
/// at any rate of new streams.
#[derive(Debug)]
pub(super) struct Spread {
    origin: Instant,
    interval_ns: u64,
    opened: AtomicU64,
}

/// The fraction of the golden ratio, times 2^64.
const GOLDEN_FRACTION: u64 = 0x9E37_79B9_7F4A_7C15;

impl Spread {
    pub(super) fn new(origin: Instant, interval_ns: u64) -> Self {
        Self { origin, interval_ns, opened: AtomicU64::new(0) }
    }

    /// Returns the first tick of the next stream, less than one interval after `now`.
    pub(super) fn first(&self, now: Instant) -> Instant {
        let fraction = self.opened.fetch_add(1, Ordering::Relaxed).wrapping_mul(GOLDEN_FRACTION);
        let interval_ns = u128::from(self.interval_ns);
        let phase_ns = (u128::from(fraction) * interval_ns) >> 64;
        let now_ns = now.saturating_duration_since(self.origin).as_nanos() % interval_ns;
        let wait_ns = (phase_ns + interval_ns - now_ns) % interval_ns;
        now + Duration::from_nanos_u128(wait_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Counts how many of 1,000 streams tick in each hundredth of the interval.
    fn slots(opened_after: impl Fn(u32) -> Duration) -> Vec<u32> {
        let origin = Instant::now();
        let spread = Spread::new(origin, 1_000_000_000);
        let mut slots = vec![0; 100];
        for number in 0..1000 {
            let now = origin + opened_after(number);
            let first = spread.first(now);
            assert!(first >= now && first < now + SECOND, "stream {number}: {:?}", first - now);
            slots[((first - origin).as_millis() % 1000 / 10) as usize] += 1;
        }
        slots
    }

    #[test]
    fn streams_are_spread_evenly_at_any_rate() {
        // At the last rate, phases that are delays from the start would all coincide.
        for pace_ns in [0, 1, 1000, 1_000_000, 10_000_000, 123_456_789, 381_966_011, 1_000_000_000] {
            let slots = slots(|number| SECOND + Duration::from_nanos(pace_ns) * number);
            assert!(slots.iter().all(|count| (8..=12).contains(count)), "{pace_ns} ns: {slots:?}");
        }
    }
}
