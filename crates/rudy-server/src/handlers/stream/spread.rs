//! When a stream ticks first: spread over the interval, so that streams opened in one burst do not all tick at once.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Deals out phases of an interval, one to each stream.
///
/// The phases are the multiples of the golden ratio, of which any number that follow each other divide the interval almost
/// evenly. Random ones would clump: of 1,000 over 100 slots some would meet twenty. They are phases of one clock for all, and
/// not delays from each stream's start, so that they stay even whatever the pace at which streams are opened.
#[derive(Debug)]
pub(super) struct Spread {
    origin: Instant,
    interval_ns: u64,
    opened: AtomicU64,
}

/// The golden ratio's fraction of 2^64.
const GOLDEN_FRACTION: u64 = 0x9E37_79B9_7F4A_7C15;

impl Spread {
    pub(super) fn new(origin: Instant, interval_ns: u64) -> Self {
        Self { origin, interval_ns, opened: AtomicU64::new(0) }
    }

    /// The next stream's first tick: from `now` on, and less than an interval after it.
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

    /// How many of 1,000 streams tick in each hundredth of the interval.
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
    fn streams_are_spread_evenly_whether_opened_in_one_burst_or_at_any_pace() {
        // The last is the pace that would bring delays of the same kind all to one moment.
        for pace_ns in [0, 1, 1000, 1_000_000, 10_000_000, 123_456_789, 381_966_011, 1_000_000_000] {
            let slots = slots(|number| SECOND + Duration::from_nanos(pace_ns) * number);
            assert!(slots.iter().all(|count| (8..=12).contains(count)), "{pace_ns} ns: {slots:?}");
        }
    }
}
