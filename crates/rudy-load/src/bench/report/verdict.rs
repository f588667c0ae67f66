//! Determines whether the server or the generator limited the run.

use std::fmt;
use std::time::Duration;

use rudy_stats::Histogram;
use rudy_stats::validity::{LATE, RATE_KEPT};

use super::Run;
use crate::bench::run::ThreadTime;
use crate::units;

/// A thread above this CPU usage, or a load above this fraction of its connections, is saturated.
const BUSY: f64 = 0.9;

/// In a closed loop, at least this fraction of the possible requests must be in flight for the server to be
/// the limit.
const AT_WORK: f64 = 0.75;

/// If at least this fraction of the connections was free, the server did not cause the lag.
const FREE: f64 = 0.5;

/// The advice for a saturated generator.
const MORE: &str = "The server may be faster: give the generator more threads (-t), cores that the server does not use, or \
                    another machine.";

/// The limit of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::bench) enum Verdict {
    /// The server in a closed loop; nothing in an open loop.
    Fair,
    /// Connections waited for the generator to send their next request.
    Idle {
        /// Average number of requests in flight.
        idle: f64,
        /// Maximum number of requests in flight.
        of: u64,
    },
    /// A generator thread had no CPU time left.
    Generator {
        /// Its CPU usage.
        share: f64,
        /// Whether requests were late as well.
        is_late: bool,
    },
    /// Requests were sent late, although the server did not cause it.
    Late {
        /// The lag at the 99th percentile.
        by: Duration,
        /// Average number of free connections.
        free: f64,
        /// Number of connections.
        of: u64,
    },
    /// Due requests had to wait because all connections were busy.
    Server {
        /// The fraction of due requests that were sent.
        rate_ratio: f64,
    },
}

impl Verdict {
    pub(in crate::bench) fn of(run: &Run) -> Self {
        let share = run.outcome.threads.iter().map(ThreadTime::share).fold(0.0, f64::max);
        let Some(rate_ratio) = run.rate_ratio() else { return Self::of_closed_loop(run, share) };
        // At a rate, a thread polls the clock until a request is due, so high CPU usage without lag is
        // normal.
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
        // A connection is also free while it is being opened, and when no requests are left.
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

    /// The name of the limit in JSON.
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
                "The generator was the bottleneck: {idle:.0} of {of} requests that could have been in flight waited for it \
                 to send them. {MORE}"
            ),
            Self::Generator { share, is_late } => write!(
                f,
                "The generator was the bottleneck: one of its threads used {:.0} % of a core{}. {MORE}",
                share * 100.0,
                if *is_late { ", and requests were sent late" } else { "" }
            ),
            Self::Late { by, free, of } => write!(
                f,
                "The generator was the bottleneck: one request in 100 was sent {} late or more, which is longer than any response \
                 took, and on average {free:.0} of {of} connections were free for it. {MORE}",
                units::duration(*by)
            ),
            Self::Server { rate_ratio } => write!(
                f,
                "The server did not keep up with the rate: all connections were busy, and {} of the due requests \
                 were sent.",
                units::share_down(*rate_ratio, 1)
            ),
        }
    }
}

impl Run {
    /// While a server stalls, requests wait no longer than the slowest response took. A ramp is different: at
    /// its end, all connections can be busy for a long time.
    fn is_late_without_the_server(&self, by: Duration) -> bool {
        self.config.rate_at_end.is_none() && by > self.outcome.seen.service.max()
    }

    /// Requests that were due during the measurement; `None` in a closed loop.
    pub(super) fn due(&self) -> Option<u64> {
        let seen = &self.outcome.seen;
        // A request whose deadline passed before its send has ended, but was not sent.
        let shed = (seen.requests() + self.outcome.abandoned).saturating_sub(seen.sent);
        self.config.is_open().then(|| seen.sent + shed + self.outcome.unsent)
    }

    /// The requested rate, or the mean of a ramp; `None` in a closed loop.
    pub(super) fn target_rate(&self) -> Option<f64> {
        match (self.config.rate, self.config.rate_at_end) {
            (Some(_), Some(_)) => Some(units::per_second(self.due()?, self.outcome.duration)),
            (rate, _) => {
                let share = self.config.share.as_ref();
                rate.map(|rate| share.map_or(rate, |share| share.split().rate(rate)))
            }
        }
    }

    /// The fraction of due requests that were sent; `None` in a closed loop.
    pub(in crate::bench) fn rate_ratio(&self) -> Option<f64> {
        let due = self.due()?;
        Some(if due == 0 { 1.0 } else { units::float(self.outcome.seen.sent) / units::float(due) })
    }

    /// Average number of warm-up requests in flight during the measurement.
    pub(super) fn carried_over(&self) -> f64 {
        let duration = self.outcome.duration.as_secs_f64().max(1e-9);
        (self.outcome.seen.carried_over.as_secs_f64() / duration).min(units::float(self.config.places()))
    }

    /// Average number of requests in flight: rate times latency (Little's law).
    pub(in crate::bench) fn under_way(&self) -> f64 {
        let seen = &self.outcome.seen;
        let busy = |requests, histogram: &Histogram| {
            units::per_second(requests, self.outcome.duration) * histogram.mean().as_secs_f64()
        };
        let most = if self.config.is_open() {
            // The time in flight of a request without a response is only known from its due time.
            busy(seen.answers(), &seen.service) + busy(seen.failed(), &seen.latency_failed)
        } else {
            busy(seen.latency.len(), &seen.latency) + busy(seen.latency_failed.len(), &seen.latency_failed)
        };
        // A request that was started during the measurement may have ended after it.
        (most + self.carried_over()).min(units::float(self.config.places()))
    }
}
