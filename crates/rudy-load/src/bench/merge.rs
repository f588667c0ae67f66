//! `rudy bench merge`: combines the reports of all shares of a plan, as if one generator had run it.
//!
//! Adds counts and histograms and averages nothing, so the percentiles are those of all requests.

use std::fs;
use std::path::{Path, PathBuf};

use rudy_stats::validity::RATE_KEPT_MIN;

use super::options::OutputOptions;
use super::output::Output;
use super::report::{Config, Run, Verdict};
use super::split::ShareOf;
use crate::exit::{print_line, report_error};
use crate::{Exit, units};

/// Shares that start further apart, in seconds, do not load the server at the same time.
const APART_S: f64 = 1.0;

/// The options of `rudy bench merge`.
#[derive(Debug, Clone)]
pub struct MergeOptions {
    /// The reports, as `--json` wrote them.
    pub files: Vec<PathBuf>,
    /// Merges the reports despite problems.
    pub force: bool,
    /// Where the report is written.
    pub output: OutputOptions,
}

/// Merges the reports and writes the result.
#[must_use]
pub fn merge(options: &MergeOptions) -> Exit {
    let mut shares = Vec::new();
    for path in &options.files {
        match read(path) {
            Ok(run) => shares.push((path.display().to_string(), run)),
            Err(message) => {
                return report_error(Exit::CannotRun, &format!("{}: {message}", path.display()));
            }
        }
    }
    let objections = objections(&shares);
    for objection in &objections {
        print_line(&format!("{}: {objection}", if options.force { "warning" } else { "error" }));
    }
    if !(objections.is_empty() || options.force) {
        print_line("the reports were not merged (--force merges them anyway)");
        return Exit::CannotRun;
    }
    let Some(whole) = join(shares.into_iter().map(|(_, run)| run)) else {
        return report_error(Exit::BadInput, "there is no report to merge");
    };
    match Output::open(&options.output) {
        Err(error) => error.report(),
        Ok(output) => match output.finish(&whole) {
            Ok(()) => Exit::Done,
            Err(message) => report_error(Exit::CannotRun, &message),
        },
    }
}

fn read(path: &Path) -> Result<Run, String> {
    let text = fs::read_to_string(path).map_err(|error| error.to_string())?;
    serde_json::from_str(report_in(&text))
        .map_err(|error| format!("not a report of `rudy bench --json`: {error}"))
}

/// Extracts the report from the combined output of a container, as `kubectl logs` shows it. The report starts
/// and ends with a line that is a single brace.
fn report_in(text: &str) -> &str {
    let mut begin = None;
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        match (line.trim_end(), begin) {
            ("{", None) => begin = Some(at),
            ("}", Some(begin)) => return &text[begin..=at],
            _ => {}
        }
        at += line.len();
    }
    text
}

/// All reasons not to merge these reports.
fn objections(shares: &[(String, Run)]) -> Vec<String> {
    let mut objections = Vec::new();
    for (name, run) in shares {
        objections.extend(own(run).into_iter().map(|why| format!("{name}: {why}")));
    }
    let Some((first, run)) = shares.first() else { return objections };
    for (name, other) in &shares[1..] {
        if plan(&other.config) != plan(&run.config) {
            objections.push(format!("{name}: belongs to a different plan than {first}"));
        }
    }
    // Missing shares are only known if all reports are of one plan.
    if objections.is_empty() {
        objections.extend(missing(shares));
        objections.extend(apart(shares));
    }
    objections
}

/// The problems of one share.
fn own(run: &Run) -> Vec<String> {
    let mut wrong = Vec::new();
    if run.config.share.is_none() {
        wrong.push("not a share of a plan (--split)".to_owned());
    }
    if run.outcome.is_interrupted {
        wrong.push("it was interrupted".to_owned());
    }
    let verdict = Verdict::of(run);
    if verdict.is_of_the_client() {
        wrong.push(format!("its client was the limit. {}", verdict.sentence));
    }
    if let Some(ratio) = run.rate_ratio().filter(|ratio| *ratio < RATE_KEPT_MIN) {
        wrong.push(format!(
            "the rate was not kept: {} of the due requests were sent before the end",
            units::share_down(ratio, 1)
        ));
    }
    wrong
}

/// The properties that all shares of a plan have in common.
fn plan(config: &Config) -> Config {
    let share =
        config.share.as_ref().map(|share| ShareOf { index: 0, started_unix_s: None, ..share.clone() });
    // A name can resolve to another address on each machine, and machines can differ in cores.
    Config {
        remote: String::new(),
        connections: 0,
        threads: 0,
        requests: config.requests.map(|_| 0),
        share,
        ..config.clone()
    }
}

/// Shares that are duplicate, missing, or have the wrong part of the plan.
fn missing(shares: &[(String, Run)]) -> Vec<String> {
    let mut objections = Vec::new();
    let of_each = || shares.iter().filter_map(|(name, run)| Some((name, run, run.config.share.as_ref()?)));
    let of = of_each().map(|(.., share)| share.of).next().unwrap_or(0);
    for index in 0..of {
        let names: Vec<_> =
            of_each().filter(|(.., share)| share.index == index).map(|(name, ..)| name.as_str()).collect();
        match names[..] {
            [] => objections.push(format!("share {index}/{of} is missing")),
            [_] => {}
            _ => objections.push(format!(
                "share {index}/{of} exists {} times: {}",
                names.len(),
                names.join(", ")
            )),
        }
    }
    if objections.is_empty() {
        let connections = of_each().map(|(_, run, _)| u64::from(run.config.connections)).sum();
        let requests = of_each().filter_map(|(_, run, _)| run.config.requests).sum();
        for (name, run, share) in of_each() {
            let split = share.split();
            let fits = split.part(connections) == u64::from(run.config.connections)
                && run.config.requests.is_none_or(|mine| split.part(requests) == mine);
            if !fits {
                objections.push(format!("{name}: belongs to a different plan: its part of the connections or requests is not that of share {split}"));
            }
        }
    }
    objections
}

/// Checks that all shares started at the same time.
fn apart(shares: &[(String, Run)]) -> Option<String> {
    let starts = || shares.iter().filter_map(|(_, run)| run.config.share.as_ref()?.started_unix_s);
    let (first, last) = (starts().fold(f64::INFINITY, f64::min), starts().fold(0.0, f64::max));
    (last - first > APART_S).then(|| {
        format!("the shares started up to {:.1} s apart: use the same --start-at for all", last - first)
    })
}

/// The sum of all shares, as a single run.
fn join(shares: impl Iterator<Item = Run>) -> Option<Run> {
    shares
        .reduce(|mut whole, share| {
            let Run { config, outcome } = share;
            whole.config.connections += config.connections;
            whole.config.threads += config.threads;
            whole.config.requests = whole.config.requests.zip(config.requests).map(|(a, b)| a + b);
            whole.outcome.recorder.merge(&outcome.recorder);
            whole.outcome.duration = whole.outcome.duration.max(outcome.duration);
            whole.outcome.in_flight_at_end += outcome.in_flight_at_end;
            whole.outcome.threads.extend(outcome.threads);
            whole.outcome.is_interrupted |= outcome.is_interrupted;
            whole
        })
        .map(|mut whole| {
            // Also for a plan with a single share.
            whole.config.share = None;
            whole
        })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::Failure;
    use crate::bench::Recorder;
    use crate::bench::run::{Outcome, ThreadTime};

    /// Share `index` of two, of a plan of 5 connections and 2000 requests a second.
    fn share(index: u32) -> Run {
        let config = serde_json::json!({
            "target": "http://127.0.0.1:1/", "urls": 1, "remote": format!("127.0.0.{index}:1"), "connections": 3 - index,
            "threads": 1, "pipeline": 1, "requests_per_connection": null, "rate": 2000.0, "rate_at_end": null,
            "arrivals": "uniform", "seed": null, "duration_s": 1.0, "requests": null, "warm_up_s": 0.0,
            "timeout_s": 10.0, "deadline_s": null,
            "share": { "index": index, "of": 2, "started_unix_s": 1000.0, "requests_checksum": "5" },
        });
        let mut recorder = Recorder { succeeded: 1000, sent: 1000, opened: 3, ..Recorder::default() };
        recorder.statuses[200] = 1000;
        for number in 1..=1000 {
            recorder.latency.record(Duration::from_micros(number * u64::from(index + 1)));
            recorder.service.record(Duration::from_micros(number));
            recorder.schedule_delay.record(Duration::from_micros(5));
        }
        let idle = ThreadTime {
            cpu: Duration::from_millis(300),
            wall: Duration::from_secs(1),
            ..ThreadTime::default()
        };
        let outcome = Outcome {
            recorder,
            duration: Duration::from_secs(1),
            in_flight_at_end: 0,
            threads: vec![idle],
            is_interrupted: false,
        };
        Run { config: serde_json::from_value(config).unwrap(), outcome }
    }

    fn changed(index: u32, change: impl FnOnce(&mut Run)) -> Run {
        let mut run = share(index);
        change(&mut run);
        run
    }

    fn all(runs: impl IntoIterator<Item = Run>) -> Vec<(String, Run)> {
        runs.into_iter().enumerate().map(|(number, run)| (format!("{number}.json"), run)).collect()
    }

    #[test]
    fn what_is_joined_is_what_one_would_have_seen() {
        let shares = all([share(0), share(1)]);
        assert_eq!(objections(&shares), Vec::<String>::new());
        let mut both = share(0).outcome.recorder;
        both.merge(&share(1).outcome.recorder);
        let whole = join(shares.into_iter().map(|(_, run)| run)).unwrap();
        assert_eq!((whole.config.connections, whole.config.threads), (5, 2));
        assert_eq!((whole.outcome.recorder.succeeded, whole.rate_ratio()), (2000, Some(1.0)));
        assert_eq!(whole.outcome.recorder.latency, both.latency);
        assert_eq!((whole.config.share.as_ref(), whole.config.rate), (None, Some(2000.0)));
    }

    #[test]
    fn a_report_loses_nothing_in_a_file_and_in_a_log() {
        let json = serde_json::to_string_pretty(&crate::bench::report::Document::of(&share(1))).unwrap();
        for text in [json.clone(), format!("2 connections\n  {{\n{json}\nlast words: }}\n")] {
            assert_eq!(serde_json::from_str::<Run>(report_in(&text)).unwrap(), share(1));
        }
        assert!(serde_json::from_str::<Run>(report_in("no report\n{\n")).is_err());
    }

    #[test]
    fn reports_that_cannot_be_merged_are_refused_with_a_reason() {
        let share_of = |run: &mut Run| run.config.share.clone().unwrap();
        for (shares, objection) in [
            (vec![share(0)], "share 1/2 is missing"),
            (vec![share(1), share(1)], "share 0/2 is missing"),
            (vec![share(0), share(0), share(1)], "share 0/2 exists 2 times: 0.json, 1.json"),
            (vec![share(0), changed(1, |run| run.config.share = None)], "1.json: not a share"),
            (
                vec![share(0), changed(1, |run| run.config.rate = Some(3000.0))],
                "1.json: belongs to a different plan than 0.json",
            ),
            (
                vec![
                    share(0),
                    changed(1, |run| {
                        run.config.share = Some(ShareOf { requests_checksum: "6".into(), ..share_of(run) });
                    }),
                ],
                "1.json: belongs to a different plan than 0.json",
            ),
            (
                vec![share(0), changed(1, |run| run.config.share = Some(ShareOf { of: 3, ..share_of(run) }))],
                "1.json: belongs to a different plan than 0.json",
            ),
            (
                vec![share(0), changed(1, |run| run.config.connections = 7)],
                "its part of the connections or requests",
            ),
            (
                vec![
                    share(0),
                    changed(1, |run| {
                        run.config.share = Some(ShareOf { started_unix_s: Some(1003.0), ..share_of(run) });
                    }),
                ],
                "the shares started up to 3.0 s apart",
            ),
            (
                vec![share(0), changed(1, |run| run.outcome.is_interrupted = true)],
                "1.json: it was interrupted",
            ),
            (
                vec![
                    share(0),
                    changed(1, |run| {
                        (0..21).for_each(|_| run.outcome.recorder.fail(&Failure::NotSent, Duration::ZERO));
                    }),
                ],
                "1.json: the rate was not kept: 97.9 %",
            ),
            (
                vec![
                    share(0),
                    changed(1, |run| {
                        run.outcome.threads[0].cpu = Duration::from_secs(1);
                        run.outcome.recorder.schedule_delay.record_n(Duration::from_millis(50), 1000);
                    }),
                ],
                "1.json: its client was the limit. 1 request in 100 was sent 50.0 ms late",
            ),
        ] {
            let found = objections(&all(shares));
            assert!(found.iter().any(|found| found.contains(objection)), "{objection}: {found:?}");
        }
    }
}
