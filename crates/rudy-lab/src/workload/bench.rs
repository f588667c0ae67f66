//! Runs `rudy bench` as a workload, and reads its report.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use rudy_experiment::plan::Kind;
use rudy_experiment::record::{self, Interval};
use rudy_load::bench::Run;
use rudy_stats::Histogram;
use rudy_stats::validity::{Conditions, ThreadUse};
use rudy_units::{Time, counted, duration, float};
use serde::Deserialize;
use serde_json::Value;

use super::flood::OpenConnections;

/// The results of a load generator.
#[derive(Debug, Default)]
pub(crate) struct Measurement {
    /// Its own metrics.
    pub(crate) metrics: BTreeMap<String, f64>,
    /// The number of complete responses, to compute the cost of each. Requests that were never sent cost nothing.
    pub(crate) requests: u64,
    /// The latency distribution.
    pub(crate) latency: Option<Vec<[f64; 2]>>,
    /// The conditions of the run that the generator knows.
    pub(crate) conditions: Conditions,
    /// An example of a failed request.
    pub(crate) failure: Option<String>,
    /// Warnings that do not follow from the conditions.
    pub(crate) warnings: Vec<record::Warning>,
    /// Facts that affect no metric.
    pub(crate) notes: Vec<String>,
    /// The maximum number of open connections of a flood.
    pub(crate) connections: Option<u64>,
    /// The connections of a flood over time.
    pub(crate) open: Option<OpenConnections>,
    /// The steps of an SLO search.
    pub(crate) steps: Vec<record::Step>,
}

impl Measurement {
    /// The CPU usage and the run delay of the generator, if it has not reported those of its threads: a flood has a
    /// single thread.
    pub(crate) fn generator_took(&mut self, cpu: Duration, time: Duration, run_delay: Option<f64>) {
        if self.metrics.contains_key("generator_share") || self.connections.is_none() {
            return;
        }
        let share = cpu.as_secs_f64() / time.as_secs_f64().max(1e-9);
        self.metrics.insert("generator_share".to_owned(), share);
        self.conditions.client_threads = vec![ThreadUse { cpu_share: share, run_delay_share: run_delay }];
    }
}

/// A row of `--ndjson`, with the fields that are shown over time.
#[derive(Deserialize)]
struct Row {
    end_s: f64,
    duration_s: f64,
    achieved_rate: Option<f64>,
    latency_us: Option<Value>,
}

pub(super) fn arguments(kind: &Kind, time: Option<Time>, rows: Option<&Path>) -> Vec<String> {
    let mut command: Vec<String> =
        ["bench", "--plain", "--json", "-", "--warm-up-time", "0"].map(str::to_owned).to_vec();
    if matches!(kind, Kind::Bench { streams: Some(_), .. }) {
        command.push("--http2".to_owned());
    }
    let mut add = |name: &str, value: String| command.extend([name.to_owned(), value]);
    match kind {
        Kind::Bench { connections, time: own, rate, requests, is_closing, streams } => {
            add("-c", connections.to_string());
            match requests {
                // Requests of the warm-up have a duration.
                Some(requests) if time.is_none() => add("-n", requests.to_string()),
                _ => add("-d", time.unwrap_or(*own).to_string()),
            }
            if *is_closing {
                add("--requests-per-connection", "1".to_owned());
            }
            if let Some(rate) = rate {
                add("-R", rate.to_string());
            }
            if let Some(streams) = streams {
                add("--streams", streams.to_string());
            }
        }
        // Each request has its own connection, like independent browsers.
        Kind::Burst { requests, timeout } => {
            add("-c", requests.to_string());
            add("-n", requests.to_string());
            add("--requests-per-connection", "1".to_owned());
            // The metric is how long the last of them waits.
            add("--timeout", timeout.to_string());
        }
        Kind::Sequence { requests, keeps_alive } => {
            add("-c", "1".to_owned());
            add("-n", requests.to_string());
            if !keeps_alive {
                add("--requests-per-connection", "1".to_owned());
            }
        }
        Kind::MaxRate { .. } | Kind::Idle { .. } | Kind::Flood { .. } | Kind::Run { .. } => {}
    }
    if let Some(rows) = rows {
        add("--ndjson", rows.to_string_lossy().into_owned());
    }
    command
}

pub(super) fn read(text: &str, kind: &Kind) -> Result<Measurement, String> {
    let run: Run = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let recorder = &run.outcome.recorder;
    // A request that was given up waited at least this long. Leaving it out would hide the longest waits.
    let mut latency = recorder.latency.clone();
    latency.merge(&recorder.given_up);
    let latency = Some(latency).filter(|latency| !latency.is_empty());
    let mut metrics = metrics(&run, kind, latency.as_ref());
    if run.config.is_open() {
        let delay = recorder.schedule_delay.quantile(0.99);
        metrics.insert("client_schedule_delay_p99_ns".to_owned(), nanoseconds(delay));
    }
    Ok(Measurement {
        conditions: run.conditions(),
        failure: recorder.failures.values().find_map(|failed| failed.example.clone()),
        notes: latency.as_ref().and_then(saturated).into_iter().collect(),
        metrics,
        requests: recorder.responses(),
        latency: latency.as_ref().map(distribution),
        ..Measurement::default()
    })
}

#[expect(clippy::cast_precision_loss, reason = "counts of requests that a lab waits for")]
fn metrics(run: &Run, kind: &Kind, latency: Option<&Histogram>) -> BTreeMap<String, f64> {
    let recorder = &run.outcome.recorder;
    let mut metrics = BTreeMap::from([
        ("requests_per_s".to_owned(), run.responses_per_second()),
        ("errors".to_owned(), recorder.requests().saturating_sub(recorder.succeeded) as f64),
        ("generator_share".to_owned(), run.client_cpu()),
    ]);
    if matches!(kind, Kind::Bench { .. }) {
        // The observed nines are infinite without a failure; those of the bound are not.
        metrics.insert("nines".to_owned(), run.success_rate().nines_lower_bound());
    }
    if matches!(kind, Kind::Burst { .. } | Kind::Sequence { .. }) {
        let mut time = run.outcome.duration;
        if matches!(kind, Kind::Sequence { keeps_alive: true, .. }) {
            // A connection that is kept was opened before the measurement.
            time += recorder.connect.max() + recorder.tls.max();
        }
        metrics.insert("time_s".to_owned(), time.as_secs_f64());
    }
    if recorder.responses() > 0 {
        let cpu: Duration = run.outcome.threads.iter().map(|thread| thread.cpu).sum();
        let each = cpu.as_secs_f64() * 1e6 / recorder.responses() as f64;
        metrics.insert("client_cpu_us_per_request".to_owned(), each);
    }
    metrics.extend(handshakes(run));
    for (name, quantile) in [("p50_ns", 0.5), ("p90_ns", 0.9), ("p99_ns", 0.99), ("p999_ns", 0.999)] {
        // Without a value beyond it, a percentile would be the maximum under another name.
        let value = latency.and_then(|latency| latency.quantile_if_supported(quantile));
        metrics.extend(value.map(|value| (name.to_owned(), nanoseconds(value))));
    }
    metrics.extend(latency.map(|latency| ("max_ns".to_owned(), nanoseconds(latency.max()))));
    metrics
}

/// The metrics of TLS handshakes, if there are any.
fn handshakes(run: &Run) -> Vec<(String, f64)> {
    let (recorder, handshakes) = (&run.outcome.recorder, &run.outcome.recorder.handshakes);
    if handshakes.count == 0 {
        return Vec::new();
    }
    let share = |count: u64| float(count) / float(handshakes.count);
    let seconds = run.outcome.duration.as_secs_f64().max(1e-9);
    let metrics = [
        ("handshakes_per_s", float(handshakes.count) / seconds),
        ("resumed_share", share(handshakes.resumed)),
        ("early_data_share", share(handshakes.early_data_accepted)),
        ("handshake_client_cpu_us", handshakes.cpu.as_secs_f64() * 1e6 / float(handshakes.count)),
        ("tls_done_ns", nanoseconds(recorder.connect.mean() + recorder.tls.mean())),
    ];
    metrics.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Whether a quantile has a value beyond it, as in [`Histogram::quantile_if_supported`], or is the maximum.
pub(super) fn is_supported(quantile: f64, count: u64) -> bool {
    quantile >= 1.0 || float(count) * (1.0 - quantile) > 1.0 - 1e-9
}

/// A note about latencies that were cut.
fn saturated(latency: &Histogram) -> Option<String> {
    let count = latency.saturated();
    let hour = duration(Histogram::MAX);
    (count > 0).then(|| format!("{} took {hour} or longer, and count as {hour}", counted(count, "request")))
}

/// Points per factor of ten of the remaining requests, for drawing a distribution.
const POINTS: u32 = 50;

/// Quantiles that approach 1, to one in a hundred thousand, as far as there are requests above them.
fn distribution(latency: &Histogram) -> Vec<[f64; 2]> {
    let mut points = vec![[0.0, nanoseconds(latency.min())]];
    for point in 0..=POINTS {
        let above = 10_f64.powf(-f64::from(point) / 10.0);
        #[expect(clippy::cast_precision_loss, reason = "a count of requests")]
        let has_any = above * latency.len() as f64 >= 1.0;
        if has_any && point > 0 {
            points.push([1.0 - above, nanoseconds(latency.quantile(1.0 - above))]);
        }
    }
    points.push([1.0, nanoseconds(latency.max())]);
    points
}

fn nanoseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e9
}

/// The rows of a run. A row that cannot be parsed is missing over time, and changes no metric.
pub(crate) fn intervals(rows: &str) -> Vec<Interval> {
    let read = |line: &str| {
        let row: Row = serde_json::from_str(line).ok()?;
        // The row after the last whole interval is not an interval.
        let requests_per_s = row.achieved_rate.filter(|_| row.duration_s >= 0.5)?;
        let quantile = |name: &str| Some(row.latency_us.as_ref()?.get(name)?.as_f64()? * 1e3);
        Some(Interval { t_s: row.end_s, requests_per_s, p50_ns: quantile("p50"), p99_ns: quantile("p99") })
    };
    rows.lines().filter_map(read).collect()
}

#[cfg(test)]
mod tests {
    use rudy_load::bench::{Outcome, Recorder, ThreadTime};
    use rudy_request::Failure;

    use super::*;

    /// A second of a closed loop on 64 connections, with responses after 1 ms.
    fn run(requests: u64, succeeded: u64) -> Run {
        let config = serde_json::json!({
            "target": "http://127.0.0.1:1/", "urls": 1, "remote": "127.0.0.1:1", "connections": 64, "threads": 1,
            "pipeline": 1, "requests_per_connection": null, "rate": null, "rate_at_end": null, "arrivals": null,
            "seed": null, "duration_s": 1.0, "requests": null, "warm_up_s": 0.0, "timeout_s": 10.0, "deadline_s": null,
        });
        let mut recorder = Recorder::default();
        for number in 0..requests {
            let is_success = number < succeeded;
            recorder.record_response(
                if is_success { 200 } else { 500 },
                Duration::from_millis(1),
                is_success,
            );
        }
        let thread = ThreadTime {
            cpu: Duration::from_millis(500),
            wall: Duration::from_secs(1),
            ..ThreadTime::default()
        };
        let outcome = Outcome {
            recorder,
            duration: Duration::from_secs(1),
            threads: vec![thread],
            ..Outcome::default()
        };
        Run { config: serde_json::from_value(config).expect("a configuration"), outcome }
    }

    fn measurement(run: &Run, kind: &Kind) -> Measurement {
        read(&serde_json::to_string(run).expect("a run is JSON"), kind).expect("a report")
    }

    fn closed() -> Kind {
        Kind::Bench {
            connections: 64,
            time: Time(Duration::from_secs(1)),
            rate: None,
            requests: None,
            is_closing: false,
            streams: None,
        }
    }

    #[test]
    fn a_complete_run_has_no_warning_and_one_with_errors_has() {
        let warnings = |run| crate::run::warnings(&measurement(&run, &closed()), None, None);
        assert_eq!(warnings(run(64_000, 64_000)).len(), 0);
        let warnings = warnings(run(64_000, 63_000));
        assert!(warnings[0].sentence.contains("of the requests failed"), "{warnings:?}");
        assert!(warnings[0].concerns.iter().any(|name| name == "cpu_us_per_request"));
    }

    #[test]
    fn the_run_delay_of_its_threads_is_a_condition() {
        let mut run = run(64_000, 64_000);
        run.outcome.threads[0].run_delay = Duration::from_millis(450);
        let threads = measurement(&run, &closed()).conditions.client_threads;
        assert_eq!(threads[0].run_delay_share, Some(0.45));
    }

    #[test]
    fn a_percentile_without_a_value_beyond_it_is_missing() {
        let has = |requests| {
            let metrics = measurement(&run(requests, requests), &closed()).metrics;
            ["p50_ns", "p90_ns", "p99_ns", "p999_ns", "max_ns"].map(|name| metrics.contains_key(name))
        };
        assert_eq!(has(99), [true, true, false, false, true]);
        assert_eq!(has(100), [true, true, true, false, true]);
        assert_eq!(has(1000), [true; 5]);
        assert_eq!(has(0), [false; 5]);
    }

    #[test]
    fn latencies_that_were_cut_are_noted() {
        let mut run = run(1000, 1000);
        assert_eq!(measurement(&run, &closed()).notes, [""; 0]);
        run.outcome.recorder.given_up.record_n(Duration::from_hours(2), 2);
        let notes = measurement(&run, &closed()).notes;
        assert_eq!(notes, ["2 requests took 3,600 s or longer, and count as 3,600 s"]);
    }

    #[test]
    fn requests_that_were_given_up_are_in_the_percentiles() {
        let mut run = run(196, 196);
        run.outcome.recorder.given_up.record_n(Duration::from_secs(2), 4);
        let p99 = measurement(&run, &closed()).metrics["p99_ns"];
        assert!((2e9..2.1e9).contains(&p99), "{p99}");
    }

    #[test]
    fn a_number_of_requests_is_none_of_a_warm_up() {
        let time = Time(Duration::from_secs(1));
        let bench = Kind::Bench {
            connections: 2,
            time,
            rate: None,
            requests: Some(1000),
            is_closing: true,
            streams: Some(10),
        };
        let command = |warm_up| arguments(&bench, warm_up, None).join(" ");
        let expected = "-c 2 -n 1000 --requests-per-connection 1 --streams 10";
        assert!(command(None).ends_with(expected), "{}", command(None));
        assert!(command(None).contains(" --http2 "), "{}", command(None));
        assert!(command(Some(time)).contains("-d 1s") && !command(Some(time)).contains("-n "));
    }

    #[test]
    fn a_distribution_ascends_and_goes_no_further_than_its_requests() {
        let mut latency = Histogram::new();
        for ms in 1..=1000 {
            latency.record(Duration::from_millis(ms));
        }
        let points = distribution(&latency);
        assert!(points.windows(2).all(|pair| pair[0][0] < pair[1][0] && pair[0][1] <= pair[1][1]));
        let last = points[points.len() - 2][0];
        assert!((0.998..=0.999_001).contains(&last), "{last}");
    }

    /// An overloaded open loop: half of the requests were due and never sent.
    #[test]
    fn cpu_per_request_counts_complete_responses() {
        let mut run = run(1_000, 900);
        for _ in 0..1_000 {
            run.outcome.recorder.record_failure(&Failure::NotSent, Duration::from_secs(1));
        }
        let measurement = measurement(&run, &closed());
        assert_eq!(measurement.requests, 1_000);
        let text = |name: &str| format!("{:.0}", measurement.metrics[name]);
        assert_eq!(
            (text("client_cpu_us_per_request"), text("errors")),
            ("500".to_owned(), "1100".to_owned())
        );
    }

    #[test]
    fn the_time_of_a_burst_is_a_metric_and_that_of_a_bench_is_none() {
        let burst = Kind::Burst { requests: 10, timeout: Time(Duration::from_mins(1)) };
        assert!(measurement(&run(10, 10), &burst).metrics.contains_key("time_s"));
        assert!(!measurement(&run(10, 10), &closed()).metrics.contains_key("time_s"));
    }
}
