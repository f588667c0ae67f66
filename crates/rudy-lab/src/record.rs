//! What an experiment leaves on disk: `results.jsonl`, a line for its beginning and one after every single run.
//!
//! The first line is a [`Head`]. A folder whose experiment was interrupted has every line that was written; one that was
//! resumed has a second head before the lines that came later, so that another machine or version does not go unseen.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::plan::Plan;

/// The name of the file in a results folder.
pub const RESULTS: &str = "results.jsonl";

/// The name of the plan beside it, as it was given.
pub const PLAN: &str = "plan.toml";

/// One line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "kebab-case")]
pub enum Record {
    /// What is measured, where and with what.
    Head(Box<Head>),
    /// What a single run has shown.
    Run(Box<Run>),
}

/// How an experiment begins.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Head {
    /// What is measured, what flags have changed in it included.
    pub plan: Plan,
    /// When it began: RFC 3339, in UTC.
    pub started: String,
    /// Where the draw of the order began.
    pub seed: u64,
    /// On what.
    pub machine: Machine,
    /// With which versions, by name: `rudy`, and each program of a subject that says its own.
    pub versions: BTreeMap<String, String>,
    /// The command line that began it.
    pub command: Vec<String>,
}

/// The machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// The model of its processor.
    pub cpu: String,
    /// How many cores we may use.
    pub cores: usize,
    /// Its memory.
    pub memory_bytes: u64,
    /// The kernel's release.
    pub kernel: String,
    /// How the clock rate of the cores is chosen, where the kernel says.
    pub governor: Option<String>,
}

/// A single run: one subject, freshly started, under one load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// The round, from 0.
    pub round: usize,
    /// The place in the order of its round, from 0.
    pub position: usize,
    /// The subject's name.
    pub subject: String,
    /// The load's name.
    pub load: String,
    /// It is the second of the same subject in this round: A against A.
    pub is_control: bool,
    /// When it began, since the experiment did.
    pub began_s: f64,
    /// How long it took, start and stop of the subject included.
    pub seconds: f64,
    /// What was run.
    pub commands: Commands,
    /// Whether there are figures.
    pub outcome: Outcome,
    /// What was measured, by name; each name has its unit. What there was nothing to measure of is not in it.
    pub figures: BTreeMap<String, f64>,
    /// The distribution of latency: quantile and nanoseconds, in ascending order.
    pub latency: Option<Vec<[f64; 2]>>,
    /// The subject, once a second.
    pub samples: Vec<Sample>,
    /// Why figures may not be what they seem to be.
    pub doubts: Vec<Doubt>,
    /// What happened that is worth saying and changes no figure: a process left behind, a core that was not free.
    pub notes: Vec<String>,
    /// The load by the second, where its generator says.
    pub intervals: Vec<Interval>,
    /// The rates that a search for the knee has tried, in its order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<Step>,
}

/// What was run, so that it can be run again: each a program and its arguments.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Commands {
    /// The subject.
    pub subject: Vec<String>,
    /// The load.
    pub load: Vec<String>,
}

/// How a run went.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Outcome {
    /// There are figures.
    Measured,
    /// There are none, or none that count.
    Failed {
        /// What happened, as a sentence for people; the end of the subject's output may follow on lines of its own.
        why: String,
    },
}

/// A subject at one moment, with all processes that belong to it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Since the load began.
    pub t_s: f64,
    /// CPU of each thread since the load began, in user mode and in the kernel, in seconds; threads of one name together, and
    /// those of which there are many that differ only in a number.
    pub threads: BTreeMap<String, [f64; 2]>,
    /// Memory that is its own.
    pub private_bytes: u64,
    /// Memory that it shares with others.
    pub shared_bytes: u64,
    /// Open descriptors.
    pub descriptors: u64,
    /// Its TCP sockets by state.
    pub sockets: BTreeMap<String, u64>,
    /// Established connections.
    pub connections: u64,
    /// Times its threads gave up a core since the load began, to wait for something.
    pub voluntary_switches: u64,
    /// Times a core was taken from them.
    pub involuntary_switches: u64,
}

/// Why figures may not be what they seem to be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Doubt {
    /// What is doubted and why.
    pub sentence: String,
    /// The names of the figures that it concerns.
    pub concerns: Vec<String>,
}

/// A second of a load.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Its end, since the load began.
    pub t_s: f64,
    /// Whole answers per second.
    pub requests_per_s: f64,
    /// The latency that half of them had, and less.
    pub p50_ns: Option<f64>,
    /// The latency that 99 of 100 had, and less.
    pub p99_ns: Option<f64>,
}

/// A rate that was tried.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// Requests per second that were asked.
    pub rate_per_s: f64,
    /// The latency that 99 of 100 had, and less; nothing where none was answered.
    pub p99_ns: Option<f64>,
    /// Whether the objective held.
    pub held: bool,
    /// How it went, in words.
    pub words: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_as_it_was_written() {
        let run = Run {
            round: 3,
            position: 1,
            subject: "rudy".to_owned(),
            load: "1k".to_owned(),
            is_control: true,
            began_s: 12.5,
            seconds: 6.25,
            commands: Commands { subject: vec!["rudy".to_owned()], load: vec!["bench".to_owned()] },
            outcome: Outcome::Failed { why: "it ended (exit code 1) before it was ready".to_owned() },
            figures: BTreeMap::from([("p99_ns".to_owned(), 1e6)]),
            latency: Some(vec![[0.5, 1e5], [0.99, 1e6]]),
            samples: Vec::new(),
            doubts: vec![Doubt { sentence: "why".to_owned(), concerns: vec!["p99_ns".to_owned()] }],
            notes: Vec::new(),
            intervals: vec![Interval { t_s: 1.0, requests_per_s: 10.0, p50_ns: None, p99_ns: Some(2.0) }],
            steps: vec![Step { rate_per_s: 100.0, p99_ns: None, held: false, words: "no answer".to_owned() }],
        };
        let record = Record::Run(Box::new(run));
        let line = serde_json::to_string(&record).unwrap();
        assert!(!line.contains('\n') && line.starts_with(r#"{"record":"run","#), "{line}");
        assert_eq!(serde_json::from_str::<Record>(&line).unwrap(), record);
    }
}
