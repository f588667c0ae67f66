//! Runs `rudy flood` as a workload, and reads its report.

use std::collections::BTreeMap;

use rudy_units::Time;
use serde::Deserialize;

use super::bench::{Measurement, is_supported};
use crate::record;

#[derive(Deserialize)]
struct Report {
    connections: u64,
    most_open: u64,
    open_at_end: u64,
    connect_failed: u64,
    failures: BTreeMap<String, u64>,
    closed_by_server: u64,
    chunk_delay_us: Times,
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
    Ok(Measurement { metrics, warnings, connections: Some(report.most_open), ..Measurement::default() })
}
