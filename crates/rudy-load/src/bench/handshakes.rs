//! The TLS handshakes of a run.

use std::time::Duration;

use rudy_request::{EarlyData, Handshake};
use serde::{Deserialize, Serialize};

use super::json;
use crate::units;

/// Counts of TLS handshakes, and what they cost the load generator.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Handshakes {
    /// Complete handshakes.
    #[serde(rename = "handshakes")]
    pub count: u64,
    /// Those that continued an earlier session.
    #[serde(rename = "handshakes_resumed")]
    pub resumed: u64,
    /// Those whose early data the server accepted.
    pub early_data_accepted: u64,
    /// Those whose early data the server rejected, so that it was sent again.
    pub early_data_rejected: u64,
    /// CPU time that the load generator spent in handshakes.
    #[serde(rename = "handshake_cpu_s", with = "json::seconds")]
    pub cpu: Duration,
}

impl Handshakes {
    pub(super) fn record(&mut self, handshake: &Handshake) {
        self.count += 1;
        self.resumed += u64::from(handshake.is_resumed);
        self.early_data_accepted += u64::from(handshake.early_data == EarlyData::Accepted);
        self.early_data_rejected += u64::from(handshake.early_data == EarlyData::Rejected);
        self.cpu += handshake.cpu;
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.resumed += other.resumed;
        self.early_data_accepted += other.early_data_accepted;
        self.early_data_rejected += other.early_data_rejected;
        self.cpu += other.cpu;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// `1200 (400/s): 8 full, 1192 resumed, 1190 with early data; 0.2 ms of client CPU each, 8 % of a core`.
    pub(super) fn describe(&self, duration: Duration, wants_early_data: bool) -> String {
        let Self { count, resumed, .. } = *self;
        let rate = units::per_second(count, duration);
        let early_data = match (self.early_data_accepted, self.early_data_rejected) {
            (0, 0) if !wants_early_data => String::new(),
            (accepted, 0) => format!(", {accepted} with early data"),
            (accepted, rejected) => format!(", {accepted} with early data, {rejected} whose was rejected"),
        };
        let each = self.cpu.div_f64(units::float(count.max(1)));
        let share = self.cpu.as_secs_f64() / duration.as_secs_f64().max(1e-9) * 100.0;
        format!(
            "{count} ({rate:.0}/s): {} full, {resumed} resumed{early_data}; {} of client CPU each, {share:.0} % of a core",
            count - resumed,
            units::duration(each)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handshakes_are_added_and_described() {
        let handshake =
            |is_resumed, early_data| Handshake { is_resumed, early_data, cpu: Duration::from_micros(200) };
        let (mut one, mut other) = (Handshakes::default(), Handshakes::default());
        one.record(&handshake(false, EarlyData::NotSent));
        other.record(&handshake(true, EarlyData::Accepted));
        other.record(&handshake(true, EarlyData::Rejected));
        one.merge(&other);
        assert_eq!(
            one.describe(Duration::from_millis(500), true),
            "3 (6/s): 1 full, 2 resumed, 1 with early data, 1 whose was rejected; 200 µs of client CPU each, 0 % of a core"
        );
        let none = Handshakes { count: 1, ..Handshakes::default() };
        assert!(none.describe(Duration::from_secs(1), true).contains("0 resumed, 0 with early data;"));
        assert!(none.describe(Duration::from_secs(1), false).contains("0 resumed; "));
    }
}
