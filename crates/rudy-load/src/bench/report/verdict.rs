//! Whose limit was measured: the server's, or the generator's own.

use std::fmt;
use std::time::Duration;

use rudy_stats::Histogram;
use rudy_stats::validity::{LATE, RATE_KEPT};

use super::Run;
use crate::bench::run::ThreadTime;
use crate::units;

/// What computed for more than this share of the time, or was busy to it, had nothing left to give.
const BUSY: f64 = 0.9;

/// In a closed loop so much of what could be under way must be for the server to be what is waited for.
const AT_WORK: f64 = 0.75;

/// So much of what could be under way must be free for lateness not to come from waiting for the server.
const FREE: f64 = 0.5;

/// What follows from the generator having been the limit.
const MORE: &str = "The server may hold more than this: give the generator more threads (-t), cores that the server does not \
                    use, or a machine of its own.";

/// What limited the run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::bench) enum Verdict {
    /// In a closed loop the server; in an open one nothing.
    Fair,
    /// Connections waited for the generator to send their next request.
    Idle {
        /// How many, on average.
        idle: f64,
        /// Of how many.
        of: u64,
    },
    /// A generating thread had no time left.
    Generator {
        /// The share of its time in which it computed.
        share: f64,
        /// The rate was not kept.
        is_late: bool,
    },
    /// Requests were sent late, and the server can have been no reason.
    Late {
        /// By so much, one in a hundred of them.
        by: Duration,
        /// Places for requests that were free, on average.
        free: f64,
        /// Of how many.
        of: u64,
    },
    /// What was due had to wait for connections, which all were busy with the server.
    Server {
        /// How much of what was due was sent.
        rate_ratio: f64,
    },
}

impl Verdict {
    pub(in crate::bench) fn of(run: &Run) -> Self {
        let share = run.outcome.threads.iter().map(ThreadTime::share).fold(0.0, f64::max);
        let Some(rate_ratio) = run.rate_ratio() else { return Self::of_closed_loop(run, share) };
        // At a rate a thread looks at the clock until a request is due: that it is busy says nothing where none is late.
        let by = run.outcome.seen.lag.quantile(0.99);
        let (of, free) = (run.config.places(), units::float(run.config.places()) - run.under_way());
        if rate_ratio >= RATE_KEPT && by <= LATE {
            Self::Fair
        } else if free <= (1.0 - BUSY) * units::float(of) {
            Self::Server { rate_ratio }
        } else if share >= BUSY {
            Self::Generator { share, is_late: true }
        } else if run.is_late_without_the_server(by) && free >= FREE * units::float(of) {
            Self::Late { by, free, of }
        } else {
            Self::Fair
        }
    }

    fn of_closed_loop(run: &Run, share: f64) -> Self {
        let (under_way, places) = (run.under_way(), run.config.places());
        let seen = &run.outcome.seen;
        // A connection also has nothing under way while it is opened, and when there is nothing left to send.
        let has_always_stood = seen.failed() == 0 && seen.opened <= u64::from(run.config.connections);
        let could_be_busy =
            has_always_stood && run.config.duration_s.is_some() && !run.outcome.duration.is_zero();
        if share >= BUSY {
            Self::Generator { share, is_late: false }
        } else if could_be_busy && under_way < AT_WORK * units::float(places) {
            Self::Idle { idle: units::float(places) - under_way, of: places }
        } else {
            Self::Fair
        }
    }

    /// For programs.
    pub(super) fn name(self) -> Option<&'static str> {
        match self {
            Self::Fair => None,
            Self::Idle { .. } | Self::Generator { .. } | Self::Late { .. } => Some("generator"),
            Self::Server { .. } => Some("server"),
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fair => Ok(()),
            Self::Idle { idle, of } => write!(
                f,
                "The generator was the bottleneck: {idle:.0} of {of} requests that could have been under way waited for it \
                 to send them. {MORE}"
            ),
            Self::Generator { share, is_late } => write!(
                f,
                "The generator was the bottleneck: a thread of it computed for {:.0} % of the time{}. {MORE}",
                share * 100.0,
                if *is_late { ", and requests were sent late" } else { "" }
            ),
            Self::Late { by, free, of } => write!(
                f,
                "The generator was the bottleneck: one request in 100 was sent {} late or more, which is longer than any answer \
                 took, and on average {free:.0} of {of} connections were free for it. {MORE}",
                units::time(*by)
            ),
            Self::Server { rate_ratio } => write!(
                f,
                "The server did not keep up with the rate: its connections were all busy, and {} of what was due was \
                 sent.",
                units::percent(*rate_ratio, 1)
            ),
        }
    }
}

impl Run {
    /// Where the server stands still, what waits for it waits no longer than the longest answer took. That does not hold of a
    /// ramp, at whose end all connections may be busy for long.
    fn is_late_without_the_server(&self, by: Duration) -> bool {
        self.config.rate_at_end.is_none() && by > self.outcome.seen.service.max()
    }

    /// Requests that were due in the time that counts; nothing in a closed loop, where none is.
    pub(super) fn due(&self) -> Option<u64> {
        let seen = &self.outcome.seen;
        // A request whose deadline was over before its turn came has ended, and was not sent.
        let shed = (seen.requests() + self.outcome.abandoned).saturating_sub(seen.sent);
        self.config.is_open().then(|| seen.sent + shed + self.outcome.unsent)
    }

    /// The rate that was asked for, of a ramp its mean; nothing in a closed loop.
    pub(super) fn target_rate(&self) -> Option<f64> {
        match (self.config.rate, self.config.rate_at_end) {
            (Some(_), Some(_)) => Some(units::per_second(self.due()?, self.outcome.duration)),
            (rate, _) => {
                let share = self.config.share.as_ref();
                rate.map(|rate| share.map_or(rate, |share| share.split().rate(rate)))
            }
        }
    }

    /// Requests sent, of those that were due; nothing in a closed loop.
    pub(in crate::bench) fn rate_ratio(&self) -> Option<f64> {
        let due = self.due()?;
        Some(if due == 0 { 1.0 } else { units::float(self.outcome.seen.sent) / units::float(due) })
    }

    /// Requests of the warm-up that were under way at once in the time that counts, on average.
    pub(super) fn carried_over(&self) -> f64 {
        let duration = self.outcome.duration.as_secs_f64().max(1e-9);
        (self.outcome.seen.carried_over.as_secs_f64() / duration).min(units::float(self.config.places()))
    }

    /// Requests under way at once, on average: how many there were a second times how long each took (Little's law).
    pub(in crate::bench) fn under_way(&self) -> f64 {
        let seen = &self.outcome.seen;
        let busy = |requests, histogram: &Histogram| {
            units::per_second(requests, self.outcome.duration) * histogram.mean().as_secs_f64()
        };
        let most = if self.config.is_open() {
            // How long something was under way that got no answer is not known from its send, but from when it was due.
            busy(seen.answers(), &seen.service) + busy(seen.failed(), &seen.latency_failed)
        } else {
            busy(seen.latency.len(), &seen.latency) + busy(seen.latency_failed.len(), &seen.latency_failed)
        };
        // What was begun in the time that counts may have ended after it.
        (most + self.carried_over()).min(units::float(self.config.places()))
    }
}
