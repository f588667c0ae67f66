//! The generic cell rate algorithm (GCRA, ITU-T I.371).
//!
//! The state of a key is one number: the time at which its allowance is full again. Each request moves this time forward by one
//! interval. A request is over the limit if the time would be further in the future than the burst allows. Unlike a counter
//! per window, the algorithm allows no double burst at the border of two windows, and needs no timer.

use std::time::Duration;

/// The longest time for which a burst may be saved up. It keeps all sums far below the range of 64 bits.
const TOLERANCE_MAX_NS: u64 = u64::MAX / 8;

/// How many requests a key may make: a rate, and how many at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allowance {
    /// The time between two requests at the rate.
    interval_ns: u64,
    /// The time by which a request may be early: that of a burst without its first request.
    tolerance_ns: u64,
}

/// Whether a request is within the limit, and what is left of the allowance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decision {
    /// When the next request is allowed, from now. `None` if this request is.
    pub retry_after: Option<Duration>,
    /// How many more requests are allowed now.
    pub remaining: u32,
    /// When the allowance is full again, from now.
    pub full_after: Duration,
}

impl Decision {
    /// Whether the request is within the limit.
    #[must_use]
    pub fn is_allowed(&self) -> bool {
        self.retry_after.is_none()
    }
}

impl Allowance {
    /// Creates an allowance of `requests` per `period`, of which `burst` may come at once. Values below 1 count as 1.
    #[must_use]
    pub fn new(requests: u32, period: Duration, burst: u32) -> Self {
        let interval_ns = nanoseconds(period / requests.max(1)).max(1);
        let tolerance_ns = interval_ns.saturating_mul(u64::from(burst.max(1) - 1)).min(TOLERANCE_MAX_NS);
        Self { interval_ns, tolerance_ns }
    }

    /// Returns the allowance of several keys that share one.
    pub(crate) fn times(self, keys: u64) -> Self {
        let interval_ns = (self.interval_ns / keys).max(1);
        Self { interval_ns, tolerance_ns: self.tolerance_ns.saturating_add(self.interval_ns - interval_ns) }
    }

    /// Decides on a request at `now`. `full_at` is when the allowance is full, and afterwards when it would be full again with this
    /// request; a request over the limit does not change it. Both times are in nanoseconds since the start of the limiter.
    pub(crate) fn decide(self, full_at: &mut u64, now: u64) -> Decision {
        let used = full_at.saturating_sub(now);
        if used > self.tolerance_ns {
            let retry_after = Some(Duration::from_nanos(used - self.tolerance_ns));
            return Decision { retry_after, remaining: 0, full_after: Duration::from_nanos(used) };
        }
        let used = used + self.interval_ns;
        *full_at = now + used;
        Decision {
            retry_after: None,
            remaining: self.remaining(used),
            full_after: Duration::from_nanos(used),
        }
    }

    /// Returns what [`Self::decide`] would, without a request.
    pub(crate) fn preview(self, full_at: u64, now: u64) -> Decision {
        let used = full_at.saturating_sub(now);
        let retry_after = (used > self.tolerance_ns).then(|| Duration::from_nanos(used - self.tolerance_ns));
        Decision { retry_after, remaining: self.remaining(used), full_after: Duration::from_nanos(used) }
    }

    fn remaining(self, used: u64) -> u32 {
        let free = (self.tolerance_ns + self.interval_ns).saturating_sub(used);
        u32::try_from(free / self.interval_ns).unwrap_or(u32::MAX)
    }

    /// Takes back a request.
    pub(crate) fn give_back(self, full_at: u64) -> u64 {
        full_at.saturating_sub(self.interval_ns)
    }

    /// Whether a key whose allowance is full at `full_at` has used no more of it than one request, and is within its limit. It can
    /// then be forgotten for another key: it gains one request at most.
    pub(crate) fn may_forget(self, full_at: u64, now: u64) -> bool {
        full_at.saturating_sub(now) <= self.interval_ns.min(self.tolerance_ns)
    }
}

pub(crate) fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(TOLERANCE_MAX_NS).min(TOLERANCE_MAX_NS)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn a_burst_is_allowed_at_once_and_then_the_rate() {
        let allowance = Allowance::new(2, Duration::from_secs(1), 3);
        let mut full_at = 0;
        let now = 10 * SECOND;
        let remaining: Vec<_> = (0..3).map(|_| allowance.decide(&mut full_at, now).remaining).collect();
        assert_eq!(remaining, [2, 1, 0]);
        let over = allowance.decide(&mut full_at, now);
        assert_eq!((over.retry_after, over.remaining), (Some(Duration::from_millis(500)), 0));
        assert_eq!(over.full_after, Duration::from_millis(1500));
        assert!(!allowance.decide(&mut full_at, now + SECOND / 2 - 1).is_allowed());
        assert!(allowance.decide(&mut full_at, now + SECOND / 2).is_allowed());
        assert!(!allowance.decide(&mut full_at, now + SECOND / 2).is_allowed());
    }

    #[test]
    fn a_request_can_be_taken_back_and_previewed() {
        let allowance = Allowance::new(1, Duration::from_secs(1), 1);
        let mut full_at = 0;
        assert!(allowance.preview(full_at, SECOND).is_allowed());
        assert!(allowance.decide(&mut full_at, SECOND).is_allowed());
        assert_eq!(allowance.preview(full_at, SECOND).retry_after, Some(Duration::from_secs(1)));
        full_at = allowance.give_back(full_at);
        assert!(allowance.decide(&mut full_at, SECOND).is_allowed());
    }

    #[test]
    fn extreme_settings_do_not_overflow() {
        for (requests, period, burst) in [
            (0, Duration::ZERO, 0),
            (u32::MAX, Duration::from_nanos(1), u32::MAX),
            (1, Duration::MAX, u32::MAX),
            (1, Duration::from_hours(24), u32::MAX),
        ] {
            let allowance = Allowance::new(requests, period, burst);
            let mut full_at = 0;
            for now in [0, 1, SECOND, u64::MAX / 4] {
                allowance.decide(&mut full_at, now);
                allowance.times(16).decide(&mut full_at, now);
            }
        }
    }

    proptest! {
        /// The model: a bucket that holds the burst, and is filled at the rate.
        #[test]
        fn it_decides_as_a_token_bucket(
            requests in 1_u32..100,
            burst in 1_u32..20,
            waits in proptest::collection::vec(0_u64..2 * SECOND, 1..200),
        ) {
            // A period that the number of requests divides, so that the model is exact.
            let allowance = Allowance::new(requests, Duration::from_nanos(u64::from(requests) * 10_000_000), burst);
            let (interval, size) = (10_000_000, u64::from(burst) * 10_000_000);
            let (mut full_at, mut bucket, mut now) = (0, size, 0);
            for wait in waits {
                now += wait / u64::from(requests);
                bucket = size.min(bucket + wait / u64::from(requests));
                let decision = allowance.decide(&mut full_at, now);
                prop_assert_eq!(decision.is_allowed(), bucket >= interval);
                if bucket >= interval {
                    bucket -= interval;
                    prop_assert_eq!(u64::from(decision.remaining), bucket / interval);
                } else {
                    prop_assert_eq!(decision.retry_after, Some(Duration::from_nanos(interval - bucket)));
                }
                prop_assert_eq!(decision.full_after, Duration::from_nanos(size - bucket));
            }
        }
    }
}
