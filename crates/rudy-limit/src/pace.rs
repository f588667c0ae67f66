//! Bytes per second.

use std::time::{Duration, Instant};

/// How often bytes are sent, in a second. That is often enough for a steady stream.
const TICKS: u64 = 10;

/// The pace of a response: some bytes at once, and then a number per second. A client that did not read for a while gets no more
/// than the bytes of a tenth of a second at once.
#[derive(Debug)]
pub struct Pace {
    bytes_per_second: u64,
    /// The bytes that may be sent now, as of `counted`.
    available: u64,
    counted: Instant,
    /// When bytes were last used up, so that the next are sent together.
    waits_until: Option<Instant>,
}

impl Pace {
    /// Creates a pace of `bytes_per_second` (at least 1) after `at_once`.
    #[must_use]
    pub fn new(bytes_per_second: u64, at_once: u64, now: Instant) -> Self {
        let bytes_per_second = bytes_per_second.max(1);
        let available = at_once.saturating_add(per_tick(bytes_per_second));
        Self { bytes_per_second, available, counted: now, waits_until: None }
    }

    /// Returns how many bytes are sent without a wait, from the start.
    #[must_use]
    pub fn bytes_at_once(bytes_per_second: u64, at_once: u64) -> u64 {
        at_once.saturating_add(per_tick(bytes_per_second.max(1)))
    }

    /// Returns how many bytes may be sent at `now`, at least 1; otherwise when to ask again.
    pub fn available(&mut self, now: Instant) -> Result<u64, Instant> {
        self.count(now);
        match self.waits_until {
            Some(until) if now < until => Err(until),
            _ => {
                self.waits_until = None;
                Ok(self.available.max(1))
            }
        }
    }

    /// Subtracts sent bytes. More than [`Self::available`] delay the next ones.
    pub fn spend(&mut self, bytes: u64, now: Instant) {
        let over = bytes.saturating_sub(self.available);
        self.available = self.available.saturating_sub(bytes);
        if self.available == 0 {
            let bytes = over.saturating_add(per_tick(self.bytes_per_second));
            self.waits_until = Some(now + self.time_for(bytes));
            // The bytes of the wait are those of a tick, however late it ends.
            self.counted = now + self.time_for(over);
        }
    }

    fn count(&mut self, now: Instant) {
        let most = per_tick(self.bytes_per_second);
        let elapsed = now.saturating_duration_since(self.counted);
        if self.available >= most || elapsed.is_zero() {
            return;
        }
        let bytes = elapsed.as_nanos().saturating_mul(u128::from(self.bytes_per_second)) / 1_000_000_000;
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        if self.available.saturating_add(bytes) >= most {
            (self.available, self.counted) = (most, now);
        } else if bytes > 0 {
            // The rest of a byte is not lost.
            self.available += bytes;
            self.counted += self.time_for(bytes);
        }
    }

    /// Rounded up, so that the bytes are there after this time. Bounded by a day, so that no sum overflows.
    fn time_for(&self, bytes: u64) -> Duration {
        let nanoseconds = (u128::from(bytes) * 1_000_000_000).div_ceil(u128::from(self.bytes_per_second));
        Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX)).min(Duration::from_hours(24))
    }
}

fn per_tick(bytes_per_second: u64) -> u64 {
    (bytes_per_second / TICKS).max(1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(start: Instant, ms: u64) -> Instant {
        start + Duration::from_millis(ms)
    }

    #[test]
    fn bytes_are_sent_at_once_and_then_ten_times_a_second() {
        let start = Instant::now();
        let mut pace = Pace::new(1000, 500, start);
        assert_eq!(pace.available(start), Ok(600));
        pace.spend(400, start);
        assert_eq!(pace.available(start), Ok(200));
        pace.spend(200, start);
        assert_eq!(pace.available(start), Err(at(start, 100)));
        assert_eq!(pace.available(at(start, 99)), Err(at(start, 100)));
        assert_eq!(pace.available(at(start, 100)), Ok(100));
        pace.spend(100, at(start, 100));
        assert_eq!(pace.available(at(start, 100)), Err(at(start, 200)));
    }

    #[test]
    fn a_client_that_pauses_gets_no_more_than_a_tick_at_once() {
        let start = Instant::now();
        let mut pace = Pace::new(1000, 0, start);
        pace.spend(100, start);
        assert_eq!(pace.available(at(start, 60_000)), Ok(100));
        pace.spend(40, at(start, 60_000));
        assert_eq!(pace.available(at(start, 60_000)), Ok(60));
        assert_eq!(pace.available(at(start, 60_010)), Ok(70));
    }

    #[test]
    fn a_piece_that_is_too_large_delays_the_next_one() {
        let start = Instant::now();
        let mut pace = Pace::new(1000, 0, start);
        pace.spend(1100, start);
        assert_eq!(pace.available(start), Err(at(start, 1100)));
        assert_eq!(pace.available(at(start, 1100)), Ok(100));
    }

    #[test]
    fn extreme_settings_do_not_overflow() {
        let start = Instant::now();
        for (rate, at_once) in [(0, 0), (1, u64::MAX), (u64::MAX, u64::MAX), (u64::MAX, 0)] {
            let mut pace = Pace::new(rate, at_once, start);
            assert!(pace.available(start).is_ok());
            pace.spend(u64::MAX, start);
            pace.spend(u64::MAX, start);
            let _ = pace.available(at(start, 1));
        }
    }

    proptest! {
        #[test]
        fn the_rate_is_never_exceeded_and_nearly_reached(
            rate in 1_u64..100_000,
            at_once in 0_u64..10_000,
            pieces in proptest::collection::vec(1_u64..5000, 1..200),
        ) {
            let start = Instant::now();
            let mut pace = Pace::new(rate, at_once, start);
            let (mut now, mut sent) = (start, 0);
            for piece in pieces {
                let available = loop {
                    match pace.available(now) {
                        Ok(available) => break available,
                        Err(due) => {
                            prop_assert!(due > now);
                            now = due;
                        }
                    }
                };
                let piece = piece.min(available);
                pace.spend(piece, now);
                sent += piece;
                let elapsed = now.duration_since(start).as_nanos();
                let (of_time, sent) = (elapsed * u128::from(rate) / 1_000_000_000, u128::from(sent));
                let at_once = u128::from(Pace::bytes_at_once(rate, at_once));
                prop_assert!(sent <= at_once + of_time, "{sent} bytes, at most {at_once} and {of_time}");
                prop_assert!(of_time <= sent + 1, "{sent} bytes in the time for {of_time}");
            }
        }
    }
}
