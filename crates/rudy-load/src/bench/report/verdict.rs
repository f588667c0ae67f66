//! Whose limit was measured: the server's, or the generator's own.

use std::fmt;
use std::time::Duration;

use super::Run;
use super::units;
use crate::bench::plan::Pace;

/// A thread that computed for more than this share of the time had nothing left to give.
const BUSY: f64 = 0.9;

/// Of what was due, so much must be sent for the rate to be what was asked.
pub(super) const RATE_KEPT: f64 = 0.99;

/// Requests that are sent later than this, one in a hundred of them, were not sent at the rate that was asked.
const LATE: Duration = Duration::from_millis(1);

/// What limited the run.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Verdict {
    /// Nothing that can be seen from here; in the closed loop, the server.
    Fair,
    /// A generating thread was busy with itself.
    Generator { share: f64, is_open: bool },
    /// The server had every connection busy, and what was due had to wait.
    Server { rate_ratio: f64 },
}

impl Verdict {
    pub(super) fn of(run: &Run) -> Self {
        let share = run.outcome.threads.iter().map(|time| time.share()).fold(0.0, f64::max);
        let is_open = run.config.pace != Pace::Closed;
        if !is_open {
            return if share >= BUSY { Self::Generator { share, is_open } } else { Self::Fair };
        }
        let rate_ratio = run.rate_ratio().unwrap_or(1.0);
        if rate_ratio >= RATE_KEPT && run.outcome.seen.lag.quantile(0.99) <= LATE {
            return Self::Fair;
        }
        if run.under_way() >= BUSY * run.config.places() {
            Self::Server { rate_ratio }
        } else if share >= BUSY {
            Self::Generator { share, is_open }
        } else {
            Self::Fair
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fair => Ok(()),
            Self::Generator { share, is_open } => {
                let what = if *is_open { "the rate was not kept, and" } else { "so" };
                write!(
                    f,
                    "The generator was the bottleneck: a thread of it computed for {:.0} % of the time; {what} the server \
                     may hold more than this. Give it more threads (-t), cores that the server does not use, or several \
                     machines.",
                    share * 100.0
                )
            }
            Self::Server { rate_ratio } => write!(
                f,
                "The server did not keep up: every connection was busy, and {:.1} % of the rate that was asked for was sent.",
                rate_ratio * 100.0
            ),
        }
    }
}

impl Run {
    /// Requests that were due and sent, of those that were due; nothing in the closed loop.
    pub(super) fn rate_ratio(&self) -> Option<f64> {
        if self.config.pace == Pace::Closed {
            return None;
        }
        let (sent, due) = (self.outcome.seen.sent, self.due()?);
        Some(units::float(sent) / units::float(due.max(1)))
    }

    /// Requests that were due in the time that counts; nothing in the closed loop.
    pub(super) fn due(&self) -> Option<u64> {
        // What was given up before it was sent was due too.
        (self.config.pace != Pace::Closed).then(|| {
            let seen = &self.outcome.seen;
            let ended_unsent = (seen.requests() + self.outcome.abandoned).saturating_sub(seen.sent);
            seen.sent + ended_unsent + self.outcome.unsent
        })
    }

    /// Requests under way at once, on average: their rate times how long each took (Little's law).
    pub(super) fn under_way(&self) -> f64 {
        let seen = &self.outcome.seen;
        let took = if self.config.pace == Pace::Closed { &seen.latency } else { &seen.service };
        units::per_second(took.len(), self.outcome.duration) * took.mean().as_secs_f64()
    }
}
