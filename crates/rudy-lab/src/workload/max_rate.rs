//! Runs `rudy bench --slo` as a workload, and reads its report.

use std::collections::BTreeMap;
use std::time::Duration;

use rudy_stats::knee::{HOLDS_MAX, STEPS_MAX};
use rudy_units::Time;
use serde::Deserialize;

use super::bench::Measurement;
use crate::record::{self, Step};

/// The exit code of `rudy bench` if not even the lowest rate passed, which is a valid result.
pub(super) const NONE_HELD: i32 = 3;

/// The maximum pause between two steps.
const COOL_DOWN: Duration = Duration::from_secs(1);

#[derive(Deserialize)]
struct Report {
    slo: String,
    held_rate: Option<f64>,
    is_at_least: bool,
    steps: Vec<StepReport>,
}

#[derive(Deserialize)]
struct StepReport {
    rate: f64,
    held: bool,
    words: String,
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

/// The maximum duration of a search, including the closed loop at its start.
pub(super) fn bound(time: Time, hold: Time) -> Duration {
    (time.0 + COOL_DOWN) * (STEPS_MAX + 1) + (hold.0 + COOL_DOWN) * HOLDS_MAX
}

pub(super) fn read(text: &str) -> Result<Measurement, String> {
    let report: Report = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let mut measurement =
        Measurement { steps: report.steps.into_iter().map(Step::from).collect(), ..Measurement::default() };
    let about = |sentence: String| record::Warning { sentence, concerns: vec!["max_rate_per_s".to_owned()] };
    match report.held_rate {
        Some(rate) => {
            measurement.metrics.insert("max_rate_per_s".to_owned(), rate);
        }
        None => measurement.warnings.push(about(format!("no rate held {}", report.slo))),
    }
    if report.is_at_least {
        measurement.warnings.push(about("the generator broke first: the server may hold more".to_owned()));
    }
    Ok(measurement)
}

impl From<StepReport> for Step {
    fn from(step: StepReport) -> Self {
        let p99_us = step.run.and_then(|run| run.latency_us?.get("p99")?.as_f64());
        Self { rate_per_s: step.rate, p99_ns: p99_us.map(|us| us * 1e3), held: step.held, words: step.words }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_max_rate_is_the_rate_that_held_and_each_step_is_kept() {
        let text = r#"{"slo": "p99<20ms", "held_rate": 1200.5, "is_at_least": false, "steps": [
            {"rate": 1200.5, "held": true, "words": "p99 3 ms", "run": {"latency_us": {"p99": 3000.0}}},
            {"rate": 2400, "held": false, "words": "nothing could be connected to", "run": null}]}"#;
        let measurement = read(text).unwrap();
        assert_eq!(measurement.metrics, BTreeMap::from([("max_rate_per_s".to_owned(), 1200.5)]));
        assert_eq!((measurement.steps[0].p99_ns, measurement.steps[1].p99_ns), (Some(3e6), None));
        assert!(measurement.warnings.is_empty());
    }

    #[test]
    fn that_nothing_held_or_more_might_is_suspect() {
        let measurement =
            read(r#"{"slo": "p99<1ms", "held_rate": null, "is_at_least": true, "steps": []}"#).unwrap();
        assert!(measurement.metrics.is_empty());
        assert_eq!(measurement.warnings.len(), 2);
        assert!(measurement.warnings[0].sentence.contains("p99<1ms"));
    }
}
