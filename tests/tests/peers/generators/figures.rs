//! Runs of both generators, and what they say.

use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use rudy_tests::binary;
use serde_json::Value;

/// What either generator says of a run.
#[derive(Debug, PartialEq)]
pub(super) struct Figures {
    /// Whole answers, of whatever status.
    pub(super) answers: u64,
    /// Those with a status from 400 on.
    pub(super) wrong: u64,
    /// Connections that failed or ended too early.
    pub(super) broken: u64,
    /// What was not answered in time.
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
    let folder = tempfile::tempdir().expect("a temp folder can be made");
    let json = folder.path().join("report");
    let output = Command::new(binary()).arg("bench").args(arguments).arg("--json").arg(&json).output();
    let text = stdout(output.expect("rudy can be started"));
    let json = std::fs::read_to_string(json).expect("it was written");
    Report { text, json: serde_json::from_str(&json).expect("a report is JSON") }
}

impl Report {
    /// A count, as in `/errors/read`.
    pub(super) fn count(&self, pointer: &str) -> u64 {
        self.json
            .pointer(pointer)
            .and_then(Value::as_u64)
            .unwrap_or_else(|| panic!("{pointer}: {}", self.text))
    }

    /// A time, as in `/latency_us/p50`; 0 where nothing was measured.
    pub(super) fn ms(&self, pointer: &str) -> f64 {
        self.json.pointer(pointer).and_then(Value::as_f64).unwrap_or_default() / 1000.0
    }

    /// Answers with this status.
    pub(super) fn status(&self, status: &str) -> u64 {
        self.json["status_codes"][status].as_u64().unwrap_or_default()
    }

    pub(super) fn figures(&self) -> Figures {
        let sum = |kinds: &[&str]| kinds.iter().map(|kind| self.count(&format!("/errors/{kind}"))).sum();
        let broken = sum(&["connect", "tls", "write", "read", "short_body", "malformed"]);
        let timeouts = sum(&["timeout", "deadline"]);
        Figures {
            answers: self.count("/requests") - broken - timeouts,
            wrong: sum(&["status_4xx", "status_5xx"]),
            broken,
            timeouts,
            p50_ms: self.ms("/latency_us/p50"),
            p99_ms: self.ms("/latency_us/p99"),
            max_ms: self.ms("/latency_us/max"),
        }
    }
}

/// Runs wrk on one thread, which is the program `wrk`.
pub(super) fn wrk(wrk: &Path, arguments: &[&str]) -> Figures {
    let output = Command::new(wrk).args(["-t1", "--latency"]).args(arguments).stdin(Stdio::null()).output();
    Figures::read(&stdout(output.expect("wrk can be started")))
}

impl Figures {
    /// Reads what wrk prints.
    fn read(text: &str) -> Self {
        let line = |begin: &str| text.lines().map(str::trim).find_map(|line| line.strip_prefix(begin));
        // Lines of what went wrong stand there only where something has.
        let errors = line("Socket errors: connect ").unwrap_or("0, read 0, write 0, timeout 0");
        let errors: Vec<u64> = numbers(errors);
        let answers = text.lines().find_map(|line| line.split_once(" requests in "));
        let latency = line("Latency  ").expect("a line of latencies").split_ascii_whitespace().nth(2);
        let quantile = |name| milliseconds(line(name).expect("a line for each of them").trim());
        Self {
            answers: numbers(answers.expect("a line that counts requests").0)[0],
            wrong: line("Non-2xx or 3xx responses: ").map_or(0, |count| numbers(count)[0]),
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
        _ => panic!("{unit} is no unit of wrk's"),
    }
}

fn stdout(output: Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("a report is text")
}

/// Prints a table: what must come out, and what did.
#[expect(clippy::print_stdout, reason = "the figures beside one another are what is to be seen")]
pub(super) fn show(expected: &str, rows: &[(&str, &Figures)]) {
    let mut text = format!(
        "{expected}\n  {:<12}{:>9}{:>9}{:>9}{:>9}{:>11}{:>11}{:>11}\n",
        "", "answers", "wrong", "broken", "timeouts", "p50 ms", "p99 ms", "max ms"
    );
    for (name, figures) in rows {
        let Figures { answers, wrong, broken, timeouts, .. } = figures;
        // What is nothing was measured of no answer.
        let [p50_ms, p99_ms, max_ms] = [figures.p50_ms, figures.p99_ms, figures.max_ms]
            .map(|ms| if ms > 0.0 { format!("{ms:.2}") } else { "-".to_owned() });
        // Writing to a `String` does not fail.
        let _ = writeln!(
            text,
            "  {name:<12}{answers:>9}{wrong:>9}{broken:>9}{timeouts:>9}{p50_ms:>11}{p99_ms:>11}{max_ms:>11}"
        );
    }
    // In one piece, so that tests that run at the same time do not mix theirs.
    println!("{text}");
}

#[test]
fn what_wrk_prints_is_read() {
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
    let figures = Figures {
        answers: 198,
        wrong: 10,
        broken: 231,
        timeouts: 4,
        p50_ms: 20.12,
        p99_ms: 0.9,
        max_ms: 1020.0,
    };
    assert_eq!(Figures::read(text), figures);
}
