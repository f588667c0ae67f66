//! Decides which request is next, and when it is due.

use std::time::{Duration, Instant};

use rudy_stats::schedule::Due;

use super::plan::Until;

/// The requests of one thread, in order.
#[derive(Debug)]
pub(super) struct Feed {
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

impl Feed {
    /// Creates a feed that starts at `start`. `requests` is the thread's share, if the run is limited by
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
        let mut feed = Self { schedule, next: None, start, end, left, taken: 0 };
        feed.next = feed.schedule.as_mut().and_then(Iterator::next);
        feed
    }

    /// The next request, if it is due at this time. [`Self::take`] removes it.
    pub(super) fn peek(&self, now: Instant) -> Next {
        if self.left == Some(0) || self.end.is_some_and(|end| now >= end) {
            return Next::Over;
        }
        let due = match (&self.schedule, self.next) {
            (None, _) => return if now < self.start { Next::Wait(self.start) } else { Next::Due(now) },
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
    pub(super) fn take(&mut self) -> u64 {
        self.next = self.schedule.as_mut().and_then(Iterator::next);
        self.left = self.left.map(|left| left.saturating_sub(1));
        self.taken += 1;
        self.taken - 1
    }

    /// The time span in which counted requests were started: those due from `since` on. The run ended at
    /// `now`. If `is_cut`, it ended early; otherwise it lasted for its whole time, even if nothing was due
    /// near the end.
    pub(super) fn duration(&self, since: Instant, now: Instant, is_cut: bool) -> Duration {
        let end = self.end.filter(|end| !is_cut || *end < now);
        end.unwrap_or(now).saturating_duration_since(since)
    }

    /// Requests that were due from `since` on and were not sent. For a run that was cut, only those due
    /// before its end.
    pub(super) fn left_over(&mut self, since: Instant, now: Instant, is_cut: bool) -> u64 {
        let end = if is_cut { Some(self.end.map_or(now, |end| end.min(now))) } else { self.end };
        let mut left_over = 0;
        while let Some(due) = self.next.map(|next| self.start + next)
            && self.left != Some(0)
            && end.is_none_or(|end| due < end)
        {
            left_over += u64::from(due >= since);
            self.take();
        }
        left_over
    }
}

#[cfg(test)]
mod tests {
    use rudy_stats::schedule::{Arrivals, Profile, Schedule, Share};

    use super::*;

    /// A rate of 100 per second.
    fn feed(start: Instant, until: Until) -> Feed {
        let requests = if let Until::Requests(requests) = until { requests } else { 0 };
        let schedule = Schedule::new(Profile::Constant(100.0), Arrivals::Uniform, Share::WHOLE).unwrap();
        Feed::new(Some(schedule.due()), start, Duration::ZERO, until, requests)
    }

    #[test]
    fn what_was_not_due_yet_when_a_run_was_cut_is_not_left_over() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        for until in [Until::Time(Duration::from_secs(10)), Until::Requests(1000)] {
            let mut feed = feed(start, until);
            for _ in 0..20 {
                feed.take();
            }
            assert_eq!(feed.left_over(start, at(500), true), 30, "{until:?}");
        }
        let mut whole = feed(start, Until::Time(Duration::from_secs(10)));
        assert_eq!(whole.left_over(start, at(10_500), false), 1000);
        let mut counted = feed(start, Until::Requests(15));
        assert_eq!(counted.left_over(start, at(500), true), 15);
    }
}
