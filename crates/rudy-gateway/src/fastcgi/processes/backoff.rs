//! The pause before a failing process is started again.

use std::time::{Duration, Instant};

/// A process that ran this long was healthy: it is replaced at once. Most failures happen during the start.
const HEALTHY_AFTER: Duration = Duration::from_secs(5);
/// The first pause: too short to be noticed, but long enough for a file that is being replaced.
const PAUSE_FIRST: Duration = Duration::from_millis(100);
/// The longest pause: after a fix, the app should start soon.
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// The pause between starts, doubled with every failure in a row.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    /// Failures in a row.
    failures: u32,
    /// The end of the pause.
    until: Option<Instant>,
}

impl Backoff {
    /// Counts a failure. Returns when to try again.
    pub(super) fn fail(&mut self, now: Instant) -> Instant {
        match self.until {
            // Failures during a pause count as one.
            Some(until) if now < until => until,
            _ => {
                let until = now + PAUSE_FIRST.saturating_mul(1 << self.failures.min(16)).min(PAUSE_MAX);
                self.failures = self.failures.saturating_add(1);
                self.until = Some(until);
                until
            }
        }
    }

    /// Counts the end of a process that `ran` this long. Returns when to try again if it was a failure.
    pub(super) fn ended(&mut self, ran: Duration, is_clean: bool, now: Instant) -> Option<Instant> {
        if ran >= HEALTHY_AFTER {
            self.failures = 0;
        }
        (ran < HEALTHY_AFTER && !is_clean).then(|| self.fail(now))
    }

    /// Returns whether the pause is over.
    pub(super) fn allows(&self, now: Instant) -> bool {
        self.until.is_none_or(|until| now >= until)
    }

    /// Returns the end of the last pause.
    pub(super) fn until(&self) -> Option<Instant> {
        self.until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn the_pause_doubles_up_to_its_limit() {
        let mut backoff = Backoff::default();
        let mut now = Instant::now();
        for pause_ms in [100, 200, 400, 800, 1600, 3200, 6400, 12_800, 25_600, 30_000, 30_000] {
            let until = backoff.ended(MS, false, now);
            assert_eq!(until, Some(now + pause_ms * MS));
            now += pause_ms * MS;
            assert!(backoff.allows(now) && !backoff.allows(now.checked_sub(MS).unwrap()), "{pause_ms}");
        }
    }

    #[test]
    fn a_process_that_ran_long_or_exited_cleanly_is_replaced_at_once() {
        let mut backoff = Backoff::default();
        let start = Instant::now();
        assert_eq!(backoff.ended(HEALTHY_AFTER, false, start), None);
        assert_eq!(backoff.ended(MS, true, start), None);
        assert!(backoff.allows(start));
    }

    #[test]
    fn a_process_that_ran_long_resets_the_pause() {
        let mut backoff = Backoff::default();
        let start = Instant::now();
        backoff.fail(start);
        backoff.fail(start + 100 * MS);
        let later = start + HEALTHY_AFTER;
        assert_eq!(backoff.ended(HEALTHY_AFTER, false, later), None);
        assert_eq!(backoff.fail(later), later + PAUSE_FIRST);
    }

    #[test]
    fn simultaneous_failures_count_as_one() {
        let mut backoff = Backoff::default();
        let start = Instant::now();
        let until = [0, 1, 99].map(|ms| backoff.ended(MS, false, start + ms * MS));
        assert_eq!(until, [Some(start + PAUSE_FIRST); 3]);
    }
}
