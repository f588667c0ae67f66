//! Timeouts for slow peers.

use std::time::{Duration, Instant};

/// The longest pause, as a multiple of the grace period: 30 s by default. Without this limit, a client that sends 16 MiB in a
/// second could then pause for nine hours.
const PAUSE_GRACES: u32 = 3;

/// Measures the transfer rate of one direction of an exchange against its minimum.
///
/// Only the time spent waiting for the peer counts: while a service is busy and reads nothing, its client is not slow.
#[derive(Debug, Clone, Default)]
pub struct Pace {
    bytes: u64,
    waited: Duration,
    /// The start of the current wait.
    waiting: Option<Instant>,
    /// The time of the last progress, or the start of the first wait.
    progressed_at: Option<Instant>,
}

impl Pace {
    /// Starts waiting for the peer, unless a wait is in progress.
    pub fn start_waiting(&mut self, now: Instant) {
        if self.waiting.is_none() {
            self.waiting = Some(now);
            self.progressed_at = Some(now);
        }
    }

    /// Whether a wait for the peer is in progress.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        self.waiting.is_some()
    }

    /// Records transferred bytes and ends the wait.
    pub fn record_bytes(&mut self, bytes: u64, now: Instant) {
        self.bytes += bytes;
        self.progressed_at = Some(now);
        if let Some(since) = self.waiting.take() {
            self.waited += now.saturating_duration_since(since);
        }
    }

    /// Records bytes that the peer has read, although there is no room for more yet. Continues to wait.
    pub fn record_acknowledged(&mut self, bytes: u64, now: Instant) {
        self.record_bytes(bytes, now);
        self.start_waiting(now);
    }

    /// Returns when the peer becomes too slow: after `grace` plus one second for each `rate` transferred bytes, and at most
    /// three times `grace` in one pause. `None` without a wait or without a minimum rate.
    #[must_use]
    pub fn rate_deadline(&self, grace: Duration, rate: u32) -> Option<Instant> {
        let since = self.waiting?;
        if rate == 0 {
            return None;
        }
        let allowed = grace.saturating_add(Duration::from_secs(self.bytes / u64::from(rate)));
        let pause = allowed.saturating_sub(self.waited).min(grace.saturating_mul(PAUSE_GRACES));
        since.checked_add(pause)
    }

    /// Returns when a peer without any progress counts as stalled. `None` without a wait.
    #[must_use]
    pub fn stall_deadline(&self, stall: Duration) -> Option<Instant> {
        self.waiting?;
        self.progressed_at?.checked_add(stall)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRACE: Duration = Duration::from_secs(10);
    const RATE: u32 = 500;

    #[expect(
        clippy::disallowed_methods,
        reason = "an instant can only be had from the clock; it is never read again"
    )]
    fn start() -> Instant {
        Instant::now()
    }

    fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    #[test]
    fn without_a_wait_there_is_no_deadline() {
        let mut pace = Pace::default();
        assert_eq!((pace.rate_deadline(GRACE, RATE), pace.stall_deadline(GRACE)), (None, None));
        let now = start();
        pace.start_waiting(now);
        pace.record_bytes(1, now);
        assert_eq!((pace.rate_deadline(GRACE, RATE), pace.stall_deadline(GRACE)), (None, None));
    }

    #[test]
    fn bytes_extend_the_deadline_at_the_minimum_rate() {
        let (mut pace, now) = (Pace::default(), start());
        pace.start_waiting(now);
        assert_eq!(pace.rate_deadline(GRACE, RATE), Some(now + seconds(10)));
        pace.record_bytes(1000, now + seconds(4));
        pace.start_waiting(now + seconds(4));
        assert_eq!(pace.rate_deadline(GRACE, RATE), Some(now + seconds(12)));
    }

    #[test]
    fn a_fast_start_allows_no_endless_pause() {
        let (mut pace, now) = (Pace::default(), start());
        pace.start_waiting(now);
        pace.record_bytes(16 << 20, now + seconds(1));
        pace.start_waiting(now + seconds(1));
        assert_eq!(pace.rate_deadline(GRACE, RATE), Some(now + seconds(31)));
        pace.record_bytes(1, now + seconds(30));
        pace.start_waiting(now + seconds(30));
        assert_eq!(
            pace.rate_deadline(GRACE, RATE),
            Some(now + seconds(60)),
            "each pause is limited, their number is not"
        );
    }

    #[test]
    fn time_in_which_the_service_reads_nothing_does_not_count() {
        let (mut pace, now) = (Pace::default(), start());
        pace.start_waiting(now);
        pace.record_bytes(0, now + seconds(4));
        // A minute later the service wants more.
        pace.start_waiting(now + seconds(64));
        assert_eq!(pace.rate_deadline(GRACE, RATE), Some(now + seconds(70)));
        assert_eq!(pace.stall_deadline(GRACE), Some(now + seconds(74)));
    }

    #[test]
    fn acknowledged_bytes_end_a_pause_and_extend_the_deadline() {
        let (mut pace, now) = (Pace::default(), start());
        pace.record_bytes(5000, now);
        pace.start_waiting(now);
        pace.record_acknowledged(1500, now + seconds(8));
        assert_eq!(pace.stall_deadline(GRACE), Some(now + seconds(18)));
        assert_eq!(pace.rate_deadline(GRACE, RATE), Some(now + seconds(23)));
        // More than the deadline, but at the minimum rate: the client is dropped in the end.
        pace.record_acknowledged(1, now + seconds(23));
        assert_eq!(pace.rate_deadline(GRACE, RATE), Some(now + seconds(23)));
    }

    #[test]
    fn a_second_wait_continues_the_first() {
        let (mut pace, now) = (Pace::default(), start());
        pace.start_waiting(now);
        pace.start_waiting(now + seconds(9));
        assert_eq!(pace.rate_deadline(GRACE, RATE), Some(now + seconds(10)));
    }

    #[test]
    fn without_a_rate_or_with_an_endless_time_there_is_no_deadline() {
        let (mut pace, now) = (Pace::default(), start());
        pace.start_waiting(now);
        assert_eq!(pace.rate_deadline(GRACE, 0), None, "no minimum");
        assert_eq!(pace.rate_deadline(Duration::MAX, RATE), None, "an endless time");
        assert_eq!(pace.stall_deadline(Duration::MAX), None);
    }
}
