//! Runs `rudy bench` as a workload, and reads its report.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use rudy_stats::Histogram;
use rudy_stats::validity;
use rudy_units::Time;
use serde::Deserialize;
use serde_json::Value;

use crate::plan::Kind;
use crate::record::{self, Interval};

/// The results of a load generator.
#[derive(Debug, Default)]
pub(crate) struct Measurement {
    /// Its own metrics.
    pub(crate) metrics: BTreeMap<String, f64>,
    /// The number of requests that ended, to compute the cost per request.
    pub(crate) requests: u64,
    /// The latency distribution.
    pub(crate) latency: Option<Vec<[f64; 2]>>,
    /// Validity warnings.
    pub(crate) warnings: Vec<record::Warning>,
    /// The number of open connections of a flood.
    pub(crate) connections: Option<u64>,
    /// The steps of an SLO search.
    pub(crate) steps: Vec<record::Step>,
}

impl Measurement {
    /// The CPU usage of the generator, if it has not reported that of its threads: a flood has a single
    /// thread.
    pub(crate) fn generator_took(&mut self, cpu: Duration, time: Duration) {
        if self.metrics.contains_key("generator_share") || self.connections.is_none() {
            return;
        }
        let share = cpu.as_secs_f64() / time.as_secs_f64().max(1e-9);
        self.metrics.insert("generator_share".to_owned(), share);
        self.warnings.extend(validity::generator(share).err().map(|warning| concerning(&warning)));
    }
}

#[derive(Deserialize)]
struct Report {
    duration_s: f64,
    achieved_rate: f64,
    unsent: u64,
    nines: Nines,
    requests: u64,
    sent: u64,
    right: u64,
    threads: Vec<Thread>,
    latency_histogram: Option<String>,
    schedule_lag_histogram: Option<String>,
    #[serde(default)]
    error_examples: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct Nines {
    proven: f64,
}

#[derive(Deserialize)]
struct Thread {
    cpu_s: f64,
    wall_s: f64,
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
    let mut add = |name: &str, value: String| command.extend([name.to_owned(), value]);
    match kind {
        Kind::Bench { connections, time: own, rate, requests, is_closing } => {
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
        }
        // Each request has its own connection, like independent browsers.
        Kind::Burst { requests, timeout } => {
            add("-c", requests.to_string());
            add("-n", requests.to_string());
            add("--requests-per-connection", "1".to_owned());
            // The metric is how long the last of them waits.
            add("--timeout", timeout.to_string());
        }
        Kind::Sequence { requests } => {
            add("-c", "1".to_owned());
            add("-n", requests.to_string());
            add("--requests-per-connection", "1".to_owned());
        }
        Kind::MaxRate { .. } | Kind::Idle { .. } | Kind::Flood { .. } | Kind::Run { .. } => {}
    }
    if let Some(rows) = rows {
        add("--ndjson", rows.to_string_lossy().into_owned());
    }
    command
}

pub(super) fn read(text: &str, kind: &Kind) -> Result<Measurement, String> {
    let report: Report = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let histogram = |blob: &Option<String>| {
        let histogram = blob.as_deref().map(Histogram::from_base64).transpose();
        histogram.map_err(|error| error.to_string())
    };
    let latency = histogram(&report.latency_histogram)?;
    let lag = histogram(&report.schedule_lag_histogram)?;
    let mut metrics = report.metrics(kind, latency.as_ref());
    if let Some(lag) = &lag {
        metrics.insert("generator_lag_p99_ns".to_owned(), nanoseconds(lag.quantile(0.99)));
    }
    Ok(Measurement {
        warnings: report.warnings(kind, latency.as_ref(), lag.as_ref()),
        metrics,
        requests: report.requests,
        latency: latency.as_ref().map(distribution),
        ..Measurement::default()
    })
}

impl Report {
    #[expect(clippy::cast_precision_loss, reason = "counts of requests that a lab waits for")]
    fn metrics(&self, kind: &Kind, latency: Option<&Histogram>) -> BTreeMap<String, f64> {
        let mut metrics = BTreeMap::from([
            ("requests_per_s".to_owned(), self.achieved_rate),
            ("errors".to_owned(), self.requests.saturating_sub(self.right) as f64),
            ("generator_share".to_owned(), self.busiest()),
        ]);
        if matches!(kind, Kind::Bench { .. }) {
            // The observed nines are infinite without a failure; the proven ones are not.
            metrics.insert("nines".to_owned(), self.nines.proven);
        }
        if matches!(kind, Kind::Burst { .. } | Kind::Sequence { .. }) {
            metrics.insert("time_s".to_owned(), self.duration_s);
        }
        for (name, quantile) in [("p50_ns", 0.5), ("p90_ns", 0.9), ("p99_ns", 0.99), ("p999_ns", 0.999)] {
            metrics.extend(latency.map(|latency| (name.to_owned(), nanoseconds(latency.quantile(quantile)))));
        }
        metrics.extend(latency.map(|latency| ("max_ns".to_owned(), nanoseconds(latency.max()))));
        metrics
    }

    /// The CPU usage of the busiest generator thread.
    fn busiest(&self) -> f64 {
        self.threads.iter().map(|thread| thread.cpu_s / thread.wall_s.max(1e-9)).fold(0.0, f64::max)
    }

    fn warnings(
        &self,
        kind: &Kind,
        latency: Option<&Histogram>,
        lag: Option<&Histogram>,
    ) -> Vec<record::Warning> {
        let mut gates = vec![validity::errors(self.right, self.requests)];
        if let Kind::Bench { connections, rate, is_closing, .. } = kind {
            if rate.is_some() {
                gates.push(validity::rate_kept(self.sent, self.sent + self.unsent));
                gates.push(lag.map_or(Ok(()), |lag| validity::on_time(lag.quantile(0.99))));
            } else {
                let mean = latency.map_or(Duration::ZERO, Histogram::mean);
                // If each request has its own connection, no request is in flight while it opens.
                if !is_closing {
                    gates.push(validity::littles_law(f64::from(*connections), self.achieved_rate, mean));
                }
                gates.push(validity::generator(self.busiest()));
            }
        }
        gates.into_iter().filter_map(Result::err).map(|warning| self.with_example(&warning)).collect()
    }

    /// A warning in its recorded form; one about errors with an example.
    fn with_example(&self, warning: &validity::Doubt) -> record::Warning {
        let mut recorded = concerning(warning);
        let example = self.error_examples.values().next();
        if let (validity::Doubt::Errors { .. }, Some(example)) = (warning, example) {
            recorded.sentence.push_str("; for example: ");
            recorded.sentence.push_str(example);
        }
        recorded
    }
}

/// A warning with the names of the affected metrics.
pub(super) fn concerning(warning: &validity::Doubt) -> record::Warning {
    let of = |metric, names: &[&str]| {
        let names = if warning.concerns(metric) { names } else { &[] };
        names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>()
    };
    let concerns = [
        of(validity::Figure::Latency, &["p50_ns", "p90_ns", "p99_ns", "p999_ns", "max_ns", "time_s"]),
        of(
            validity::Figure::Latency,
            &["schedule_delay_p50_ns", "schedule_delay_p99_ns", "schedule_delay_max_ns"],
        ),
        of(validity::Figure::Rate, &["requests_per_s"]),
        of(
            validity::Figure::CpuPerRequest,
            &["cpu_us_per_request", "cpu_user_us_per_request", "cpu_system_us_per_request"],
        ),
        of(validity::Figure::Memory, &["private_bytes", "private_bytes_per_connection"]),
        // Requests that were not sent have not succeeded either.
        if matches!(warning, validity::Doubt::Rate { .. }) {
            vec!["nines".to_owned(), "errors".to_owned()]
        } else {
            Vec::new()
        },
    ];
    record::Warning { sentence: warning.to_string(), concerns: concerns.concat() }
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
    use super::*;

    fn report(requests: u64, right: u64) -> Report {
        let mut latency = Histogram::new();
        latency.record_n(Duration::from_millis(1), right);
        Report {
            duration_s: 1.0,
            achieved_rate: 64_000.0,
            unsent: 0,
            nines: Nines { proven: 4.3 },
            requests,
            sent: requests,
            right,
            threads: vec![Thread { cpu_s: 0.5, wall_s: 1.0 }],
            latency_histogram: Some(latency.to_base64()),
            schedule_lag_histogram: None,
            error_examples: BTreeMap::new(),
        }
    }

    fn closed() -> Kind {
        Kind::Bench {
            connections: 64,
            time: Time(Duration::from_secs(1)),
            rate: None,
            requests: None,
            is_closing: false,
        }
    }

    #[test]
    fn a_run_that_is_whole_has_no_doubt_and_one_with_errors_has() {
        let mut latency = Histogram::new();
        latency.record(Duration::from_millis(1));
        assert!(report(64_000, 64_000).warnings(&closed(), Some(&latency), None).is_empty());
        let warnings = report(64_000, 63_000).warnings(&closed(), Some(&latency), None);
        assert!(warnings[0].sentence.contains("of the requests failed"), "{warnings:?}");
        assert!(warnings[0].concerns.iter().any(|name| name == "cpu_us_per_request"));
    }

    #[test]
    fn that_connections_take_time_to_open_is_no_warning() {
        let mut latency = Histogram::new();
        latency.record(Duration::from_micros(500));
        assert_eq!(report(64_000, 64_000).warnings(&closed(), Some(&latency), None).len(), 1);
        let Kind::Bench { connections, time, .. } = closed() else { panic!("it is a bench") };
        let closing = Kind::Bench { connections, time, rate: None, requests: None, is_closing: true };
        assert!(report(64_000, 64_000).warnings(&closing, Some(&latency), None).is_empty());
    }

    #[test]
    fn a_number_of_requests_is_none_of_a_warm_up() {
        let time = Time(Duration::from_secs(1));
        let bench = Kind::Bench { connections: 2, time, rate: None, requests: Some(1000), is_closing: true };
        let command = |warm_up| arguments(&bench, warm_up, None).join(" ");
        assert!(command(None).ends_with("-c 2 -n 1000 --requests-per-connection 1"), "{}", command(None));
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

    #[test]
    fn the_time_of_a_burst_is_a_metric_and_that_of_a_bench_is_none() {
        assert!(
            report(10, 10)
                .metrics(&Kind::Burst { requests: 10, timeout: Time(Duration::from_mins(1)) }, None)
                .contains_key("time_s")
        );
        assert!(!report(10, 10).metrics(&closed(), None).contains_key("time_s"));
    }
}
