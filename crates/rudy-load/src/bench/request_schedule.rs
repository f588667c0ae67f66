//! The schedule of the requests of one thread: the next request and its due time.

use std::time::{Duration, Instant};

use rudy_stats::schedule::Due;

use super::plan::Until;

/// The schedule of the requests of one thread.
#[derive(Debug)]
pub(super) struct RequestSchedule {
    /// The due times; `None` in a closed loop, where a request is due when a connection is idle.
    schedule: Option<Due>,
    /// The due time of the next request, from the start.
    next: Option<Duration>,
    start: Instant,
    end: Option<Instant>,
    /// The number of requests to send, if the run is limited by requests.
    remaining: Option<u64>,
    /// The number of requests taken so far.
    taken: u64,
    /// The time at which the last request was taken.
    last_taken: Instant,
}

/// The next request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// The request was due at this time, and can be sent.
    Due(Instant),
    /// The request will be due at this time.
    Wait(Instant),
    /// There are no more requests.
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
        let (end, remaining) = match until {
            Until::Time(time) => (start.checked_add(warm_up + time), None),
            Until::Requests(_) => (None, Some(requests)),
        };
        let mut schedule = Self { schedule, next: None, start, end, remaining, taken: 0, last_taken: start };
        schedule.next = schedule.schedule.as_mut().and_then(Iterator::next);
        schedule
    }

    /// The next request and its state at this time. [`Self::take`] removes the request. A request that was due before
    /// the end is still due after it; otherwise, the requests that a stalled server delayed would be omitted.
    pub(super) fn peek(&self, now: Instant) -> Next {
        if self.remaining == Some(0) {
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

    /// Removes the next request and returns its number, from 0.
    pub(super) fn take(&mut self, now: Instant) -> u64 {
        self.last_taken = now;
        self.next = self.schedule.as_mut().and_then(Iterator::next);
        self.remaining = self.remaining.map(|remaining| remaining.saturating_sub(1));
        self.taken += 1;
        self.taken - 1
    }

    /// The end of a run that is limited by time.
    pub(super) fn end(&self) -> Option<Instant> {
        self.end
    }

    /// Whether the run has ended, so that no more requests become due.
    pub(super) fn has_ended(&self, now: Instant) -> bool {
        self.end.is_some_and(|end| now >= end)
    }

    /// The duration of the measurement, from `measurement_start` to the planned end, or to the last request if it was
    /// sent later. A run that was interrupted at `now`, before its end, lasted until then.
    pub(super) fn duration(
        &self,
        measurement_start: Instant,
        now: Instant,
        is_interrupted: bool,
    ) -> Duration {
        let end = self.end.filter(|end| !is_interrupted || *end < now);
        end.map_or(now, |end| end.max(self.last_taken)).saturating_duration_since(measurement_start)
    }

    /// The due times of the requests that were due and not sent. If the run was interrupted at `now`, only those that
    /// were due before.
    pub(super) fn not_sent(&mut self, now: Instant, is_interrupted: bool) -> impl Iterator<Item = Instant> {
        let end = if is_interrupted { Some(self.end.map_or(now, |end| end.min(now))) } else { self.end };
        std::iter::from_fn(move || {
            let due = self.start + self.next?;
            if self.remaining == Some(0) || end.is_some_and(|end| due >= end) {
                return None;
            }
            self.take(self.last_taken);
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
    fn requests_due_after_an_interrupt_are_not_counted_as_not_sent() {
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
