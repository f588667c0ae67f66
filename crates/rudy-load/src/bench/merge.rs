//! `rudy bench merge`: combines the reports of all shares of a plan, as if one generator had run it.
//!
//! The counts and histograms are added and nothing is averaged, so the percentiles are those of all requests.

use std::fs;
use std::path::{Path, PathBuf};

use rudy_command::{Exit, print_line, report_error};
use rudy_stats::validity::RATE_KEPT_MIN;

use super::options::OutputOptions;
use super::output::Output;
use super::report::{Config, Run, Verdict};
use super::split::ShareConfig;
use crate::units;

/// Maximum time between the starts of two shares, in seconds, for which they count as simultaneous.
const START_SKEW_MAX_S: f64 = 1.0;

/// The options of `rudy bench merge`.
#[derive(Debug, Clone)]
pub struct MergeOptions {
    /// The reports, as `--json` wrote them.
    pub files: Vec<PathBuf>,
    /// Whether to merge the reports despite problems.
    pub force: bool,
    /// The outputs of the merged report.
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
    let problems = problems(&shares);
    for problem in &problems {
        print_line(&format!("{}: {problem}", if options.force { "warning" } else { "error" }));
    }
    if !(problems.is_empty() || options.force) {
        print_line("the reports were not merged (--force merges them anyway)");
        return Exit::CannotRun;
    }
    let Some(total) = merge_runs(shares.into_iter().map(|(_, run)| run)) else {
        return report_error(Exit::BadInput, "there is no report to merge");
    };
    match Output::open(&options.output) {
        Err(error) => error.report(),
        Ok(output) => match output.finish(&total) {
            Ok(()) => Exit::Done,
            Err(message) => report_error(Exit::CannotRun, &message),
        },
    }
}

fn read(path: &Path) -> Result<Run, String> {
    let text = fs::read_to_string(path).map_err(|error| error.to_string())?;
    serde_json::from_str(extract_report(&text))
        .map_err(|error| format!("not a report of `rudy bench --json`: {error}"))
}

/// Extracts the report from the output of a container, as `kubectl logs` shows it: standard output and standard error.
/// The report starts and ends with a line that is a single brace.
fn extract_report(text: &str) -> &str {
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

/// The problems because of which these reports must not be merged.
fn problems(shares: &[(String, Run)]) -> Vec<String> {
    let mut problems = Vec::new();
    for (name, run) in shares {
        problems.extend(share_problems(run).into_iter().map(|problem| format!("{name}: {problem}")));
    }
    let Some((first, run)) = shares.first() else { return problems };
    for (name, other) in &shares[1..] {
        if common_config(&other.config) != common_config(&run.config) {
            problems.push(format!("{name}: belongs to a different plan than {first}"));
        }
    }
    // Missing shares are only known if all reports are of one plan.
    if problems.is_empty() {
        problems.extend(share_set_problems(shares));
        problems.extend(start_skew_problem(shares));
    }
    problems
}

/// The problems of the report of one share.
fn share_problems(run: &Run) -> Vec<String> {
    let mut problems = Vec::new();
    if run.config.share.is_none() {
        problems.push("not a share of a plan (--split)".to_owned());
    }
    if run.outcome.is_interrupted {
        problems.push("it was interrupted".to_owned());
    }
    let verdict = Verdict::new(run);
    if verdict.is_client_limited() {
        problems.push(format!("its client was the limit. {}", verdict.sentence));
    }
    if let Some(ratio) = run.rate_ratio().filter(|ratio| *ratio < RATE_KEPT_MIN) {
        problems.push(format!(
            "the rate was not kept: {} of the due requests were sent before the end",
            units::share_down(ratio, 1)
        ));
    }
    problems
}

/// The part of a configuration that all shares of a plan have in common.
fn common_config(config: &Config) -> Config {
    let share =
        config.share.as_ref().map(|share| ShareConfig { index: 0, started_unix_s: None, ..share.clone() });
    // A name can resolve to another address on each machine, and machines can differ in cores.
    Config {
        remote: String::new(),
        connections: 0,
        connections_max: None,
        threads: 0,
        requests: config.requests.map(|_| 0),
        share,
        ..config.clone()
    }
}

/// Reports shares that are duplicate or missing, or that have a wrong part of the plan.
fn share_set_problems(shares: &[(String, Run)]) -> Vec<String> {
    let mut problems = Vec::new();
    let each_share = || shares.iter().filter_map(|(name, run)| Some((name, run, run.config.share.as_ref()?)));
    let count = each_share().map(|(.., share)| share.count).next().unwrap_or(0);
    for index in 0..count {
        let names: Vec<_> =
            each_share().filter(|(.., share)| share.index == index).map(|(name, ..)| name.as_str()).collect();
        match names[..] {
            [] => problems.push(format!("share {index}/{count} is missing")),
            [_] => {}
            _ => problems.push(format!(
                "share {index}/{count} exists {} times: {}",
                names.len(),
                names.join(", ")
            )),
        }
    }
    if problems.is_empty() {
        let connections = each_share().map(|(_, run, _)| u64::from(run.config.connections)).sum();
        let requests = each_share().filter_map(|(_, run, _)| run.config.requests).sum();
        for (name, run, share) in each_share() {
            let split = share.split();
            let fits = split.part(connections) == u64::from(run.config.connections)
                && run.config.requests.is_none_or(|part| split.part(requests) == part);
            if !fits {
                problems.push(format!("{name}: belongs to a different plan: its part of the connections or requests is not that of share {split}"));
            }
        }
    }
    problems
}

/// Reports shares that did not start at the same time.
fn start_skew_problem(shares: &[(String, Run)]) -> Option<String> {
    let starts = || shares.iter().filter_map(|(_, run)| run.config.share.as_ref()?.started_unix_s);
    let (first, last) = (starts().fold(f64::INFINITY, f64::min), starts().fold(0.0, f64::max));
    (last - first > START_SKEW_MAX_S).then(|| {
        format!("the shares started up to {:.1} s apart: use the same --start-at for all", last - first)
    })
}

/// Adds all shares, as if they were a single run.
fn merge_runs(shares: impl Iterator<Item = Run>) -> Option<Run> {
    shares
        .reduce(|mut total, share| {
            let Run { config, outcome } = share;
            let max = total.config.max_connections() + config.max_connections();
            total.config.connections += config.connections;
            total.config.connections_max = Some(max).filter(|max| *max > total.config.connections);
            total.config.threads += config.threads;
            total.config.requests = total.config.requests.zip(config.requests).map(|(a, b)| a + b);
            total.outcome.recorder.merge(&outcome.recorder);
            total.outcome.duration = total.outcome.duration.max(outcome.duration);
            total.outcome.in_flight_at_end += outcome.in_flight_at_end;
            total.outcome.threads.extend(outcome.threads);
            let relays = [total.outcome.relay, outcome.relay].into_iter().flatten();
            total.outcome.relay = relays.max_by(|a, b| a.cpu_share().total_cmp(&b.cpu_share()));
            total.outcome.is_interrupted |= outcome.is_interrupted;
            total
        })
        .map(|mut total| {
            // Also for a plan with a single share.
            total.config.share = None;
            total
        })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rudy_request::Failure;

    use super::*;
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
            relay: None,
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
    fn merged_shares_equal_a_single_run() {
        let shares = all([share(0), share(1)]);
        assert_eq!(problems(&shares), Vec::<String>::new());
        let mut both = share(0).outcome.recorder;
        both.merge(&share(1).outcome.recorder);
        let total = merge_runs(shares.into_iter().map(|(_, run)| run)).unwrap();
        assert_eq!((total.config.connections, total.config.threads), (5, 2));
        assert_eq!((total.outcome.recorder.succeeded, total.rate_ratio()), (2000, Some(1.0)));
        assert_eq!(total.outcome.recorder.latency, both.latency);
        assert_eq!((total.config.share.as_ref(), total.config.rate), (None, Some(2000.0)));
    }

    #[test]
    fn a_report_is_read_from_a_file_and_from_a_log() {
        let json = serde_json::to_string_pretty(&crate::bench::report::Document::new(&share(1))).unwrap();
        for text in [json.clone(), format!("2 connections\n  {{\n{json}\nlast words: }}\n")] {
            assert_eq!(serde_json::from_str::<Run>(extract_report(&text)).unwrap(), share(1));
        }
        assert!(serde_json::from_str::<Run>(extract_report("no report\n{\n")).is_err());
    }

    #[test]
    fn reports_that_cannot_be_merged_have_their_problem() {
        let share_config = |run: &mut Run| run.config.share.clone().unwrap();
        for (shares, problem) in [
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
                        let share = share_config(run);
                        run.config.share = Some(ShareConfig { requests_checksum: "6".into(), ..share });
                    }),
                ],
                "1.json: belongs to a different plan than 0.json",
            ),
            (
                vec![
                    share(0),
                    changed(1, |run| {
                        run.config.share = Some(ShareConfig { count: 3, ..share_config(run) });
                    }),
                ],
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
                        let share = share_config(run);
                        run.config.share = Some(ShareConfig { started_unix_s: Some(1003.0), ..share });
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
                        let recorder = &mut run.outcome.recorder;
                        (0..21).for_each(|_| recorder.record_failure(&Failure::NotSent, Duration::ZERO));
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
            let found = problems(&all(shares));
            assert!(found.iter().any(|found| found.contains(problem)), "{problem}: {found:?}");
        }
    }
}
