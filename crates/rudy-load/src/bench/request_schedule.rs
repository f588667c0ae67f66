//! Decides which request is next, and when it is due.

use std::time::{Duration, Instant};

use rudy_stats::schedule::Due;

use super::plan::Until;

/// The requests of one thread, in order.
#[derive(Debug)]
pub(super) struct RequestSchedule {
    /// `None` sends whenever a connection is free.
    schedule: Option<Due>,
    /// The position in the schedule.
    next: Option<Duration>,
    start: Instant,
    end: Option<Instant>,
    /// Requests left to send, if the run is limited by requests.
    left: Option<u64>,
    /// Requests handed out so far.
    taken: u64,
    /// The time at which the last of them was handed out.
    last: Instant,
}

/// The state of the next request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// A request that was due at this time.
    Due(Instant),
    /// The next request is due at this time.
    Wait(Instant),
    /// No more requests.
    Over,
}

impl RequestSchedule {
    /// Creates a schedule that starts at `start`. `requests` is the thread's share, if the run is limited by
    /// requests.
    pub(super) fn new(
        schedule: Option<Due>,
        start: Instant,
        warm_up: Duration,
        until: Until,
        requests: u64,
    ) -> Self {
        let (end, left) = match until {
            Until::Time(time) => (start.checked_add(warm_up + time), None),
            Until::Requests(_) => (None, Some(requests)),
        };
        let mut schedule = Self { schedule, next: None, start, end, left, taken: 0, last: start };
        schedule.next = schedule.schedule.as_mut().and_then(Iterator::next);
        schedule
    }

    /// The next request, if it is due at this time. [`Self::take`] removes it. What was due before the end is
    /// still due after it: leaving it out would omit the requests that a stalled server delayed.
    pub(super) fn peek(&self, now: Instant) -> Next {
        if self.left == Some(0) {
            return Next::Over;
        }
        let due = match (&self.schedule, self.next) {
            (None, _) if now < self.start => self.start,
            (None, _) => now,
            (Some(_), Some(next)) => self.start + next,
            (Some(_), None) => return Next::Over,
        };
        if self.end.is_some_and(|end| due >= end) {
            Next::Over
        } else if due > now {
            Next::Wait(due)
        } else {
            Next::Due(due)
        }
    }

    /// Removes the next request and returns its number.
    pub(super) fn take(&mut self, now: Instant) -> u64 {
        self.last = now;
        self.next = self.schedule.as_mut().and_then(Iterator::next);
        self.left = self.left.map(|left| left.saturating_sub(1));
        self.taken += 1;
        self.taken - 1
    }

    /// Whether the time for requests that become due is over.
    pub(super) fn has_ended(&self, now: Instant) -> bool {
        self.end.is_some_and(|end| now >= end)
    }

    /// The time span in which counted requests were sent: those due from `since` on. The run ended at `now`. If
    /// `is_cut`, it ended early; otherwise it lasted for its whole time, even if nothing was due near the end,
    /// and until the last request was sent.
    pub(super) fn duration(&self, since: Instant, now: Instant, is_cut: bool) -> Duration {
        let end = self.end.filter(|end| !is_cut || *end < now);
        end.map_or(now, |end| end.max(self.last)).saturating_duration_since(since)
    }

    /// The due times of the requests that were due and not sent. For a run that was cut at `now`, only those due
    /// before then.
    pub(super) fn not_sent(&mut self, now: Instant, is_cut: bool) -> impl Iterator<Item = Instant> {
        let end = if is_cut { Some(self.end.map_or(now, |end| end.min(now))) } else { self.end };
        std::iter::from_fn(move || {
            let due = self.start + self.next?;
            if self.left == Some(0) || end.is_some_and(|end| due >= end) {
                return None;
            }
            self.take(self.last);
            Some(due)
        })
    }
}

#[cfg(test)]
mod tests {
    use rudy_stats::schedule::{Arrivals, Profile, Schedule, Share};

    use super::*;

    /// A rate of 100 per second.
    fn schedule(start: Instant, until: Until) -> RequestSchedule {
        let requests = if let Until::Requests(requests) = until { requests } else { 0 };
        let schedule = Schedule::new(Profile::Constant(100.0), Arrivals::Uniform, Share::WHOLE).unwrap();
        RequestSchedule::new(Some(schedule.due()), start, Duration::ZERO, until, requests)
    }

    #[test]
    fn what_was_not_due_yet_when_a_run_was_cut_is_not_missing() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        for until in [Until::Time(Duration::from_secs(10)), Until::Requests(1000)] {
            let mut schedule = schedule(start, until);
            for _ in 0..20 {
                schedule.take(start);
            }
            assert_eq!(schedule.not_sent(at(500), true).count(), 30, "{until:?}");
        }
        let mut whole = schedule(start, Until::Time(Duration::from_secs(10)));
        assert_eq!(whole.not_sent(at(10_500), false).count(), 1000);
        let mut counted = schedule(start, Until::Requests(15));
        assert_eq!(counted.not_sent(at(500), true).count(), 15);
    }
}
