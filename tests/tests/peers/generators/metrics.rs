//! Runs both load generators and reads their results.

use std::fmt::Write as _;

use rudy_tests::prelude::*;

/// The results of a run, of either generator.
#[derive(Debug, PartialEq)]
pub(super) struct Metrics {
    /// Complete responses with any status.
    pub(super) responses: u64,
    /// Responses with a status of 400 or more.
    pub(super) error_responses: u64,
    /// Connections that failed or ended too early.
    pub(super) broken: u64,
    /// Requests without a response in time.
    pub(super) timeouts: u64,
    pub(super) p50_ms: f64,
    pub(super) p99_ms: f64,
    pub(super) max_ms: f64,
}

/// A report of `rudy bench`, as text and as JSON.
pub(super) struct Report {
    pub(super) text: String,
    json: Value,
}

/// Runs `rudy bench`.
pub(super) fn rudy(arguments: &[&str]) -> Report {
    let folder = Folder::new();
    let json = folder.join("report");
    let output = Rudy::command(["bench"]).args(arguments).arg("--json").arg(&json).output();
    let text = stdout(output);
    let json = fs::read_to_string(json).expect("the file was written");
    Report { text, json: serde_json::from_str(&json).expect("a report is JSON") }
}

impl Report {
    /// Returns a count, such as `/requests`.
    pub(super) fn count(&self, pointer: &str) -> u64 {
        self.json
            .pointer(pointer)
            .and_then(Value::as_u64)
            .unwrap_or_else(|| panic!("{pointer}: {}", self.text))
    }

    /// Returns a time in milliseconds, such as `/latency_us/p50`; 0 if nothing was measured.
    pub(super) fn ms(&self, pointer: &str) -> f64 {
        self.json.pointer(pointer).and_then(Value::as_f64).unwrap_or_default() / 1000.0
    }

    /// Returns the number of responses with this status.
    pub(super) fn status(&self, status: &str) -> u64 {
        self.json["status_codes"][status].as_u64().unwrap_or_default()
    }

    pub(super) fn metrics(&self) -> Metrics {
        let failures = |kind: &str| self.json["failures"][kind]["count"].as_u64().unwrap_or_default();
        let sum = |kinds: &[&str]| kinds.iter().map(|kind| failures(kind)).sum();
        let statuses = self.json["status_codes"].as_object().expect("counts by status");
        let error_responses = statuses.iter().filter(|(status, _)| status.as_str() >= "400");
        let broken = sum(&["connect", "tls", "write", "read", "short_body", "malformed"]);
        let timeouts = sum(&["timeout", "deadline", "not_sent"]);
        Metrics {
            responses: self.count("/requests") - broken - timeouts,
            error_responses: error_responses.filter_map(|(_, count)| count.as_u64()).sum(),
            broken,
            timeouts,
            p50_ms: self.ms("/latency_us/p50"),
            p99_ms: self.ms("/latency_us/p99"),
            max_ms: self.ms("/latency_us/max"),
        }
    }
}

/// Runs the program `wrk` with one thread.
pub(super) fn wrk(wrk: &Path, arguments: &[&str]) -> Metrics {
    let output =
        Output::of(Command::new(wrk).args(["-t1", "--latency"]).args(arguments).stdin(Stdio::null()));
    Metrics::read(&stdout(output))
}

impl Metrics {
    /// Parses the output of wrk.
    fn read(text: &str) -> Self {
        let line = |begin: &str| text.lines().map(str::trim).find_map(|line| line.strip_prefix(begin));
        // Lines about errors are printed only if there were any.
        let errors = line("Socket errors: connect ").unwrap_or("0, read 0, write 0, timeout 0");
        let errors: Vec<u64> = numbers(errors);
        let responses = text.lines().find_map(|line| line.split_once(" requests in "));
        let latency = line("Latency  ").expect("a line of latencies").split_ascii_whitespace().nth(2);
        let quantile = |name| milliseconds(line(name).expect("a line for each quantile").trim());
        Self {
            responses: numbers(responses.expect("a line that counts requests").0)[0],
            error_responses: line("Non-2xx or 3xx responses: ").map_or(0, |count| numbers(count)[0]),
            broken: errors[..3].iter().sum(),
            timeouts: errors[3],
            p50_ms: quantile("50%"),
            p99_ms: quantile("99%"),
            max_ms: milliseconds(latency.expect("mean, deviation and longest")),
        }
    }
}

fn numbers(text: &str) -> Vec<u64> {
    text.split(|c: char| !c.is_ascii_digit()).filter_map(|digits| digits.parse().ok()).collect()
}

/// `20.15ms`, `1.02s`
fn milliseconds(text: &str) -> f64 {
    let begin = text.find(|c: char| c.is_ascii_alphabetic()).expect("a unit");
    let (number, unit) = text.split_at(begin);
    let number: f64 = number.parse().expect("a number");
    match unit {
        "us" => number / 1e3,
        "ms" => number,
        "s" => number * 1e3,
        "m" => number * 60e3,
        _ => panic!("unknown unit {unit}"),
    }
}

fn stdout(output: Output) -> String {
    // `rudy bench` exits with 1 if no request succeeded, after its report.
    let has_report = output.is_success() || !output.stdout.is_empty();
    assert!(has_report, "{}", output.stderr);
    output.stdout
}

/// Prints a table of the results below the expected result.
#[expect(clippy::print_stdout, reason = "the table is for people who run the test")]
pub(super) fn show(expected: &str, rows: &[(&str, &Metrics)]) {
    let mut text = format!(
        "{expected}\n  {:<12}{:>9}{:>9}{:>9}{:>9}{:>11}{:>11}{:>11}\n",
        "", "responses", "errors", "broken", "timeouts", "p50 ms", "p99 ms", "max ms"
    );
    for (name, metrics) in rows {
        let Metrics { responses, error_responses, broken, timeouts, .. } = metrics;
        // Zero means that there were no responses.
        let [p50_ms, p99_ms, max_ms] = [metrics.p50_ms, metrics.p99_ms, metrics.max_ms]
            .map(|ms| if ms > 0.0 { format!("{ms:.2}") } else { "-".to_owned() });
        // Writing to a `String` does not fail.
        let _ = writeln!(
            text,
            "  {name:<12}{responses:>9}{error_responses:>9}{broken:>9}{timeouts:>9}{p50_ms:>11}{p99_ms:>11}{max_ms:>11}"
        );
    }
    // In one call, so that the tables of parallel tests do not mix.
    println!("{text}");
}

#[test]
fn the_output_of_wrk_is_parsed() {
    let text = "\
Running 1s test @ http://127.0.0.1:47827/
  1 threads and 4 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency    20.15ms  123.00us   1.02s    85.00%
    Req/Sec   198.00      0.00   198.00    100.00%
  Latency Distribution
     50%   20.12ms
     75%   20.30ms
     90%   20.50ms
     99%  900.00us
  198 requests in 1.00s, 7.54KB read
  Socket errors: connect 1, read 30, write 200, timeout 4
  Non-2xx or 3xx responses: 10
Requests/sec:    197.50
Transfer/sec:      7.52KB
";
    let metrics = Metrics {
        responses: 198,
        error_responses: 10,
        broken: 231,
        timeouts: 4,
        p50_ms: 20.12,
        p99_ms: 0.9,
        max_ms: 1020.0,
    };
    assert_eq!(Metrics::read(text), metrics);
}
