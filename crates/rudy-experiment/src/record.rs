//! The records of an experiment: `results.jsonl`, with a head and a line per run.
//!
//! The first line is a [`Head`]. An interrupted experiment has all lines so far. A resumed one has a second
//! head before the later lines, so that a different machine or version is visible.

use std::collections::BTreeMap;

use rudy_stats::validity::{self, Metric};
use serde::{Deserialize, Serialize};

use crate::plan::Plan;

/// The name of the results file.
pub const RESULTS: &str = "results.jsonl";

/// The name of the copy of the plan file.
pub const PLAN: &str = "plan.toml";

/// The metric with the fraction of requests that failed or were not sent. A run without failures lacks it.
pub const FAILED_SHARE: &str = "failed_share";

/// A line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "kebab-case")]
pub enum Record {
    /// The plan, the machine and the versions.
    Head(Box<Head>),
    /// The result of a run.
    Run(Box<Run>),
}

/// The head of an experiment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Head {
    /// The plan, including changes by flags.
    pub plan: Plan,
    /// The start: RFC 3339, in UTC.
    pub started: String,
    /// The seed of the order.
    pub seed: u64,
    /// The machine.
    pub machine: Machine,
    /// The versions by name: `rudy`, and each program of a variant with a known version flag.
    pub versions: BTreeMap<String, String>,
    /// The command line.
    pub command: Vec<String>,
}

/// The machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// The CPU model.
    pub cpu: String,
    /// The number of cores that the lab may use.
    pub cores: usize,
    /// The memory size.
    pub memory_bytes: u64,
    /// The kernel release.
    pub kernel: String,
    /// The frequency governor of the cores, if known.
    pub governor: Option<String>,
    /// Whether two hardware threads share a core (SMT).
    #[serde(default)]
    pub has_smt: bool,
}

/// A run: a newly started variant under a workload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// The round, from 0.
    pub round: usize,
    /// The position in the order of the round, from 0.
    pub position: usize,
    /// The variant's name.
    pub variant: String,
    /// The workload's name.
    pub workload: String,
    /// Whether it is the second run of the variant in this round: A against A.
    pub is_control: bool,
    /// The start, relative to the start of the experiment.
    pub began_s: f64,
    /// The duration, including start and stop of the variant.
    pub seconds: f64,
    /// The commands.
    pub commands: Commands,
    /// Whether there are metrics.
    pub outcome: Outcome,
    /// The metrics by name, which includes the unit. Metrics that could not be measured are omitted.
    pub metrics: BTreeMap<String, f64>,
    /// The latency distribution: quantile and nanoseconds, in ascending order.
    pub latency: Option<Vec<[f64; 2]>>,
    /// Samples of the variant, once per second.
    pub samples: Vec<Sample>,
    /// Validity warnings.
    pub warnings: Vec<Warning>,
    /// Events that affect no metric: a process left behind, a core that was not free.
    pub notes: Vec<String>,
    /// The workload over time, if its generator reports it.
    pub intervals: Vec<Interval>,
    /// The steps of an SLO search, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<Step>,
}

/// The commands of a run, so that it can be repeated: each a program and its arguments.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Commands {
    /// The variant.
    pub variant: Vec<String>,
    /// The workload.
    pub workload: Vec<String>,
}

/// The outcome of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Outcome {
    /// There are metrics.
    Measured,
    /// There are no valid metrics.
    Failed {
        /// A message; the last lines of the variant's output may follow.
        why: String,
    },
}

/// A sample of a variant, over all its processes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Time since the start of the workload.
    pub t_s: f64,
    /// CPU time of each thread since the start of the workload, in user mode and in the kernel, in seconds.
    /// Threads with the same name are combined, and many threads whose names differ only in a number.
    pub threads: BTreeMap<String, [f64; 2]>,
    /// Allocated memory: private pages, and shared ones once.
    pub private_bytes: u64,
    /// Shared memory.
    pub shared_bytes: u64,
    /// Open descriptors.
    pub descriptors: u64,
    /// Connections that the load generator had open; 0 for workloads other than floods.
    pub connections: u64,
    /// Voluntary context switches of its threads since the start of the workload.
    pub voluntary_switches: u64,
    /// Involuntary context switches.
    pub involuntary_switches: u64,
}

/// A validity warning.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Warning {
    /// The reason.
    pub sentence: String,
    /// The names of the affected metrics.
    pub concerns: Vec<String>,
}

impl Warning {
    /// A warning with the names of the affected metrics; one about failures with an example.
    #[must_use]
    pub fn of(warning: &validity::Warning, failure: Option<&str>) -> Self {
        let of = |metric, names: &[&str]| {
            let names = if warning.affects(metric) { names } else { &[] };
            names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>()
        };
        let concerns = [
            of(Metric::Latency, &["p50_ns", "p90_ns", "p99_ns", "p999_ns", "max_ns", "time_s"]),
            of(Metric::Latency, &["schedule_delay_p50_ns", "schedule_delay_p99_ns", "schedule_delay_max_ns"]),
            of(Metric::Rate, &["requests_per_s", "max_rate_per_s"]),
            of(
                Metric::CpuPerRequest,
                &["cpu_us_per_request", "cpu_user_us_per_request", "cpu_system_us_per_request", "cpu_s"],
            ),
            of(Metric::Memory, &["private_bytes", "private_bytes_per_connection"]),
            // Requests that were not sent have not succeeded either.
            if matches!(warning, validity::Warning::RateNotKept { .. }) {
                vec!["nines".to_owned(), "errors".to_owned()]
            } else {
                Vec::new()
            },
        ];
        let example = failure.filter(|_| matches!(warning, validity::Warning::Failed { .. }));
        let example = example.map(|example| format!("; for example: {example}")).unwrap_or_default();
        Self { sentence: format!("{warning}{example}"), concerns: concerns.concat() }
    }
}

/// A second of a workload.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Its end, since the start of the workload.
    pub t_s: f64,
    /// Complete responses per second.
    pub requests_per_s: f64,
    /// The median latency.
    pub p50_ns: Option<f64>,
    /// The 99th percentile of the latency.
    pub p99_ns: Option<f64>,
}

/// A step of an SLO search.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// Requests per second.
    pub rate_per_s: f64,
    /// The 99th percentile of the latency; `None` without a response.
    pub p99_ns: Option<f64>,
    /// Whether the objective was met.
    pub passed: bool,
    /// The metrics of the objective, or the reason of the failure.
    pub reason: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_as_it_was_written() {
        let run = Run {
            round: 3,
            position: 1,
            variant: "rudy".to_owned(),
            workload: "1k".to_owned(),
            is_control: true,
            began_s: 12.5,
            seconds: 6.25,
            commands: Commands { variant: vec!["rudy".to_owned()], workload: vec!["bench".to_owned()] },
            outcome: Outcome::Failed { why: "it ended (exit code 1) before it was ready".to_owned() },
            metrics: BTreeMap::from([("p99_ns".to_owned(), 1e6)]),
            latency: Some(vec![[0.5, 1e5], [0.99, 1e6]]),
            samples: Vec::new(),
            warnings: vec![Warning { sentence: "why".to_owned(), concerns: vec!["p99_ns".to_owned()] }],
            notes: Vec::new(),
            intervals: vec![Interval { t_s: 1.0, requests_per_s: 10.0, p50_ns: None, p99_ns: Some(2.0) }],
            steps: vec![Step {
                rate_per_s: 100.0,
                p99_ns: None,
                passed: false,
                reason: "no response".to_owned(),
            }],
        };
        let record = Record::Run(Box::new(run));
        let line = serde_json::to_string(&record).unwrap();
        assert!(!line.contains('\n') && line.starts_with(r#"{"record":"run","#), "{line}");
        assert_eq!(serde_json::from_str::<Record>(&line).unwrap(), record);
    }
}
