//! Whether a member gets requests: a circuit breaker, without locks or a clock.
//!
//! Consecutive failures eject the member (the circuit opens). After a while, a single request is sent to it as a trial (the
//! circuit is half-open): its success ends the ejection, and its failure begins one that lasts twice as long. A member that
//! returns begins with a small share of the requests.

use std::time::{Duration, Instant};

/// When members are ejected, and how they return.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CircuitOptions {
    /// Number of consecutive failures that eject a member.
    pub failures: u32,
    /// Duration of the first ejection. Each further one without a success between lasts twice as long.
    pub ejection: Duration,
    /// Maximum duration of an ejection.
    pub ejection_max: Duration,
    /// Time in which the share of a member that returns grows from a tenth to its weight.
    pub slow_start: Duration,
    /// How many times the median latency of the other members ejects a member; `None` if its latency does not matter.
    pub latency_ratio: Option<u32>,
}

/// The first failure ejects a member for a second.
impl Default for CircuitOptions {
    fn default() -> Self {
        let second = Duration::from_secs(1);
        Self {
            failures: 1,
            ejection: second,
            ejection_max: second,
            slow_start: Duration::ZERO,
            latency_ratio: None,
        }
    }
}

/// The circuit of a member.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Circuit {
    /// Number of failures since the last success.
    failures: u32,
    /// Number of ejections since the last success.
    ejections: u32,
    ejected_until: Option<Instant>,
    /// Until when no other trial begins.
    trial_until: Option<Instant>,
    /// When the member returned, until its slow start is over.
    returned_at: Option<Instant>,
    /// Whether the caller has found that the member does not work.
    is_unhealthy: bool,
}

/// Whether a member gets requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Availability {
    /// It gets requests.
    Up,
    /// It gets none for this time, because requests have failed. With no time left, it gets one as a trial.
    Ejected(Duration),
    /// It gets none: see [`Pool::set_health`](crate::Pool::set_health).
    Unhealthy,
    /// It gets none: see [`Pool::retire`](crate::Pool::retire).
    Retired,
}

/// A share in thousandths.
pub(crate) const WHOLE: u64 = 1000;

/// The share at the begin of a slow start.
const FIRST_SHARE: u64 = 100;

impl Circuit {
    /// Whether nothing distinguishes the member from one that never failed.
    pub(crate) fn is_closed(&self) -> bool {
        *self == Self::default()
    }

    /// Whether the member is ejected or on trial.
    pub(crate) fn is_ejected(&self) -> bool {
        self.ejections > 0
    }

    /// Whether the member gets requests, or one as a trial.
    pub(crate) fn is_up(&self, now: Instant) -> bool {
        let is_over = |until: Option<Instant>| until.is_none_or(|until| until <= now);
        !self.is_unhealthy && is_over(self.ejected_until) && is_over(self.trial_until)
    }

    /// Returns whether the member gets requests, and if not, why.
    pub(crate) fn availability(&self, now: Instant) -> Availability {
        let left = self.ejected_until.max(self.trial_until).map(|until| until.saturating_duration_since(now));
        match left {
            _ if self.is_unhealthy => Availability::Unhealthy,
            Some(left) if self.is_ejected() => Availability::Ejected(left),
            _ => Availability::Up,
        }
    }

    /// Begins a trial, unless another one has begun. A trial without a result ends after the time of an ejection.
    pub(crate) fn begin_trial(&mut self, now: Instant, options: &CircuitOptions) -> bool {
        let begins = self.is_up(now);
        if begins && self.is_ejected() {
            self.trial_until = now.checked_add(ejection(self.ejections, options));
        }
        begins
    }

    /// Records a failure. Returns whether it begins an ejection and the member was up before. Failures during an ejection
    /// do not count: they are from earlier requests, or from those that went to all members because all were ejected.
    pub(crate) fn fail(&mut self, now: Instant, options: &CircuitOptions) -> bool {
        self.failures = self.failures.saturating_add(1);
        let is_running = self.ejected_until.is_some_and(|until| now < until);
        if is_running || !self.is_ejected() && self.failures < options.failures {
            return false;
        }
        self.eject(now, options)
    }

    /// Begins an ejection. Returns whether the member was up before.
    pub(crate) fn eject(&mut self, now: Instant, options: &CircuitOptions) -> bool {
        self.ejections = self.ejections.saturating_add(1);
        self.ejected_until = now.checked_add(ejection(self.ejections, options));
        (self.trial_until, self.returned_at) = (None, None);
        self.ejections == 1
    }

    /// Records a success. Returns whether it ends an ejection, which only requests that began during the ejection do
    /// (`is_trial`).
    pub(crate) fn succeed(&mut self, is_trial: bool, now: Instant, options: &CircuitOptions) -> bool {
        let ends = self.is_ejected() && is_trial;
        if ends {
            *self = Self { is_unhealthy: self.is_unhealthy, ..Self::default() };
            self.start_slowly(now, options);
        } else if !self.is_ejected() {
            self.failures = 0;
        }
        ends
    }

    /// Records whether the member is healthy. Returns whether that is new.
    pub(crate) fn set_healthy(&mut self, is_healthy: bool, now: Instant, options: &CircuitOptions) -> bool {
        let changes = self.is_unhealthy == is_healthy;
        self.is_unhealthy = !is_healthy;
        if changes && is_healthy {
            self.start_slowly(now, options);
        }
        changes
    }

    /// Begins the slow start.
    pub(crate) fn start_slowly(&mut self, now: Instant, options: &CircuitOptions) {
        self.returned_at = (!options.slow_start.is_zero()).then_some(now);
    }

    /// Returns the share of its weight that the member gets, in thousandths. Ends a slow start that is over.
    pub(crate) fn share(&mut self, now: Instant, options: &CircuitOptions) -> u64 {
        let Some(returned_at) = self.returned_at else { return WHOLE };
        let elapsed = now.saturating_duration_since(returned_at);
        if elapsed >= options.slow_start {
            self.returned_at = None;
            return WHOLE;
        }
        let share = elapsed.as_nanos() * u128::from(WHOLE) / options.slow_start.as_nanos().max(1);
        u64::try_from(share).unwrap_or(WHOLE).max(FIRST_SHARE)
    }
}

/// Returns the duration of the ejection with this number, from 1.
fn ejection(number: u32, options: &CircuitOptions) -> Duration {
    let times = 2_u32.saturating_pow(number.saturating_sub(1));
    options.ejection.saturating_mul(times).min(options.ejection_max)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPTIONS: CircuitOptions = CircuitOptions {
        failures: 3,
        ejection: Duration::from_secs(1),
        ejection_max: Duration::from_secs(5),
        slow_start: Duration::from_secs(10),
        latency_ratio: None,
    };

    fn seconds(start: Instant, seconds: f64) -> Instant {
        start + Duration::from_secs_f64(seconds)
    }

    #[test]
    fn consecutive_failures_eject_a_member() {
        let (mut circuit, start) = (Circuit::default(), Instant::now());
        assert!(!circuit.fail(start, &OPTIONS) && !circuit.fail(start, &OPTIONS) && circuit.is_up(start));
        assert!(!circuit.succeed(false, start, &OPTIONS) && circuit.is_closed());
        assert!(!circuit.fail(start, &OPTIONS) && !circuit.fail(start, &OPTIONS));
        assert!(circuit.fail(start, &OPTIONS) && !circuit.is_up(start));
        assert!(!circuit.is_up(seconds(start, 0.999)) && circuit.is_up(seconds(start, 1.0)));
        let left = [0.0, 2.0].map(|after| circuit.availability(seconds(start, after)));
        assert_eq!(left, [1, 0].map(|left| Availability::Ejected(Duration::from_secs(left))));
    }

    #[test]
    fn a_single_trial_decides_and_each_ejection_lasts_longer() {
        let (mut circuit, start) = (Circuit::default(), Instant::now());
        for _ in 0..3 {
            circuit.fail(start, &OPTIONS);
        }
        let mut at = start;
        for length in [1.0, 2.0, 4.0, 5.0, 5.0] {
            // Failures and successes of requests from before the ejection count for nothing.
            assert!(!circuit.fail(at, &OPTIONS) && !circuit.succeed(false, at, &OPTIONS));
            assert!(!circuit.is_up(seconds(at, length - 0.001)));
            assert!(!circuit.begin_trial(seconds(at, length - 0.001), &OPTIONS));
            at = seconds(at, length);
            assert!(circuit.is_up(at) && circuit.begin_trial(at, &OPTIONS));
            assert!(!circuit.is_up(at) && !circuit.begin_trial(at, &OPTIONS), "one trial at a time");
            assert!(!circuit.fail(at, &OPTIONS), "the member was ejected already");
        }
        let at = seconds(at, 5.0);
        assert!(circuit.begin_trial(at, &OPTIONS) && !circuit.succeed(false, at, &OPTIONS));
        assert!(circuit.succeed(true, at, &OPTIONS) && circuit.is_up(at) && !circuit.is_ejected());
    }

    #[test]
    fn a_trial_without_a_result_is_followed_by_another() {
        let (mut circuit, start) = (Circuit::default(), Instant::now());
        for _ in 0..3 {
            circuit.fail(start, &OPTIONS);
        }
        assert!(circuit.begin_trial(seconds(start, 1.0), &OPTIONS));
        assert!(!circuit.begin_trial(seconds(start, 1.999), &OPTIONS));
        assert!(circuit.begin_trial(seconds(start, 2.0), &OPTIONS));
    }

    #[test]
    fn an_unhealthy_member_is_not_up_and_no_request_decides() {
        let (mut circuit, start) = (Circuit::default(), Instant::now());
        assert!(circuit.set_healthy(false, start, &OPTIONS) && !circuit.set_healthy(false, start, &OPTIONS));
        assert!(!circuit.is_up(start) && !circuit.begin_trial(start, &OPTIONS));
        assert_eq!(circuit.availability(start), Availability::Unhealthy);
        (0..3).for_each(|_| {
            circuit.fail(start, &OPTIONS);
        });
        assert!(circuit.succeed(true, start, &OPTIONS) && !circuit.is_up(start), "the ejection is over");
        assert!(circuit.set_healthy(true, start, &OPTIONS) && circuit.is_up(start));
        assert_eq!(circuit.share(start, &OPTIONS), 100);
    }

    #[test]
    fn a_member_that_returns_starts_slowly() {
        let (mut circuit, start) = (Circuit::default(), Instant::now());
        assert_eq!(circuit.share(start, &OPTIONS), WHOLE);
        circuit.start_slowly(start, &OPTIONS);
        let shares = [0.0, 0.5, 5.0, 9.99].map(|after| circuit.share(seconds(start, after), &OPTIONS));
        assert_eq!(shares, [100, 100, 500, 999]);
        assert!(!circuit.is_closed());
        assert_eq!(circuit.share(seconds(start, 10.0), &OPTIONS), WHOLE);
        assert!(circuit.is_closed());
        circuit.start_slowly(start, &CircuitOptions::default());
        assert!(circuit.is_closed(), "there is no slow start by default");
    }
}
