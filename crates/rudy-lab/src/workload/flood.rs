//! Runs `rudy flood` as a workload, and reads its report.

use std::collections::BTreeMap;

use rudy_experiment::record;
use rudy_units::{Time, float};
use serde::Deserialize;

use super::bench::{Measurement, is_supported};

#[derive(Deserialize)]
struct Report {
    connections: u64,
    most_open: u64,
    open_at_end: u64,
    connect_failed: u64,
    failures: BTreeMap<String, u64>,
    closed_by_server: u64,
    chunk_delay_us: Times,
    ramp_s: f64,
    started_monotonic_s: f64,
    series: Vec<Point>,
}

#[derive(Deserialize)]
struct Point {
    at_s: f64,
    open: u64,
}

/// The connections that a flood had open over time, by its own count. A gateway has more or fewer descriptors than clients, so those
/// of a server are no count of its connections.
#[derive(Debug, Default)]
pub(crate) struct OpenConnections {
    /// The start of the flood on the monotonic clock.
    started_s: f64,
    /// The time in which the connections were opened.
    ramp_s: f64,
    /// The number at each time since the start, in ascending order.
    points: Vec<(f64, f64)>,
}

impl OpenConnections {
    /// Connections that were opened from `started_s` on, in `ramp_s`, and their number at each time since then.
    pub(crate) fn new(started_s: f64, ramp_s: f64, points: Vec<(f64, f64)>) -> Self {
        Self { started_s, ramp_s, points }
    }

    /// The number of open connections at a time on the monotonic clock: 0 before the first count and after the last one.
    pub(crate) fn at(&self, monotonic_s: f64) -> u64 {
        let at = monotonic_s - self.started_s;
        let next = self.points.partition_point(|(time, _)| *time <= at);
        let Some(((from, before), (to, after))) =
            next.checked_sub(1).and_then(|last| Some((*self.points.get(last)?, *self.points.get(next)?)))
        else {
            return 0;
        };
        // Connections are opened evenly until the end of the ramp, and then remain.
        let [from, at, to] =
            [from, at, to].map(|time| if from < self.ramp_s { time.min(self.ramp_s) } else { time });
        let part = if to > from { (at - from) / (to - from) } else { 1.0 };
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between two counts")]
        let open = (before + (after - before) * part).round() as u64;
        open
    }
}

#[derive(Deserialize)]
struct Times {
    count: u64,
    p50: f64,
    p99: f64,
    max: f64,
}

/// Metrics that are lower with fewer connections.
const MEMORY: [&str; 2] = ["private_bytes", "private_bytes_per_connection"];

pub(super) fn arguments(connections: u32, ramp: Time, time: Time, is_idle: bool) -> Vec<String> {
    let (connections, ramp, time) = (connections.to_string(), ramp.to_string(), time.to_string());
    let command = ["flood", "--json", "-c", &connections, "--ramp", &ramp, "-d", &time];
    command.into_iter().chain(is_idle.then_some("--idle")).map(str::to_owned).collect()
}

pub(super) fn read(text: &str) -> Result<Measurement, String> {
    let report: Report = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let failed = report.connect_failed + report.closed_by_server + report.failures.values().sum::<u64>();
    #[expect(clippy::cast_precision_loss, reason = "at most as many as there are connections")]
    let mut metrics = BTreeMap::from([("errors".to_owned(), failed as f64)]);
    if report.chunk_delay_us.count > 0 {
        let late = &report.chunk_delay_us;
        for (name, quantile, value) in [
            ("schedule_delay_p50_ns", 0.5, late.p50),
            ("schedule_delay_p99_ns", 0.99, late.p99),
            ("schedule_delay_max_ns", 1.0, late.max),
        ] {
            if is_supported(quantile, late.count) {
                metrics.insert(name.to_owned(), value * 1e3);
            }
        }
    }
    let mut warnings = Vec::new();
    if report.open_at_end < report.connections {
        let sentence = format!(
            "{} of {} connections were open at the end: the cost of the others is missing",
            report.open_at_end, report.connections
        );
        let concerns = metrics.keys().cloned().chain(MEMORY.map(str::to_owned)).collect();
        warnings.push(record::Warning { sentence, concerns });
    }
    let points = report.series.iter().map(|point| (point.at_s, float(point.open))).collect();
    let open = Some(OpenConnections::new(report.started_monotonic_s, report.ramp_s, points));
    let connections = Some(report.most_open);
    Ok(Measurement { metrics, warnings, connections, open, ..Measurement::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_connections_at_a_time_are_those_that_the_flood_counted() {
        // 1,000 connections in half a second, which the flood counts at their tenth and once per second.
        let points = [(0.0, 0), (0.05, 100), (1.0, 1_000), (2.0, 1_000), (3.0, 900), (3.5, 900)];
        let series = points.map(|(at_s, open)| serde_json::json!({ "at_s": at_s, "open": open }));
        let report = serde_json::json!({
            "connections": 1_000, "most_open": 1_000, "open_at_end": 900, "connect_failed": 0, "failures": {},
            "closed_by_server": 100, "chunk_delay_us": { "count": 0, "p50": 0.0, "p99": 0.0, "max": 0.0 },
            "ramp_s": 0.5, "started_monotonic_s": 500.0, "series": series,
        });
        let measurement = read(&report.to_string()).unwrap();
        assert_eq!(measurement.connections, Some(1_000));
        let open = measurement.open.unwrap();
        for (at, expected) in [
            (-1.0, 0),
            (0.0, 0),
            (0.025, 50),
            (0.05, 100),
            (0.25, 500),
            (0.5, 1_000),
            (0.75, 1_000),
            (2.0, 1_000),
            (2.5, 950),
            (3.25, 900),
            (4.0, 0),
        ] {
            assert_eq!(open.at(500.0 + at), expected, "{at}");
        }
        assert_eq!(OpenConnections::default().at(0.0), 0);
    }
}
