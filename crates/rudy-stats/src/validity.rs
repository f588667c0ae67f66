//! Whether the metrics of a run are valid.
//!
//! A run with a [`Warning`] is neither dropped nor repeated until it has none, because that would be a selection of
//! results. Its metrics stay, and the warning is reported with them. Each warning affects certain metrics: a
//! saturated client invalidates throughput and latency, but not the CPU time per response.
//!
//! ```
//! use rudy_stats::validity::{Conditions, Limit, Metric, ThreadUse, check};
//!
//! let warnings = check(&Conditions {
//!     client_threads: vec![ThreadUse { cpu_share: 0.93, run_delay_share: None }],
//!     ..Conditions::default()
//! });
//! assert_eq!(warnings[0].to_string(), "the client used 93.0 % of a core, so responses waited for it");
//! assert_eq!(warnings[0].limit(), Some(Limit::Client));
//! assert!(warnings[0].affects(Metric::Latency) && !warnings[0].affects(Metric::CpuPerRequest));
//! ```

#[cfg(test)]
mod tests;
mod warning;

use std::time::Duration;

pub use warning::{Limit, Metric, Warning};

/// Minimum fraction of the due requests that must be sent. The rest would be 1 % of the rate, and less than any
/// difference that a comparison looks for.
pub const RATE_KEPT_MIN: f64 = 0.99;

/// Maximum schedule delay of 99 % of the requests. The timers of a busy machine fire up to a tick of the kernel
/// late, which is 1 ms at 1000 Hz; a longer delay has another cause.
pub const SCHEDULE_DELAY_MAX: Duration = Duration::from_millis(1);

/// Maximum fraction of failed requests. The CPU time that one in a thousand saves is far below any difference of
/// interest.
pub const FAILED_MAX: f64 = 0.001;

/// Maximum CPU usage of a client thread. At this usage, a response waits on average for nine others to be
/// processed (ρ / (1 − ρ)), so its latency is that of the client.
pub const CLIENT_CPU_MAX: f64 = 0.9;

/// Maximum time that a thread waits for a core, as a fraction of its CPU time. It delays responses by as much as
/// 5 % slower code would, which is the smallest difference that matters by default.
pub const RUN_DELAY_MAX: f64 = 0.05;

/// A run delay below this fraction of the time is ignored: an idle thread computes so little that each wake-up
/// exceeds [`RUN_DELAY_MAX`], and no metric can change by more than this.
pub const RUN_DELAY_NOTICEABLE: f64 = 0.01;

/// Maximum fraction of the machine's CPU time that other processes may use. On a machine with few cores, a fifth
/// is a core that the server or the client has to share.
pub const BACKGROUND_CPU_MAX: f64 = 0.2;

/// Maximum difference of the background CPU between the variants of a comparison, for the reason of
/// [`RUN_DELAY_MAX`].
pub const BACKGROUND_CPU_DIFFERENCE_MAX: f64 = 0.05;

/// Maximum fraction of the machine's CPU time that its hypervisor may give to others, for the reason of
/// [`RUN_DELAY_MAX`].
pub const STEAL_MAX: f64 = 0.05;

/// Tolerance of Little's law, as a fraction of the requests that can be in flight. Rate and latency come from
/// the same clock, so only requests at both ends of the run, and rounding, cause a deviation.
pub const LITTLES_LAW_TOLERANCE: f64 = 0.05;

/// An open loop whose in-flight requests exceed this fraction of the connections is limited by the server:
/// due requests find no free connection.
const ALL_BUSY: f64 = 0.9;

/// The conditions of a run, as far as the caller knows them. What is `None` is not checked.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Conditions {
    /// Requests that were due by the schedule of an open loop; `None` in a closed loop.
    pub due: Option<u64>,
    /// Requests that were sent.
    pub sent: Option<u64>,
    /// Requests with a complete, expected response.
    pub succeeded: Option<u64>,
    /// All other requests that ended, and those that were not answered in time.
    pub failed: Option<u64>,
    /// Open loop: the 99th percentile of the time from due to sent, without the time in which the request's connection was opened.
    pub schedule_delay_p99: Option<Duration>,
    /// The maximum time from sent to answered. `None` for a ramp, at whose end all connections may be busy for a
    /// longer time than any response takes.
    pub slowest_response: Option<Duration>,
    /// Number of requests that can be in flight: connections times pipelined requests on each. `None` if
    /// connections were closed and opened again during the run, because they carry no request meanwhile.
    pub capacity: Option<u64>,
    /// Average number of requests in flight by Little's law: requests per second times mean time in flight. It
    /// must not be clamped to the capacity, because an excess shows a wrong count.
    pub in_flight: Option<f64>,
    /// The maximum number of requests that were in flight at once, by count.
    pub most_in_flight: Option<u64>,
    /// Mean time in flight, for the requests at both ends of the run.
    pub mean_latency: Option<Duration>,
    /// Duration of the measurement.
    pub duration: Option<Duration>,
    /// The threads of the load generator. Polling the clock until a request is due is no CPU usage in this
    /// sense: exclude it, or leave out `cpu_share` of an open loop that keeps its schedule.
    pub client_threads: Vec<ThreadUse>,
    /// CPU time of a relay between client and server, as a fraction of the duration. All data waits for its thread.
    pub relay_cpu_share: Option<f64>,
    /// The server, all threads summed up.
    pub server: Option<ThreadUse>,
    /// Fraction of the CPU time of all cores that neither server nor client used.
    pub background_cpu_share: Option<f64>,
    /// The lowest and the highest background CPU share of the variants of this comparison.
    pub background_cpu_of_variants: Option<(f64, f64)>,
    /// Fraction of the CPU time of all cores that the hypervisor gave to other machines.
    pub steal_share: Option<f64>,
}

/// The shares of a run in which a thread ran and waited for a core.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ThreadUse {
    /// CPU time as a fraction of the duration.
    pub cpu_share: f64,
    /// Time in which it was ready to run but had no core, as a fraction of the duration: the second field of
    /// `/proc/PID/task/TID/schedstat`.
    pub run_delay_share: Option<f64>,
}

impl ThreadUse {
    /// The run delay as a fraction of the duration, if it exceeds [`RUN_DELAY_MAX`].
    fn excessive_run_delay(self) -> Option<f64> {
        self.run_delay_share
            .filter(|delay| *delay > RUN_DELAY_NOTICEABLE && *delay > RUN_DELAY_MAX * self.cpu_share)
    }
}

/// The warnings of a run, those about the load first.
///
/// One function decides for a single run, each step of a search, and each run of an experiment, so that the same
/// run is never valid in one report and suspect in another.
#[must_use]
pub fn check(conditions: &Conditions) -> Vec<Warning> {
    [
        conditions.rate_not_kept(),
        conditions.schedule_delay(),
        conditions.failed(),
        conditions.client_saturated(),
        conditions
            .relay_cpu_share
            .filter(|share| *share >= CLIENT_CPU_MAX)
            .map(|share| Warning::RelayCpu { share }),
        conditions.client_run_delay(),
        conditions.server_run_delay(),
        conditions.littles_law(),
        conditions.background_cpu(),
        conditions.background_cpu_differs(),
        conditions.steal_share.filter(|share| *share > STEAL_MAX).map(|share| Warning::Steal { share }),
    ]
    .into_iter()
    .flatten()
    .collect()
}

impl Conditions {
    fn rate_not_kept(&self) -> Option<Warning> {
        let (sent, due) = (self.sent?, self.due?);
        let kept = share(sent, due).unwrap_or(1.0);
        (kept < RATE_KEPT_MIN).then(|| Warning::RateNotKept { kept, limit: self.limit() })
    }

    fn schedule_delay(&self) -> Option<Warning> {
        let p99 = self.schedule_delay_p99.filter(|p99| *p99 > SCHEDULE_DELAY_MAX)?;
        Some(Warning::ScheduleDelay { p99, limit: self.limit() })
    }

    /// A run without any request shows nothing, so it fails.
    fn failed(&self) -> Option<Warning> {
        let (succeeded, failed) = (self.succeeded?, self.failed?);
        let share = share(failed, succeeded + failed).unwrap_or(1.0);
        (share > FAILED_MAX).then_some(Warning::Failed { share })
    }

    /// An open loop that keeps its schedule has time left, whatever its threads do while they wait.
    fn client_saturated(&self) -> Option<Warning> {
        let keeps_schedule =
            self.due.is_some() && self.rate_not_kept().is_none() && self.schedule_delay().is_none();
        let share = self.busiest_client();
        (share >= CLIENT_CPU_MAX && !keeps_schedule).then_some(Warning::ClientCpu { share })
    }

    fn client_run_delay(&self) -> Option<Warning> {
        let delays = self.client_threads.iter().filter_map(|thread| thread.excessive_run_delay());
        delays.max_by(f64::total_cmp).map(|share| Warning::ClientRunDelay { share })
    }

    /// As a fraction of the time in which the server had work, because its threads wait at the same time.
    fn server_run_delay(&self) -> Option<Warning> {
        let server = self.server?;
        let delay = server.excessive_run_delay()?;
        Some(Warning::ServerRunDelay { share: delay / (delay + server.cpu_share) })
    }

    /// Little's law ("A proof for the queuing formula L = λW", Operations Research 9, 1961) where it shows a fault.
    ///
    /// More requests in flight than possible are a wrong count. In a closed loop, a connection is free only while
    /// its thread computes or waits for a core: a client that reads all responses before it sends requests has
    /// free connections, but none for longer than this. If more are free, requests were lost or not counted.
    fn littles_law(&self) -> Option<Warning> {
        #[expect(clippy::cast_precision_loss, reason = "a count of connections")]
        let capacity = self.capacity.filter(|capacity| *capacity > 0)? as f64;
        let in_flight = self.in_flight.filter(|in_flight| !in_flight.is_nan())?;
        // Each connection has at most one request at each end of the run that is partly outside of it.
        let ends = match (self.mean_latency, self.duration) {
            (Some(mean), Some(duration)) if !duration.is_zero() => {
                2.0 * mean.as_secs_f64() / duration.as_secs_f64()
            }
            _ => 0.0,
        };
        let excess = in_flight / capacity - 1.0;
        if excess > LITTLES_LAW_TOLERANCE + ends {
            return Some(Warning::LittlesLaw { in_flight, capacity });
        }
        let is_known = self.due.is_none() && !self.client_threads.is_empty();
        let busy = |thread: &ThreadUse| thread.cpu_share + thread.run_delay_share.unwrap_or(0.0);
        let batching = self.client_threads.iter().map(busy).fold(0.0, f64::max);
        (is_known && -excess > LITTLES_LAW_TOLERANCE + ends + batching)
            .then_some(Warning::LittlesLaw { in_flight, capacity })
    }

    fn background_cpu(&self) -> Option<Warning> {
        let share = self.background_cpu_share.filter(|share| *share > BACKGROUND_CPU_MAX)?;
        Some(Warning::BackgroundCpu { share })
    }

    fn background_cpu_differs(&self) -> Option<Warning> {
        let (lowest, highest) = self.background_cpu_of_variants?;
        (highest - lowest > BACKGROUND_CPU_DIFFERENCE_MAX)
            .then_some(Warning::BackgroundCpuDiffers { lowest, highest })
    }

    /// The cause of late requests; `None` if it is unknown.
    #[expect(clippy::cast_precision_loss, reason = "a count of connections")]
    fn limit(&self) -> Option<Limit> {
        if let (Some(most), Some(capacity)) = (self.most_in_flight, self.capacity)
            && most < capacity
        {
            // A connection was free at any time.
            return Some(if self.has_waited_for_a_core() { Limit::Machine } else { Limit::Client });
        }
        let used = Some(self.in_flight? / self.capacity.filter(|capacity| *capacity > 0)? as f64);
        if used.is_some_and(|used| used >= ALL_BUSY) {
            return Some(Limit::Server);
        }
        if self.has_waited_for_a_core() {
            return Some(Limit::Machine);
        }
        if self.busiest_client() >= CLIENT_CPU_MAX {
            return Some(Limit::Client);
        }
        // While a server stalls, a request waits no longer for a connection than the slowest response takes.
        let is_longer =
            self.schedule_delay_p99.zip(self.slowest_response).is_some_and(|(p99, slowest)| p99 > slowest);
        (is_longer && used.is_some_and(|used| used <= 0.5)).then_some(Limit::Client)
    }

    /// Whether the client had no core for long enough to explain the schedule delay: no request waits for a core for
    /// longer than the client did in total.
    fn has_waited_for_a_core(&self) -> bool {
        let Some(Warning::ClientRunDelay { share }) = self.client_run_delay() else { return false };
        self.duration
            .zip(self.schedule_delay_p99)
            .is_none_or(|(duration, delay)| share * duration.as_secs_f64() >= delay.as_secs_f64())
    }

    fn busiest_client(&self) -> f64 {
        self.client_threads.iter().map(|thread| thread.cpu_share).fold(0.0, f64::max)
    }
}

/// `None` for an empty sample.
#[expect(clippy::cast_precision_loss, reason = "a share has no use for more than 53 bits")]
fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}
