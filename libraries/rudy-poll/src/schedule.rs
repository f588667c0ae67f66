//! When the next poll happens.

use std::time::Duration;

use rudy_request::BackOff;

/// The period of the budget.
const DAY: Duration = Duration::from_hours(24);

/// The longest pause after failures, unless the interval or the server asks for a longer one.
const PAUSE_MAX: Duration = Duration::from_hours(1);

/// The longest pause that the server can ask for. A value by mistake, such as a time in milliseconds, must not end the polls for years.
const RETRY_AFTER_MAX: Duration = Duration::from_hours(7 * 24);

/// The share of a pause by which it varies, so that many clients do not poll at the same time.
const JITTER: f64 = 0.1;

/// The result of a poll, as far as the schedule depends on it.
#[derive(Debug, Clone, Copy)]
pub(super) enum Event<'a> {
    /// A response, with the value of `Retry-After`.
    Response { status: u16, retry_after: Option<&'a [u8]> },
    /// No complete response.
    Failure,
}

/// The pauses between polls, and the budget of a day.
#[derive(Debug)]
pub(super) struct Schedule {
    interval: Duration,
    per_day: u32,
    back_off: BackOff,
    /// Polls in a row without a usable response.
    failures: u32,
    /// When the day of the budget began, since 1970. `None` before the first poll.
    day: Option<Duration>,
    /// Polls in this day.
    used: u32,
}

impl Schedule {
    pub(super) fn new(interval: Duration, per_day: u32) -> Self {
        Self { interval, per_day, back_off: BackOff::new(RETRY_AFTER_MAX), failures: 0, day: None, used: 0 }
    }

    /// Counts a poll that begins at `now`, since 1970. Returns how many are left in the budget of the day.
    pub(super) fn count(&mut self, now: Duration) -> u32 {
        // A clock that was set back does not extend the day.
        let is_today = self.day.and_then(|day| now.checked_sub(day)).is_some_and(|age| age < DAY);
        if !is_today {
            self.day = Some(now);
            self.used = 0;
        }
        self.used = self.used.saturating_add(1);
        self.per_day.saturating_sub(self.used)
    }

    /// Returns the pause after a poll. `random` is between 0 and 1.
    pub(super) fn pause(&mut self, event: Event<'_>, now: Duration, random: f64) -> Duration {
        let requested = match event {
            Event::Response { status, retry_after } => {
                self.back_off.delay_after(status, retry_after, now.as_secs())
            }
            Event::Failure => None,
        };
        let is_usable = matches!(event, Event::Response { status: 200..=399, .. });
        self.failures = if is_usable { 0 } else { self.failures.saturating_add(1) };
        let own = self.interval.saturating_mul(2_u32.saturating_pow(self.failures));
        let own = own.min(self.interval.max(PAUSE_MAX));
        // The jitter does not shorten a pause that the server asks for.
        let jittered = own.mul_f64(1.0 + JITTER * (random.clamp(0.0, 1.0) * 2.0 - 1.0));
        jittered.max(requested.unwrap_or_default()).max(self.until_budget(now))
    }

    /// The time until the budget allows a poll.
    fn until_budget(&self, now: Duration) -> Duration {
        match self.day {
            // A clock that was set back during the poll does not extend the wait.
            Some(day) if self.used >= self.per_day => (day + DAY).saturating_sub(now).min(DAY),
            _ => Duration::ZERO,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_mins(1);

    fn ok() -> Event<'static> {
        Event::Response { status: 200, retry_after: None }
    }

    #[test]
    fn failures_double_the_pause_up_to_an_hour() {
        let mut schedule = Schedule::new(10 * MINUTE, 1000);
        let pauses: Vec<_> =
            (0..4).map(|_| schedule.pause(Event::Failure, DAY, 0.5).as_secs() / 60).collect();
        assert_eq!(pauses, [20, 40, 60, 60]);
        assert_eq!(schedule.pause(ok(), DAY, 0.5), 10 * MINUTE);
        assert_eq!(schedule.pause(ok(), DAY, 0.0), 9 * MINUTE);
        assert_eq!(schedule.pause(ok(), DAY, 1.0), 11 * MINUTE);
    }

    #[test]
    fn a_pause_that_the_server_asks_for_is_not_shortened() {
        for (value, pause) in [
            ("1800", 30 * MINUTE),
            ("86400", DAY),
            // `now` is 1970-01-02 00:00.
            ("Sat, 03 Jan 1970 00:00:00 GMT", DAY),
            ("Saturday, 03-Jan-70 00:00:00 GMT", DAY),
            ("Sat Jan  3 00:00:00 1970", DAY),
            ("86400000", RETRY_AFTER_MAX),
            ("99999999999999999999999", RETRY_AFTER_MAX),
            ("Fri, 31 Dec 9999 23:59:59 GMT", RETRY_AFTER_MAX),
        ] {
            for status in [429, 503, 999] {
                let mut schedule = Schedule::new(MINUTE, 1000);
                let event = Event::Response { status, retry_after: Some(value.as_bytes()) };
                assert_eq!(schedule.pause(event, DAY, 0.0), pause, "{status}, {value}");
                assert_eq!(schedule.pause(ok(), DAY, 0.5), MINUTE, "{status}, {value}");
            }
        }
    }

    /// A service that always fails, one that never does, and one that alternates, each for a week.
    #[test]
    fn the_polls_of_a_day_stay_within_the_budget() {
        for pattern in [0b0, 0b1, 0b10] {
            let mut schedule = Schedule::new(MINUTE, 100);
            let (mut now, end) = (DAY, 8 * DAY);
            let mut times = Vec::new();
            while now < end {
                schedule.count(now);
                times.push(now);
                let event = if pattern >> (times.len() % 2) & 1 == 1 { Event::Failure } else { ok() };
                now += schedule.pause(event, now, 0.5);
            }
            assert!(times.len() <= 700, "{} polls", times.len());
            let densest = times
                .iter()
                .map(|from| times.iter().filter(|time| (*from..*from + DAY).contains(*time)).count());
            // A day of the budget need not begin at midnight, so a day of 24 hours can meet two of them.
            assert!(densest.max() <= Some(200));
        }
    }

    #[test]
    fn a_clock_that_is_set_back_does_not_stop_the_polls() {
        let mut schedule = Schedule::new(MINUTE, 1);
        assert_eq!(schedule.count(5 * DAY), 0);
        assert_eq!(schedule.pause(ok(), DAY, 0.5), DAY);
        assert_eq!(schedule.count(DAY), 0);
        assert!(schedule.pause(ok(), DAY, 0.5) <= DAY);
    }
}
