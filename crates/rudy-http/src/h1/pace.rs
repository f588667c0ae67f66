//! How long a peer that is slow may take.

use std::time::{Duration, Instant};

/// Whoever was faster than the minimum before may pause, but not as long as that would buy: 16 MiB sent in a second would
/// hold a connection for nine hours. So many times the grace is the most, 30 s with the default.
const PAUSE_GRACES: u32 = 3;

/// Measures one direction of an exchange against its minimum rate.
///
/// Only the time in which we wait for the peer counts: while a service is busy and takes nothing, its client is not slow.
#[derive(Debug, Clone, Default)]
pub struct Pace {
    bytes: u64,
    waited: Duration,
    /// Since when we wait, if we do.
    waiting: Option<Instant>,
    /// When bytes last moved while we waited.
    moved: Option<Instant>,
}

impl Pace {
    /// From here on we wait for the peer, if we did not yet.
    pub fn wait(&mut self, now: Instant) {
        if self.waiting.is_none() {
            self.waiting = Some(now);
            self.moved = Some(now);
        }
    }

    /// Whether we wait for the peer.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        self.waiting.is_some()
    }

    /// The peer moved bytes; we no longer wait.
    pub fn moved(&mut self, bytes: u64, now: Instant) {
        self.bytes += bytes;
        self.moved = Some(now);
        if let Some(since) = self.waiting.take() {
            self.waited += now.saturating_duration_since(since);
        }
    }

    /// The peer has taken bytes that counted as moved when the kernel had them; we go on waiting.
    pub fn progressed(&mut self, now: Instant) {
        self.moved(0, now);
        self.wait(now);
    }

    /// When the peer is too slow: it has had `grace` and a second for each `rate` bytes it has moved, or three times `grace`
    /// in one pause. `None` while we do not wait, or where there is no minimum.
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

    /// When a peer that moves nothing at all has stalled. `None` while we do not wait.
    #[must_use]
    pub fn stall_deadline(&self, stall: Duration) -> Option<Instant> {
        self.waiting?;
        self.moved?.checked_add(stall)
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
    fn nothing_is_due_while_nobody_waits() {
        let mut pace = Pace::default();
        assert_eq!((pace.rate_deadline(GRACE, RATE), pace.stall_deadline(GRACE)), (None, None));
        let now = start();
        pace.wait(now);
        pace.moved(1, now);
        assert_eq!((pace.rate_deadline(GRACE, RATE), pace.stall_deadline(GRACE)), (None, None));
    }

    #[test]
    fn bytes_buy_time_at_the_minimum_rate() {
        let (mut pace, now) = (Pace::default(), start());
        pace.wait(now);
        assert_eq!(pace.rate_deadline(GRACE, RATE), Some(now + seconds(10)));
        pace.moved(1000, now + seconds(4));
        pace.wait(now + seconds(4));
        assert_eq!(pace.rate_deadline(GRACE, RATE), Some(now + seconds(12)));
    }

    #[test]
    fn a_fast_start_buys_no_endless_pause() {
        let (mut pace, now) = (Pace::default(), start());
        pace.wait(now);
        pace.moved(16 << 20, now + seconds(1));
        pace.wait(now + seconds(1));
        assert_eq!(pace.rate_deadline(GRACE, RATE), Some(now + seconds(31)));
        pace.moved(1, now + seconds(30));
        pace.wait(now + seconds(30));
        assert_eq!(
            pace.rate_deadline(GRACE, RATE),
            Some(now + seconds(60)),
            "but as many pauses as it likes"
        );
    }

    #[test]
    fn time_in_which_the_service_takes_nothing_does_not_count() {
        let (mut pace, now) = (Pace::default(), start());
        pace.wait(now);
        pace.moved(0, now + seconds(4));
        // A minute later the service wants more.
        pace.wait(now + seconds(64));
        assert_eq!(pace.rate_deadline(GRACE, RATE), Some(now + seconds(70)));
        assert_eq!(pace.stall_deadline(GRACE), Some(now + seconds(74)));
    }

    #[test]
    fn progress_ends_a_pause_and_buys_no_time_a_second_time() {
        let (mut pace, now) = (Pace::default(), start());
        pace.moved(5000, now);
        pace.wait(now);
        pace.progressed(now + seconds(8));
        assert_eq!(pace.stall_deadline(GRACE), Some(now + seconds(18)));
        assert_eq!(pace.rate_deadline(GRACE, RATE), Some(now + seconds(20)));
    }

    #[test]
    fn to_wait_again_does_not_begin_anew() {
        let (mut pace, now) = (Pace::default(), start());
        pace.wait(now);
        pace.wait(now + seconds(9));
        assert_eq!(pace.rate_deadline(GRACE, RATE), Some(now + seconds(10)));
    }

    #[test]
    fn what_cannot_be_counted_is_no_deadline() {
        let (mut pace, now) = (Pace::default(), start());
        pace.wait(now);
        assert_eq!(pace.rate_deadline(GRACE, 0), None, "no minimum");
        assert_eq!(pace.rate_deadline(Duration::MAX, RATE), None, "time without end");
        assert_eq!(pace.stall_deadline(Duration::MAX), None);
    }
}
