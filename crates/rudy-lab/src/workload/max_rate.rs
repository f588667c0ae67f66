//! Runs `rudy bench --slo` as a workload, and reads its report.

use std::collections::BTreeMap;
use std::time::Duration;

use rudy_experiment::record::{self, Step};
use rudy_stats::search::{HOLDS_MAX, STEPS_MAX};
use rudy_units::Time;
use serde::Deserialize;

use super::bench::Measurement;

/// The maximum pause between two steps.
const COOL_DOWN: Duration = Duration::from_secs(1);

/// The timeout of a response, which is the default of `rudy bench`.
const TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Deserialize)]
struct Report {
    slo: String,
    max_rate_per_s: Option<f64>,
    is_lower_bound: bool,
    #[serde(default)]
    incomplete: Option<String>,
    steps: Vec<StepReport>,
}

#[derive(Deserialize)]
struct StepReport {
    rate_per_s: f64,
    passed: bool,
    reason: String,
    run: Option<RunReport>,
}

#[derive(Deserialize)]
struct RunReport {
    latency_us: Option<BTreeMap<String, serde_json::Value>>,
}

pub(super) fn arguments(slo: &str, connections: u32, time: Time, hold: Time) -> Vec<String> {
    let (connections, time, hold) = (connections.to_string(), time.to_string(), hold.to_string());
    let flags = ["--slo", slo, "-c", &connections, "--step-time", &time, "--hold-time", &hold];
    let words = ["bench", "--plain", "--json", "-"].into_iter().chain(flags);
    words.map(str::to_owned).collect()
}

/// The maximum duration of a search, including the closed loop at its start. Each step can wait for its last responses,
/// up to the timeout.
pub(super) fn bound(time: Time, hold: Time) -> Duration {
    let after = COOL_DOWN + TIMEOUT;
    (time.0 + after) * (STEPS_MAX + 1) + (hold.0 + after) * HOLDS_MAX
}

pub(super) fn read(text: &str) -> Result<Measurement, String> {
    let report: Report = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let mut measurement =
        Measurement { steps: report.steps.into_iter().map(Step::from).collect(), ..Measurement::default() };
    let about = |sentence: String| record::Warning { sentence, concerns: vec!["max_rate_per_s".to_owned()] };
    match report.max_rate_per_s {
        Some(rate) => {
            measurement.metrics.insert("max_rate_per_s".to_owned(), rate);
        }
        None => measurement.warnings.push(about(format!("no rate met {}", report.slo))),
    }
    if let Some(incomplete) = report.incomplete {
        let why = incomplete.replace('_', " ");
        measurement.warnings.push(about(format!("the search is incomplete: {why}")));
    }
    if report.is_lower_bound {
        measurement
            .warnings
            .push(about("the server was not the limit, and may sustain a higher rate".to_owned()));
    }
    Ok(measurement)
}

impl From<StepReport> for Step {
    fn from(step: StepReport) -> Self {
        let p99_us = step.run.and_then(|run| run.latency_us?.get("p99")?.as_f64());
        Self {
            rate_per_s: step.rate_per_s,
            p99_ns: p99_us.map(|us| us * 1e3),
            passed: step.passed,
            reason: step.reason,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_max_rate_is_read_with_each_step() {
        let text = r#"{"slo": "p99<20ms", "max_rate_per_s": 1200.5, "is_lower_bound": false, "steps": [
            {"rate_per_s": 1200.5, "passed": true, "reason": "p99 3 ms", "run": {"latency_us": {"p99": 3000.0}}},
            {"rate_per_s": 2400, "passed": false, "reason": "nothing could be connected to", "run": null}]}"#;
        let measurement = read(text).unwrap();
        assert_eq!(measurement.metrics, BTreeMap::from([("max_rate_per_s".to_owned(), 1200.5)]));
        assert_eq!((measurement.steps[0].p99_ns, measurement.steps[1].p99_ns), (Some(3e6), None));
        assert!(measurement.warnings.is_empty());
    }

    #[test]
    fn a_search_without_a_maximum_has_warnings() {
        let measurement =
            read(r#"{"slo": "p99<1ms", "max_rate_per_s": null, "is_lower_bound": true, "steps": []}"#)
                .unwrap();
        assert!(measurement.metrics.is_empty());
        assert_eq!(measurement.warnings.len(), 2);
        assert!(measurement.warnings[0].sentence.contains("p99<1ms"));
    }
}
