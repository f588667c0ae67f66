//! How long a closing connection waits for its peer.

use std::io;
use std::time::{Duration, Instant};

use rudy_http::Pace;

use super::LingerLimits;

/// How often the kernel is asked during the linger timeout.
const CHECKS_PER_TIMEOUT: u32 = 5;
/// The limits of the time between two checks.
const CHECK_PERIOD_MIN: Duration = Duration::from_millis(1);
const CHECK_PERIOD_MAX: Duration = Duration::from_secs(1);

/// Waits until the peer has acknowledged everything, and then for the linger timeout.
///
/// A close in the first phase would lose what the kernel has not sent yet: the next byte of the peer causes a reset. In this phase, a
/// slow peer has the same limits as during a response.
pub(super) struct PeerWait {
    limits: LingerLimits,
    /// How fast the peer acknowledges. It waits during the first phase.
    pace: Pace,
    /// How much the peer had not acknowledged at the last check; `None` before the first one.
    unacknowledged: Option<u64>,
    /// The last time at which the peer may have had something to acknowledge. The linger timeout begins here.
    pending_at: Instant,
}

impl PeerWait {
    pub(super) fn new(limits: LingerLimits, now: Instant) -> Self {
        let mut pace = Pace::default();
        pace.start_waiting(now);
        Self { limits, pace, unacknowledged: None, pending_at: now }
    }

    /// Returns when [`Self::is_over`] must be called again; `None` means never.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let period = (self.limits.time / CHECKS_PER_TIMEOUT).clamp(CHECK_PERIOD_MIN, CHECK_PERIOD_MAX);
        let check = self.pace.is_waiting().then(|| self.pending_at + period);
        check.into_iter().chain(self.end()).min()
    }

    /// Whether the wait is over. Calls `unacknowledged`, which asks the kernel, only at a deadline of the first phase.
    pub(super) fn is_over(&mut self, now: Instant, unacknowledged: impl FnOnce() -> io::Result<u64>) -> bool {
        let is_past = |time: Option<Instant>| time.is_some_and(|time| time <= now);
        if !is_past(self.deadline()) {
            return false;
        }
        if self.pace.is_waiting() {
            // If the kernel has no answer, only the linger timeout applies.
            self.check(unacknowledged().unwrap_or(0), now);
        }
        is_past(self.end())
    }

    fn check(&mut self, remaining: u64, now: Instant) {
        let before = self.unacknowledged.replace(remaining);
        let acknowledged = before.map_or(0, |before| before.saturating_sub(remaining));
        if remaining == 0 {
            self.pace.record_bytes(acknowledged, now);
            return;
        }
        // The first check has nothing to compare with, and counts as progress.
        if acknowledged > 0 || before.is_none() {
            self.pace.record_acknowledged(acknowledged, now);
        }
        self.pending_at = now;
    }

    /// Returns when the wait ends if the peer does nothing; `None` means never.
    fn end(&self) -> Option<Instant> {
        let LingerLimits { time, send_stall_timeout, send_rate_min, rate_grace, .. } = self.limits;
        if !self.pace.is_waiting() {
            return self.pending_at.checked_add(time);
        }
        let rate = self.pace.rate_deadline(rate_grace, send_rate_min);
        rate.into_iter().chain(self.pace.stall_deadline(send_stall_timeout)).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: LingerLimits = LingerLimits {
        time: Duration::from_secs(5),
        bytes: u64::MAX,
        send_stall_timeout: Duration::from_secs(30),
        send_rate_min: 500,
        rate_grace: Duration::from_secs(10),
    };

    /// Waits for a peer that has this much to acknowledge after a number of seconds. Returns the seconds until the end, and the
    /// number of checks.
    fn wait(remaining: impl Fn(u64) -> u64) -> (u64, usize) {
        let start = Instant::now();
        let (mut wait, mut checks, mut now) = (PeerWait::new(LIMITS, start), 0, start);
        let unacknowledged = |checks: &mut usize, now: Instant| {
            *checks += 1;
            Ok(remaining((now - start).as_secs()))
        };
        while !wait.is_over(now, || unacknowledged(&mut checks, now)) {
            now = wait.deadline().unwrap();
        }
        ((now - start).as_secs(), checks)
    }

    #[test]
    fn a_peer_that_has_everything_has_the_linger_timeout() {
        assert_eq!(wait(|_| 0), (5, 1));
    }

    #[test]
    fn the_linger_timeout_begins_when_a_slow_peer_has_acknowledged_everything() {
        assert_eq!(wait(|seconds| 60_000_u64.saturating_sub(1000 * seconds)), (59 + 5, 60));
    }

    #[test]
    fn a_peer_that_stalls_or_is_too_slow_is_not_waited_for() {
        let fast_until_20 = |seconds: u64| 101_000 - 5000 * seconds.min(20);
        assert_eq!(wait(fast_until_20), (20 + 30, 50));
        assert_eq!(wait(|_| 1), (10, 10));
        assert_eq!(wait(|seconds| 1000 - seconds), (10, 10));
    }

    #[test]
    fn an_endless_linger_timeout_has_no_deadline() {
        let now = Instant::now();
        let mut wait = PeerWait::new(LingerLimits { time: Duration::MAX, ..LIMITS }, now);
        let checked_at = wait.deadline().unwrap();
        assert!(!wait.is_over(checked_at, || Ok(0)));
        assert_eq!(wait.deadline(), None);
    }
}
