//! The checks one by one. [`super::check`] replaces them; they go when bench and lab have adopted it.

#![expect(unreachable_pub, reason = "only some thresholds were public")]

use std::fmt;
use std::time::Duration;

/// Minimum fraction of due requests that must be sent for the rate to count as kept.
pub const RATE_KEPT: f64 = 0.99;

/// Maximum lag of 99 % of the requests for the rate to count as kept.
pub const LATE: Duration = Duration::from_millis(1);

/// Maximum fraction of failed requests: one in a thousand. The CPU that they saved is then far below any
/// difference of interest.
pub const ERRORS_MAX: f64 = 0.001;

/// Maximum deviation from Little's law. It deviates by up to twice the latency over the duration, for
/// requests in flight at both ends.
pub const LITTLES_LAW: f64 = 0.05;

/// Maximum CPU usage of a generator thread. Above it, responses may have waited: a queue at this load is five
/// times as long as its work (1 / (1 - 0.8)).
pub const GENERATOR_MAX: f64 = 0.8;

/// A kind of figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figure {
    /// Latency of responses.
    Latency,
    /// Responses per second.
    Rate,
    /// CPU time of the server per response.
    CpuPerRequest,
    /// Memory of the server.
    Memory,
}

/// Why a figure may be invalid.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Doubt {
    /// The rate was not kept.
    Rate {
        /// The fraction of due requests that was sent.
        kept: f64,
    },
    /// Requests were sent late.
    Late {
        /// The lag at the 99th percentile.
        by: Duration,
    },
    /// Too many requests failed.
    Errors {
        /// The fraction of failed requests.
        share: f64,
    },
    /// Little's law is violated.
    LittlesLaw {
        /// Average number of requests in flight, from rate and latency.
        by_law: f64,
        /// The actual number.
        seen: f64,
    },
    /// The load generator was saturated.
    Generator {
        /// The CPU usage of its busiest thread.
        share: f64,
    },
}

impl Doubt {
    /// Whether the problem affects this kind of figure. A wrong load, or failed requests, affect all.
    #[must_use]
    pub fn concerns(&self, figure: Figure) -> bool {
        match self {
            Self::Rate { .. } | Self::Errors { .. } => true,
            // The CPU per request does not depend on waiting, but on a correct count: more requests in flight
            // than possible means a wrong count.
            Self::LittlesLaw { by_law, seen } if by_law > seen => figure != Figure::Memory,
            Self::LittlesLaw { .. } | Self::Late { .. } | Self::Generator { .. } => {
                matches!(figure, Figure::Latency | Figure::Rate)
            }
        }
    }
}

/// Open loop: checks the fraction of due requests that were sent.
pub fn rate_kept(sent: u64, due: u64) -> Result<(), Doubt> {
    let kept = share(sent, due).unwrap_or(1.0);
    pass(kept >= RATE_KEPT, Doubt::Rate { kept })
}

/// Open loop: checks the lag of 99 % of the requests.
pub fn on_time(late_p99: Duration) -> Result<(), Doubt> {
    pass(late_p99 <= LATE, Doubt::Late { by: late_p99 })
}

/// Checks the success rate of the requests that ended. It is zero without any request: such a run shows
/// nothing.
pub fn errors(right: u64, requests: u64) -> Result<(), Doubt> {
    let share = 1.0 - share(right, requests).unwrap_or(0.0);
    pass(share <= ERRORS_MAX, Doubt::Errors { share })
}

/// Checks Little's law ("A proof for the queuing formula L = λW", Operations Research 9, 1961): the average
/// number of requests in flight is their rate times their latency.
///
/// `under_way` must come from another source. In a closed loop it is connections times requests on each. If
/// rate and latency make less, requests waited in the generator. If they make more, the latency includes
/// times that were not spent waiting for a response.
pub fn littles_law(under_way: f64, per_second: f64, mean_latency: Duration) -> Result<(), Doubt> {
    let by_law = per_second * mean_latency.as_secs_f64();
    let holds = (by_law - under_way).abs() <= LITTLES_LAW * under_way;
    pass(holds, Doubt::LittlesLaw { by_law, seen: under_way })
}

/// Checks the CPU usage of the busiest generator thread.
///
/// A thread that polls the clock until the next request is due is always busy, and late only if overloaded.
/// For open loops with such threads, use [`on_time`] instead.
pub fn generator(share: f64) -> Result<(), Doubt> {
    pass(share < GENERATOR_MAX, Doubt::Generator { share })
}

fn pass(holds: bool, doubt: Doubt) -> Result<(), Doubt> {
    if holds { Ok(()) } else { Err(doubt) }
}

/// `None` for an empty sample.
#[expect(clippy::cast_precision_loss, reason = "a share has no use for more than 53 bits")]
fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = |share: f64| share * 100.0;
        match self {
            Self::Rate { kept } => write!(
                f,
                "{:.1} % of the due requests were sent: the figures are those of a lower rate",
                (percent(*kept) * 10.0).floor() / 10.0
            ),
            Self::Late { by } => write!(
                f,
                "one request in 100 was sent {:.1} ms late or more: the load was less even than planned",
                by.as_secs_f64() * 1000.0
            ),
            Self::Errors { share } => write!(
                f,
                "{:.2} % of the requests failed, and a failed request costs less",
                (percent(*share) * 100.0).ceil() / 100.0
            ),
            Self::LittlesLaw { by_law, seen } => write!(
                f,
                "rate times latency gives {by_law:.1} requests in flight, but there were {seen:.1} (Little's law): {}",
                if by_law < seen {
                    "the others waited outside of the measurement, or had no connection"
                } else {
                    "the latency includes more than the wait for a response"
                }
            ),
            Self::Generator { share } => write!(
                f,
                "the generator used {:.1} % of its core and may have been the limit",
                percent(*share)
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn each_gate_passes_at_its_bound_and_not_beyond() {
        for (case, at, beyond) in [
            ("rate", rate_kept(990, 1000), rate_kept(989, 1000)),
            ("on time", on_time(MS), on_time(MS + Duration::from_nanos(1))),
            ("errors", errors(9991, 10_000), errors(9989, 10_000)),
            ("less than the law", littles_law(64.0, 61_000.0, MS), littles_law(64.0, 60_000.0, MS)),
            ("more than the law", littles_law(64.0, 67_000.0, MS), littles_law(64.0, 68_000.0, MS)),
            ("generator", generator(0.79), generator(0.8)),
        ] {
            assert_eq!(at, Ok(()), "{case}");
            assert!(beyond.is_err(), "{case}");
        }
    }

    #[test]
    fn nothing_due_is_a_rate_kept_and_nothing_answered_is_an_error() {
        assert_eq!(rate_kept(0, 0), Ok(()));
        assert_eq!(errors(0, 0), Err(Doubt::Errors { share: 1.0 }));
        assert!(littles_law(64.0, 0.0, Duration::ZERO).is_err());
        assert!(littles_law(64.0, f64::NAN, MS).is_err());
        assert!(generator(f64::NAN).is_err());
    }

    #[test]
    fn a_busy_generator_says_nothing_against_cpu_and_memory() {
        let concerns = |doubt: Doubt| {
            [Figure::Latency, Figure::Rate, Figure::CpuPerRequest, Figure::Memory]
                .map(|figure| doubt.concerns(figure))
        };
        assert_eq!(concerns(Doubt::Generator { share: 1.0 }), [true, true, false, false]);
        assert_eq!(concerns(Doubt::Late { by: MS }), [true, true, false, false]);
        assert_eq!(concerns(Doubt::LittlesLaw { by_law: 1.0, seen: 2.0 }), [true, true, false, false]);
        assert_eq!(concerns(Doubt::LittlesLaw { by_law: 2.0, seen: 1.0 }), [true, true, true, false]);
        assert_eq!(concerns(Doubt::Rate { kept: 0.9 }), [true; 4]);
        assert_eq!(concerns(Doubt::Errors { share: 0.1 }), [true; 4]);
    }

    #[test]
    fn a_doubt_is_said_with_its_figures_and_never_rounds_to_its_bound() {
        for (doubt, sentence) in [
            (rate_kept(98_999, 100_000), "98.9 % of the due requests were sent"),
            (on_time(MS * 12 / 5), "one request in 100 was sent 2.4 ms late or more"),
            (errors(998_999, 1_000_000), "0.11 % of the requests failed"),
            (littles_law(64.0, 40_000.0, MS), "gives 40.0 requests in flight, but there were 64.0"),
            (littles_law(64.0, 40_000.0, MS), "the others waited outside of the measurement"),
            (littles_law(64.0, 80_000.0, MS), "the latency includes more"),
        ] {
            let said = doubt.unwrap_err().to_string();
            assert!(said.contains(sentence), "{said}");
        }
    }
}
