//! Whether a run's figures are what they seem to be: the gates that each run is held against.
//!
//! A run that fails one is neither dropped nor repeated until it passes, which would be a choice among results: its figures
//! stay, with the [`Doubt`] beside them. What is doubted depends on the figure: a generator with nothing left to give has
//! measured itself where it says how fast, and not where it says how much CPU each answer took.
//!
//! ```
//! use rudy_stats::validity::{Figure, generator, rate_kept};
//!
//! let doubts: Vec<_> = [rate_kept(99_950, 100_000), generator(0.93)].into_iter().filter_map(Result::err).collect();
//! let of = |figure| doubts.iter().filter(|doubt| doubt.concerns(figure)).count();
//! assert_eq!((of(Figure::Latency), of(Figure::CpuPerRequest)), (1, 0));
//! assert_eq!(doubts[0].to_string(), "the generator computed for 93.0 % of its core's time, and may have been the limit");
//! ```

use std::fmt;
use std::time::Duration;

/// Of what was due, so much must be sent for the rate to be the one that was asked for.
pub const RATE_KEPT: f64 = 0.99;

/// Nor is it where one request in a hundred was sent later than this.
pub const LATE: Duration = Duration::from_millis(1);

/// Up to this share of requests may be answered wrongly, or not at all: one in a thousand. What they did not cost is then far
/// less than any difference that is looked for.
pub const ERRORS_MAX: f64 = 0.001;

/// By so much the two sides of Little's law may differ. They do by up to twice the latency over the time of the run, for what
/// was under way at its ends.
pub const LITTLES_LAW: f64 = 0.05;

/// A generating thread that computed for more than this share of its core's time may have kept answers waiting: a queue
/// that is busy to this share is five times as long as its work (1 / (1 - 0.8)).
pub const GENERATOR_MAX: f64 = 0.8;

/// What was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figure {
    /// How long answers took.
    Latency,
    /// How many there were a second.
    Rate,
    /// What each cost the server in CPU time.
    CpuPerRequest,
    /// What the server had in memory.
    Memory,
}

/// Why figures may not be what they seem to be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Doubt {
    /// The rate was not the one that was asked for.
    Rate {
        /// The share of what was due that was sent.
        kept: f64,
    },
    /// Requests were not sent when they were due.
    Late {
        /// By so much or more, one in a hundred.
        by: Duration,
    },
    /// Too much was answered wrongly, or not at all.
    Errors {
        /// The share of all requests.
        share: f64,
    },
    /// Little's law does not hold.
    LittlesLaw {
        /// Requests under way on average, of rate and latency.
        by_law: f64,
        /// As many as there were.
        seen: f64,
    },
    /// The generator had little left to give.
    Generator {
        /// The share of its core's time in which its busiest thread computed.
        share: f64,
    },
}

impl Doubt {
    /// Whether it is a doubt about such figures. Load that was another one, or was not answered, concerns all.
    #[must_use]
    pub fn concerns(&self, figure: Figure) -> bool {
        match self {
            Self::Rate { .. } | Self::Errors { .. } => true,
            // What a request cost the server does not depend on who waited for it, but on how often it was counted: where more
            // were under way than can have been, it was counted wrongly.
            Self::LittlesLaw { by_law, seen } if by_law > seen => figure != Figure::Memory,
            Self::LittlesLaw { .. } | Self::Late { .. } | Self::Generator { .. } => {
                matches!(figure, Figure::Latency | Figure::Rate)
            }
        }
    }
}

/// Open loop: so many requests were sent of those that were due.
pub fn rate_kept(sent: u64, due: u64) -> Result<(), Doubt> {
    let kept = share(sent, due).unwrap_or(1.0);
    pass(kept >= RATE_KEPT, Doubt::Rate { kept })
}

/// Open loop: 99 of 100 requests were sent within this of when they were due.
pub fn on_time(late_p99: Duration) -> Result<(), Doubt> {
    pass(late_p99 <= LATE, Doubt::Late { by: late_p99 })
}

/// So many requests were answered rightly of all that ended. Of none at all, none was: a run without a request shows
/// nothing.
pub fn errors(right: u64, requests: u64) -> Result<(), Doubt> {
    let share = 1.0 - share(right, requests).unwrap_or(0.0);
    pass(share <= ERRORS_MAX, Doubt::Errors { share })
}

/// Little's law ("A proof for the queuing formula L = λW", Operations Research 9, 1961): as many requests are under way on
/// average as there are a second, times how long each takes in seconds.
///
/// `under_way` must be known from elsewhere. In a closed loop it is connections times requests on each, since nothing else
/// waits; where rate and latency make less, requests waited in the generator, and where they make more, the latency has
/// times in it that were no wait for an answer.
pub fn littles_law(under_way: f64, per_second: f64, mean_latency: Duration) -> Result<(), Doubt> {
    let by_law = per_second * mean_latency.as_secs_f64();
    let holds = (by_law - under_way).abs() <= LITTLES_LAW * under_way;
    pass(holds, Doubt::LittlesLaw { by_law, seen: under_way })
}

/// The busiest generating thread computed for so much of its core's time.
///
/// A thread that looks at the clock until the next request is due is busy all the time, and late only if it has too much to
/// do: in an open loop with such threads ask [`on_time`] instead.
pub fn generator(share: f64) -> Result<(), Doubt> {
    pass(share < GENERATOR_MAX, Doubt::Generator { share })
}

fn pass(holds: bool, doubt: Doubt) -> Result<(), Doubt> {
    if holds { Ok(()) } else { Err(doubt) }
}

/// Nothing where there is nothing to have a share of.
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
                "{:.1} % of what was due was sent: this is what a lower rate than was asked for shows",
                (percent(*kept) * 10.0).floor() / 10.0
            ),
            Self::Late { by } => write!(
                f,
                "one request in 100 was sent {:.1} ms late or more: the load was more uneven than was asked for",
                by.as_secs_f64() * 1000.0
            ),
            Self::Errors { share } => write!(
                f,
                "{:.2} % of the requests were not answered rightly, and what is not answered costs less",
                (percent(*share) * 100.0).ceil() / 100.0
            ),
            Self::LittlesLaw { by_law, seen } => write!(
                f,
                "rate times latency makes {by_law:.1} requests under way where there were {seen:.1} (Little's law): {}",
                if by_law < seen {
                    "the rest waited where nobody measured, or had no connection"
                } else {
                    "the latency has more in it than the wait for an answer"
                }
            ),
            Self::Generator { share } => write!(
                f,
                "the generator computed for {:.1} % of its core's time, and may have been the limit",
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
            (rate_kept(98_999, 100_000), "98.9 % of what was due was sent"),
            (on_time(MS * 12 / 5), "one request in 100 was sent 2.4 ms late or more"),
            (errors(998_999, 1_000_000), "0.11 % of the requests were not answered rightly"),
            (littles_law(64.0, 40_000.0, MS), "makes 40.0 requests under way where there were 64.0"),
            (littles_law(64.0, 40_000.0, MS), "the rest waited where nobody measured"),
            (littles_law(64.0, 80_000.0, MS), "the latency has more in it"),
        ] {
            let said = doubt.unwrap_err().to_string();
            assert!(said.contains(sentence), "{said}");
        }
    }
}
