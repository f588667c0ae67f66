//! The due time of the k-th request of a plan, as a formula.
//!
//! An open loop sends on schedule, not after a response (Schroeder, Wierman, Harchol-Balter, "Open Versus
//! Closed: A Cautionary Tale", NSDI 2006), and latency counts from the time at which a request was due.
//! Otherwise a stalled server receives fewer requests, and its worst moments are omitted (Gil Tene's
//! "coordinated omission"). The formula computes each time from the request's number, so a late send delays
//! no later one, and rounding errors do not accumulate.

mod arrivals;
#[cfg(test)]
mod tests;

use std::time::Duration;

use rudy_units::RATE_MAX;

pub use self::arrivals::Due;
use self::arrivals::{Gap, Positions, RandomPositions};

/// The planned rate over time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Profile {
    /// A constant rate, per second.
    Constant(f64),
    /// A linear ramp over a time; afterwards the final rate.
    Ramp {
        /// Requests per second at the start; may be 0.
        from: f64,
        /// Requests per second after `over`.
        to: f64,
        /// The duration of the ramp.
        over: Duration,
    },
}

/// The distribution of requests around the rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrivals {
    /// Equal gaps: request k of a constant rate R is due at k/R.
    Uniform,
    /// Exponential gaps, like requests of independent users, drawn from `seed`. The same seed and share give
    /// the same times.
    Poisson {
        /// The seed.
        seed: u64,
    },
    /// Gaps that vary by up to a tenth, like `http_load -jitter`, so that the rate does not resonate with
    /// periodic work of the server. Drawn from `seed`.
    Jitter {
        /// The seed.
        seed: u64,
    },
}

/// The part of a plan that one thread of one machine runs: every `of`-th request, starting with `index`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    index: u64,
    of: u64,
}

impl Share {
    /// The whole plan.
    pub const WHOLE: Self = Self { index: 0, of: 1 };

    /// Share `index` of `of`, counted from 0; `None` if `index` is too large.
    #[must_use]
    pub fn new(index: u32, of: u32) -> Option<Self> {
        (index < of).then(|| Self { index: index.into(), of: of.into() })
    }

    /// The share `inner` of this one, such as a thread's share of a machine's share. `None` for 2³² shares or
    /// more.
    #[must_use]
    pub fn split(self, inner: Self) -> Option<Self> {
        let of = self.of * inner.of;
        (of < 1 << 32).then(|| Self { index: inner.index * self.of + self.index, of })
    }

    /// The number in the whole plan of this share's k-th request.
    fn plan_index(self, k: u64) -> u64 {
        k.saturating_mul(self.of).saturating_add(self.index)
    }

    /// The number of requests of this share among the first `whole` of the plan.
    fn count(self, whole: u64) -> u64 {
        whole.saturating_sub(self.index).div_ceil(self.of)
    }
}

/// A plan: a rate over time, the distribution of requests around it, and the share to run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Schedule {
    profile: Profile,
    arrivals: Arrivals,
    share: Share,
}

impl Schedule {
    /// A valid plan, or an error.
    pub fn new(profile: Profile, arrivals: Arrivals, share: Share) -> Result<Self, ScheduleError> {
        let (from, to) = match profile {
            Profile::Constant(rate) => (rate, rate),
            Profile::Ramp { over, .. } if over.is_zero() => return Err(ScheduleError::ZeroDuration),
            Profile::Ramp { from, to, .. } => (from, to),
        };
        if !((0.0..=RATE_MAX).contains(&from) && to > 0.0 && to <= RATE_MAX) {
            return Err(ScheduleError::Rate { from, to });
        }
        Ok(Self { profile, arrivals, share })
    }

    /// The due time of this share's k-th request with equal gaps, from the start of the plan; k counts from 0.
    ///
    /// Exact to a nanosecond for plans of less than 100 days: the formula uses an `f64`, whose 53 bits hold
    /// 104 days in nanoseconds. For a Poisson plan it is the mean; [`due`](Self::due) yields the actual
    /// times.
    #[must_use]
    pub fn due_at(&self, k: u64) -> Duration {
        self.profile.time_of(float(self.share.plan_index(k)))
    }

    /// The due times of this share's requests, from the start of the plan, ordered and infinite.
    #[must_use]
    pub fn due(&self) -> Due {
        let positions = match self.arrivals {
            Arrivals::Uniform => Positions::Count(0),
            Arrivals::Poisson { seed } => {
                Positions::RandomPositions(RandomPositions::new(Gap::Exponential, seed, self.share))
            }
            Arrivals::Jitter { seed } => {
                Positions::RandomPositions(RandomPositions::new(Gap::Jittered, seed, self.share))
            }
        };
        Due { schedule: *self, positions }
    }

    /// The number of requests of this share that are due before `total`; for a Poisson plan the mean, rounded.
    #[must_use]
    pub fn planned(&self, total: Duration) -> u64 {
        let expected = self.profile.expected(total);
        match self.arrivals {
            Arrivals::Poisson { .. } | Arrivals::Jitter { .. } => {
                whole((expected / float(self.share.of)).round())
            }
            Arrivals::Uniform => self.share.count(self.before(whole(expected.ceil()), total)),
        }
    }

    /// Corrects `guess`, the number of requests of the whole plan that are due before `total`. The guess is
    /// off by one if rate times time is close to an integer.
    fn before(&self, mut guess: u64, total: Duration) -> u64 {
        while guess > 0 && self.profile.time_of(float(guess - 1)) >= total {
            guess -= 1;
        }
        guess
    }
}

impl Profile {
    /// The time at which the expected number of requests reaches `position`: the inverse of [`expected`](Self::expected).
    fn time_of(self, position: f64) -> Duration {
        let seconds = match self {
            Self::Constant(rate) => position / rate,
            Self::Ramp { from, to, over } => {
                let over = over.as_secs_f64();
                let in_ramp = f64::midpoint(from, to) * over;
                if position >= in_ramp {
                    over + (position - in_ramp) / to
                } else {
                    ramp(position, from, (to - from) / over)
                }
            }
        };
        // A time beyond 584 years counts as never.
        Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
    }

    /// The expected number of requests until `at`: the integral of the rate.
    fn expected(self, at: Duration) -> f64 {
        let at = at.as_secs_f64();
        match self {
            Self::Constant(rate) => rate * at,
            Self::Ramp { from, to, over } => {
                let over = over.as_secs_f64();
                let rising = at.min(over);
                from * rising + (to - from) / over * rising * rising / 2.0 + to * (at - rising)
            }
        }
    }
}

/// Solves r₀·t + s·t²/2 = k for t.
///
/// The usual formula (−r₀ + √(r₀² + 2sk)) / s subtracts two nearly equal numbers if the ramp is flat, and
/// divides by 0 if it is level. Multiplying numerator and denominator by r₀ + √… avoids both, for rising and
/// falling ramps.
fn ramp(k: f64, r0: f64, slope: f64) -> f64 {
    if k == 0.0 {
        return 0.0;
    }
    // The value under the root is the squared rate at t, so it is negative only by rounding.
    2.0 * k / (r0 + (r0 * r0 + 2.0 * slope * k).max(0.0).sqrt())
}

#[expect(clippy::cast_precision_loss, reason = "exact up to 2^53 requests, and no plan has that many")]
fn float(number: u64) -> f64 {
    number as f64
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 upward; `as` saturates")]
fn whole(number: f64) -> u64 {
    number as u64
}

/// The reason that a plan is invalid.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum ScheduleError {
    /// An invalid rate, in requests per second.
    #[error(
        "a plan from {from} to {to} requests per second is not possible: the first may be 0, the last has to be above 0, both at most {RATE_MAX}"
    )]
    Rate {
        /// At the start.
        from: f64,
        /// At the end.
        to: f64,
    },
    /// A ramp of zero duration.
    #[error("a ramp needs a duration")]
    ZeroDuration,
}
