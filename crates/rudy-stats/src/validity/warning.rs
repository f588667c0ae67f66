//! A warning, its sentence, and what it affects.

use std::fmt;
use std::time::Duration;

use rudy_units::{duration, share_down};

/// A kind of metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    /// Latency of responses.
    Latency,
    /// Responses per second.
    Rate,
    /// CPU time of the server per response.
    CpuPerRequest,
    /// Memory of the server.
    Memory,
}

/// The limit of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// The load generator.
    Client,
    /// The server, as it should be.
    Server,
    /// The machine that both share, or other processes on it.
    Machine,
}

/// A reason that metrics of a run may be invalid. Shares are fractions of 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Warning {
    /// Fewer requests were sent than were due.
    RateNotKept {
        /// The fraction of due requests that was sent.
        kept: f64,
        /// The reason that the others were not sent.
        limit: Option<Limit>,
    },
    /// Requests were sent late.
    ScheduleDelay {
        /// The 99th percentile of the delay.
        p99: Duration,
        /// The cause of the delay.
        limit: Option<Limit>,
    },
    /// Too many requests failed.
    Failed {
        /// The fraction of failed requests.
        share: f64,
    },
    /// A thread of the load generator was saturated.
    ClientCpu {
        /// Its CPU usage.
        share: f64,
    },
    /// The relay between client and server was saturated.
    RelayCpu {
        /// Its CPU usage.
        share: f64,
    },
    /// A thread of the load generator waited for a core.
    ClientRunDelay {
        /// The fraction of the time.
        share: f64,
    },
    /// The threads of the server waited for a core.
    ServerRunDelay {
        /// The fraction of the time in which they had work.
        share: f64,
    },
    /// Rate and latency contradict the number of connections.
    LittlesLaw {
        /// Average number of requests in flight, by rate and latency.
        in_flight: f64,
        /// Number of requests that can be in flight.
        capacity: f64,
    },
    /// Other processes used much CPU time.
    BackgroundCpu {
        /// The fraction of all cores.
        share: f64,
    },
    /// Other processes used more CPU time during one variant than during another.
    BackgroundCpuDiffers {
        /// During the variant with the least.
        lowest: f64,
        /// During the variant with the most.
        highest: f64,
    },
    /// The hypervisor gave CPU time to other machines.
    Steal {
        /// The fraction of all cores.
        share: f64,
    },
}

impl Warning {
    /// Whether the problem affects this kind of metric.
    #[must_use]
    pub fn affects(&self, metric: Metric) -> bool {
        match self {
            // A wrong load, or failed requests, affect all.
            Self::RateNotKept { .. } | Self::Failed { .. } => true,
            // A wrong count makes a wrong CPU time per request. Other processes share caches and cores with the
            // server, so its own CPU time grows.
            Self::BackgroundCpu { .. } | Self::BackgroundCpuDiffers { .. } => metric != Metric::Memory,
            Self::LittlesLaw { in_flight, capacity } if in_flight > capacity => metric != Metric::Memory,
            // Waiting costs no CPU time.
            _ => matches!(metric, Metric::Latency | Metric::Rate),
        }
    }

    /// The limit of the run, if it is known.
    #[must_use]
    pub fn limit(&self) -> Option<Limit> {
        match self {
            Self::RateNotKept { limit, .. } | Self::ScheduleDelay { limit, .. } => *limit,
            Self::ClientCpu { .. } | Self::RelayCpu { .. } => Some(Limit::Client),
            Self::ClientRunDelay { .. }
            | Self::ServerRunDelay { .. }
            | Self::BackgroundCpu { .. }
            | Self::BackgroundCpuDiffers { .. }
            | Self::Steal { .. } => Some(Limit::Machine),
            Self::Failed { .. } | Self::LittlesLaw { .. } => None,
        }
    }
}

impl Limit {
    /// The advice.
    #[must_use]
    pub fn advice(self) -> &'static str {
        match self {
            Self::Client => "Give the client more threads or connections, or run it on another machine.",
            Self::Server => "Lower the rate, or add connections (-c, --max-connections).",
            Self::Machine => {
                "Give server and client cores of their own, stop other processes, or use two machines."
            }
        }
    }
}

/// A sentence without a capital and a full stop, with its figures. No figure is rounded to the threshold that it
/// violates.
impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = |share: f64| format!("{:.1} %", share * 100.0);
        match self {
            Self::RateNotKept { kept, limit } => {
                let kept = share_down(*kept, 1);
                write!(f, "{kept} of the due requests were sent, so the metrics are those of a lower rate")?;
                write_limit(f, *limit)
            }
            Self::ScheduleDelay { p99, limit } => {
                write!(f, "1 request in 100 was sent {} late or more", duration(*p99))?;
                write_limit(f, *limit)
            }
            Self::Failed { share } => {
                let percent = (share * 1e4).ceil() / 1e2;
                write!(f, "{percent:.2} % of the requests failed, and a failed request costs less")
            }
            Self::ClientCpu { share } => {
                write!(f, "the client used {} of a core, so responses waited for it", percent(*share))
            }
            Self::RelayCpu { share } => {
                write!(
                    f,
                    "the relay of --round-trip used {} of a core, so data waited for it",
                    percent(*share)
                )
            }
            Self::ClientRunDelay { share } => {
                write!(f, "the client waited for a core {} of the time", percent(*share))
            }
            Self::ServerRunDelay { share } => {
                write!(f, "the server waited for a core {} of the time in which it had work", percent(*share))
            }
            Self::LittlesLaw { in_flight, capacity } => write!(
                f,
                "rate times latency gives {in_flight:.1} requests in flight, {} {capacity:.0} (Little's law): {}",
                if in_flight > capacity { "but the connections carry at most" } else { "far fewer than" },
                if in_flight > capacity {
                    "a count is wrong"
                } else {
                    "requests waited outside of the measurement"
                }
            ),
            Self::BackgroundCpu { share } => {
                write!(f, "other processes used {} of the machine's CPU time", percent(*share))
            }
            Self::BackgroundCpuDiffers { lowest, highest } => write!(
                f,
                "other processes used {} of the machine's CPU time during one variant and {} during another",
                percent(*lowest),
                percent(*highest)
            ),
            Self::Steal { share } => {
                write!(f, "the hypervisor gave {} of the CPU time to other machines", percent(*share))
            }
        }
    }
}

fn write_limit(f: &mut fmt::Formatter<'_>, limit: Option<Limit>) -> fmt::Result {
    match limit {
        None => Ok(()),
        Some(Limit::Client) => f.write_str(": connections were free, so the client was the limit"),
        Some(Limit::Server) => {
            f.write_str(": all connections were busy, so the server or their number was the limit")
        }
        Some(Limit::Machine) => {
            f.write_str(": the client had no core to run on, so the machine was the limit")
        }
    }
}
