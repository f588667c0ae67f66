//! Which request is next, and when it is due.

use std::time::{Duration, Instant};

use rudy_stats::schedule::Due;

use super::plan::Until;

/// The requests of one thread, in their order.
#[derive(Debug)]
pub(super) struct Feed {
    /// `None` sends whenever a connection can.
    schedule: Option<Due>,
    /// Of the schedule: what comes next.
    next: Option<Duration>,
    start: Instant,
    end: Option<Instant>,
    /// Requests left to send, where they are counted.
    left: Option<u64>,
    /// Requests handed out.
    taken: u64,
}

/// What the feed says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// A request that was due then.
    Due(Instant),
    /// None before then.
    Wait(Instant),
    /// None any more.
    Over,
}

impl Feed {
    /// A feed that begins at `start`. `requests` are the thread's share where the run is counted in requests.
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

    /// The next request, if it is due at this time. It stays the next until [`Self::take`].
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

    /// Hands out the next request: its number.
    pub(super) fn take(&mut self) -> u64 {
        self.next = self.schedule.as_mut().and_then(Iterator::next);
        self.left = self.left.map(|left| left.saturating_sub(1));
        self.taken += 1;
        self.taken - 1
    }

    /// How long requests were begun that count: those due from `since` on. The run is over, at `now`; `is_cut` before its
    /// time. Otherwise it lasts to its end, where nothing may have been due for a while.
    pub(super) fn duration(&self, since: Instant, now: Instant, is_cut: bool) -> Duration {
        let end = self.end.filter(|end| !is_cut || *end < now);
        end.unwrap_or(now).saturating_duration_since(since)
    }

    /// Requests that were due from `since` on and before the end, and were not taken by then.
    pub(super) fn left_over(&mut self, since: Instant) -> u64 {
        let Some(end) = self.end else { return self.left.unwrap_or(0) };
        let mut left_over = 0;
        while let Some(next) = self.next
            && self.start + next < end
        {
            left_over += u64::from(self.start + next >= since);
            self.next = self.schedule.as_mut().and_then(Iterator::next);
        }
        left_over
    }
}
