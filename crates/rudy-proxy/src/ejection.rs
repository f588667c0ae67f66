//! When an upstream that fails gets no requests.

use std::time::Duration;

use http::StatusCode;
use rudy_config::{Int, OneOrMany, Table};
use rudy_units::{Time, Timeout};
use rudy_upstream::CircuitOptions;

/// When an upstream is ejected: it gets no requests, as long as others are up.
#[derive(Debug, Clone, PartialEq, Eq, Table)]
#[setting(default)]
pub struct EjectionTable {
    /// Number of consecutive failures that eject an upstream. A failure is a connection that the upstream rejects or loses, a response that
    /// is invalid or late, and a response with one of `statuses`.
    #[setting(default = Int(1))]
    pub failures: Int<1, 1000>,
    /// Statuses of responses that are failures. The default is none: an application may respond with 500 to a certain request only.
    #[setting(example = [502, 503])]
    pub statuses: Option<OneOrMany<Int<500, 599>>>,
    /// How many times as long as those of the others the responses of an upstream must take to eject it: its average above 10 ms, compared
    /// with the median of the averages of the others, after each 20 responses. The default is that the time does not matter.
    #[setting(example = 3)]
    pub latency_ratio: Option<Int<2, 1000>>,
    /// Duration of the first ejection. After it, the upstream gets one request as a trial. If the trial fails, the next ejection lasts twice
    /// as long.
    #[setting(default = Time(Duration::from_secs(1)), reason = "A restart of an application takes about that long.")]
    pub duration: Timeout,
    /// Maximum duration of an ejection.
    #[setting(default = Time(Duration::from_secs(10)), reason = "As in nginx: longer ones leave an upstream that is up again without work.")]
    pub duration_max: Timeout,
}

impl EjectionTable {
    /// Returns the options of the pool.
    pub(super) fn circuit(&self, slow_start: Duration) -> CircuitOptions {
        CircuitOptions {
            failures: self.failures.as_u32(),
            ejection: self.duration.0,
            ejection_max: self.duration_max.0,
            slow_start,
            latency_ratio: self.latency_ratio.map(Int::as_u32),
        }
    }

    /// Returns the statuses that are failures.
    pub(super) fn statuses(&self) -> FailureStatuses {
        let statuses = self.statuses.as_ref().map_or(&[][..], OneOrMany::as_slice);
        FailureStatuses(statuses.iter().fold(0, |bits, status| bits | bit(status.as_u16())))
    }
}

/// Statuses from 500 to 599, each as a bit.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct FailureStatuses(u128);

impl FailureStatuses {
    pub(super) fn contains(self, status: StatusCode) -> bool {
        self.0 & bit(status.as_u16()) != 0
    }
}

fn bit(status: u16) -> u128 {
    let bit = status.checked_sub(500).filter(|bit| *bit < 100);
    bit.map_or(0, |bit| 1 << bit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_are_a_set() {
        let statuses = [500, 503, 599].into_iter().map(Int).collect();
        let table = EjectionTable { statuses: Some(statuses), ..EjectionTable::default() };
        let is_failure = |status| table.statuses().contains(StatusCode::from_u16(status).unwrap());
        assert_eq!((100..1000).filter(|status| is_failure(*status)).collect::<Vec<_>>(), [500, 503, 599]);
        assert!(!EjectionTable::default().statuses().contains(StatusCode::BAD_GATEWAY));
    }
}
