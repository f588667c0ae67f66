//! What is to be measured: subjects, loads, rounds, and what is compared with what.

pub(crate) mod builtin;
mod file;
mod needed;

use std::collections::BTreeMap;

use rudy_server::config::{Size, Time};
use serde::{Deserialize, Serialize};

pub use self::file::parse;

/// An experiment. Whatever a plan file leaves out has its default here.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Its name, as in the titles of its report.
    pub name: String,
    /// What it is to answer; empty where nobody said.
    pub question: String,
    /// How often each subject is measured under each load.
    pub rounds: usize,
    /// Up to this share two subjects count as equal: 0.05 is 5 %.
    pub delta: f64,
    /// Where the draw of the order begins; drawn itself where there is none.
    pub seed: Option<u64>,
    /// How long each load is sent before anything counts.
    pub warmup: Time,
    /// Files for the subjects to serve, by their path in `{folder}`.
    pub files: BTreeMap<String, Contents>,
    /// Programs that are built for it, at `{built}/NAME`.
    #[serde(default)]
    pub programs: Vec<Program>,
    /// What a subject may have beside it.
    #[serde(default)]
    pub beside: Vec<Beside>,
    /// What is measured.
    pub subjects: Vec<Subject>,
    /// What each of them is asked.
    pub loads: Vec<Load>,
    /// What is compared with what.
    pub comparisons: Vec<Comparison>,
    /// Where the figures of [`then`](Self::then) come from: whose they are, of when, on what machine.
    #[serde(default)]
    pub source: String,
    /// What the experiment has shown before, to be shown beside what it shows today.
    #[serde(default)]
    pub then: Vec<Then>,
}

/// A file that the lab makes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Contents {
    /// Numbered lines, cut at this size.
    Size(Size),
    /// This text.
    Text(String),
}

/// A program that a plan brings as source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// Its name, and that of the file that is built.
    pub name: String,
    /// The name of its source's file.
    pub file: String,
    /// The source.
    pub source: String,
    /// The command that builds it: `{source}` and `{target}` stand for the files.
    pub build: Vec<String>,
}

impl Plan {
    /// How many comparisons there are: with their number grow the rounds that each of them needs.
    pub(crate) fn asked(&self) -> usize {
        self.comparisons.iter().map(|comparison| comparison.loads.len() * comparison.figures.len()).sum()
    }
}

/// A server under measurement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Subject {
    /// Its name in reports.
    pub name: String,
    /// Its program and arguments, placeholders not yet replaced.
    pub command: Vec<String>,
    /// What `{config}` stands for: a file with this text, placeholders not yet replaced.
    pub config: Option<String>,
    /// How to know that it serves.
    pub ready: Ready,
    /// How long that may take.
    pub ready_within: Time,
    /// The cores it may run on; any of them if empty.
    pub cores: Vec<usize>,
    /// Whether it is measured twice in each round, the second time as a control: A against A.
    pub is_control: bool,
    /// Whether the experiment goes on without it where something that it needs is not installed.
    pub is_optional: bool,
    /// Programs and, by their whole path, files that it needs beside the program of its command.
    #[serde(default)]
    pub needs: Vec<String>,
    /// Words in braces of its own, and what they stand for in its command and configuration.
    #[serde(default)]
    pub words: BTreeMap<String, String>,
    /// The names of the programs that are started before it, in this order.
    #[serde(default)]
    pub beside: Vec<String>,
    /// How what it prints is read where it is run to its end.
    #[serde(default)]
    pub says: Says,
}

/// A program that is started afresh for each run of a subject that has it beside it, and is not measured itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Beside {
    /// Its name: `{NAME.port}` is where it is to listen.
    pub name: String,
    /// As of a subject.
    pub command: Vec<String>,
    /// As of a subject.
    pub config: Option<String>,
    /// How to know that it serves.
    pub ready: Ready,
    /// How long that may take.
    pub ready_within: Time,
    /// The cores it may run on; any of them if empty.
    pub cores: Vec<usize>,
}

/// What a subject prints that is run to its end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Says {
    /// Its figures, a line each: `NAME VALUE`.
    #[default]
    Figures,
    /// The report of `rudy bench --json -`.
    Bench,
    /// The report of `wrk --latency`.
    Wrk,
    /// The report of `h2load`.
    H2load,
    /// The report of `ab`.
    Ab,
}

/// How to know that a subject serves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ready {
    /// Its port accepts a connection.
    Tcp,
    /// This path is answered with a status below 400.
    Http(String),
    /// This text stands in a line of its output.
    Line(String),
}

/// What a subject is asked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Load {
    /// Its name in reports.
    pub name: String,
    /// The path that is asked.
    pub path: String,
    /// Fields of each request, `Name: value`.
    pub headers: Vec<String>,
    /// When what is beside the subject stands still, if it does.
    #[serde(default)]
    pub stall: Option<Stall>,
    /// How much of it is enough for a quick run, if it is not the usual second.
    #[serde(default)]
    pub quick: Option<Quick>,
    /// How.
    #[serde(flatten)]
    pub kind: Kind,
}

/// A server that stands still: its processes are stopped, and go on later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stall {
    /// How long after the load began.
    pub after: Time,
    /// For how long.
    pub time: Time,
}

/// How much of a load is enough to see that a plan works.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Quick {
    /// So long.
    Time(Time),
    /// So many requests.
    Requests(u32),
}

/// The kind of a load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Kind {
    /// `rudy bench`: a closed loop, or an open one at a rate.
    Bench {
        /// Connections in all.
        connections: u32,
        /// How long it counts.
        time: Time,
        /// Requests a second in all, whatever the subject does; none for a closed loop.
        rate: Option<f64>,
        /// So many requests, instead of a time.
        #[serde(default)]
        requests: Option<u32>,
        /// Each request has a connection of its own.
        #[serde(default)]
        is_closing: bool,
    },
    /// So many requests at once, each on a connection of its own.
    Burst {
        /// How many.
        requests: u32,
        /// How long each waits for its answer.
        timeout: Time,
    },
    /// So many requests, one after the other, each on a connection of its own.
    Sequence {
        /// How many.
        requests: u32,
    },
    /// `rudy bench --slo`: the search for the highest rate that holds.
    Knee {
        /// What is to hold, as in `p99<20ms, errors<0.01%`.
        slo: String,
        /// Connections in all.
        connections: u32,
        /// How long each rate is tried.
        time: Time,
        /// How long the answer must hold.
        hold: Time,
    },
    /// `rudy flood --idle`: connections that have had an answer each, and stay.
    Idle {
        /// Connections in all.
        connections: u32,
        /// How long they take to open.
        ramp: Time,
        /// How long they are kept after that.
        time: Time,
    },
    /// `rudy flood`: streams that stay.
    Flood {
        /// Connections in all.
        connections: u32,
        /// How long they take to open.
        ramp: Time,
        /// How long they are kept after that.
        time: Time,
    },
    /// The subject itself is run once, to its end, and says its figures.
    Run {
        /// What `{n}` stands for in its command: how much it is to do.
        n: Option<u32>,
        /// How long that may take.
        within: Time,
    },
}

/// One subject beside another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Comparison {
    /// The subject of which something is said.
    pub subject: String,
    /// What it is compared with.
    pub with: String,
    /// Under which loads; not empty.
    pub loads: Vec<String>,
    /// In which figures, named as in [`Run::figures`](crate::record::Run::figures); not empty.
    pub figures: Vec<String>,
}

/// Figures of a report that the experiment repeats.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Then {
    /// What was measured, as that report calls it.
    pub subject: String,
    /// The subject of today that it belongs to, if any does.
    pub beside: Option<String>,
    /// Under which load of today.
    pub load: String,
    /// Named as in [`Run::figures`](crate::record::Run::figures).
    pub figures: BTreeMap<String, f64>,
    /// What the report says in words.
    pub said: Option<String>,
}
