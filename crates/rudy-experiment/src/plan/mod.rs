//! The plan of an experiment: variants, workloads, rounds and comparisons.

pub mod aa;
pub mod builtin;
mod file;
mod needed;
mod runs;

use std::collections::BTreeMap;
use std::time::Duration;

use rudy_units::{Size, Time};
use serde::{Deserialize, Serialize};

pub use self::file::parse;
pub use self::file::usual_metrics;

/// An experiment, with defaults for everything that the plan file omits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// The name, as in the titles of reports.
    pub name: String,
    /// The question that it should answer; may be empty.
    pub question: String,
    /// The number of rounds.
    pub rounds: usize,
    /// The margin of equivalence: 0.05 is 5 %.
    pub delta: f64,
    /// The seed of the order; random by default.
    pub seed: Option<u64>,
    /// The duration of the warm-up.
    pub warmup: Time,
    /// Generated files for the variants, by their path in `{folder}`.
    pub files: BTreeMap<String, Contents>,
    /// Programs to build, at `{built}/NAME`.
    #[serde(default)]
    pub programs: Vec<Program>,
    /// Companion programs.
    #[serde(default)]
    pub companions: Vec<Companion>,
    /// The variants.
    pub variants: Vec<Variant>,
    /// The workloads.
    pub workloads: Vec<Workload>,
    /// The comparisons.
    pub comparisons: Vec<Comparison>,
    /// The source of the metrics in [`baselines`](Self::baselines): the report, its date and its machine.
    #[serde(default)]
    pub source: String,
    /// Older results, to show next to the new ones.
    #[serde(default)]
    pub baselines: Vec<Baseline>,
    /// The optional variants that could not be measured, each with the reason.
    #[serde(default)]
    pub left_out: Vec<String>,
}

/// A file that the lab generates.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Contents {
    /// Numbered lines, cut at this size.
    Size(Size),
    /// This text.
    Text(String),
    /// A key of this type and a certificate for `localhost` and 127.0.0.1 signed with it, in PEM: `rsa-2048`, `p-256`.
    Key(String),
}

/// A program that a plan includes as source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// Its name, and that of the built file.
    pub name: String,
    /// The name of the source file.
    pub file: String,
    /// The source.
    pub source: String,
    /// The build command, with the placeholders `{source}` and `{target}`.
    pub build: Vec<String>,
}

impl Plan {
    /// The number of comparisons. More comparisons need more rounds.
    #[must_use]
    pub fn comparison_count(&self) -> usize {
        self.comparisons.iter().map(|comparison| comparison.workloads.len() * comparison.metrics.len()).sum()
    }
}

/// A server to measure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Variant {
    /// Its name in reports.
    pub name: String,
    /// Program and arguments, with placeholders. Empty if the server runs already.
    pub command: Vec<String>,
    /// The text of the file `{config}`, with placeholders.
    pub config: Option<String>,
    /// The condition for being ready.
    pub ready: Ready,
    /// The timeout for becoming ready.
    pub ready_within: Time,
    /// The cores it may run on; all if empty.
    pub cores: Vec<usize>,
    /// The URL to which the path of a workload is appended, with placeholders. By default, its port of 127.0.0.1.
    #[serde(default)]
    pub url: Option<String>,
    /// The workloads with which it runs; `None` for all.
    #[serde(default)]
    pub workloads: Option<Vec<String>>,
    /// The number of rounds in which it runs, if not all: the first ones.
    #[serde(default)]
    pub rounds: Option<usize>,
    /// Whether it is measured twice in each round, the second time as a control: A against A.
    pub is_control: bool,
    /// Whether it is skipped if a requirement is not installed.
    pub is_optional: bool,
    /// Other required programs, and files by absolute path.
    #[serde(default)]
    pub needs: Vec<String>,
    /// The command that installs what it requires.
    #[serde(default)]
    pub install: Option<String>,
    /// Its own placeholders and their values.
    #[serde(default)]
    pub placeholders: BTreeMap<String, String>,
    /// The companion programs, in the order in which they start.
    #[serde(default)]
    pub companions: Vec<String>,
    /// The format of its output, if it runs to its end.
    #[serde(default)]
    pub output_format: OutputFormat,
    /// Its point on a curve of variants that differ in a number.
    #[serde(default)]
    pub curve: Option<Curve>,
}

/// The point of a variant on a curve.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Curve {
    /// The name of the curve, which its variants share.
    pub name: String,
    /// The number in which they differ.
    pub at: u32,
    /// What the number is, for the axis; the same for all curves of a plan.
    pub of: String,
}

/// A companion program that starts before each run of its variants and is not measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Companion {
    /// Its name: `{NAME.port}` is its port.
    pub name: String,
    /// As in a variant.
    pub command: Vec<String>,
    /// As in a variant.
    pub config: Option<String>,
    /// The condition for being ready.
    pub ready: Ready,
    /// The timeout for becoming ready.
    pub ready_within: Time,
    /// The cores it may run on; all if empty.
    pub cores: Vec<usize>,
}

/// The output format of a variant that runs to its end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OutputFormat {
    /// Metrics, one per line: `NAME VALUE`.
    #[default]
    Metrics,
    /// The report of `rudy bench --json -`.
    Bench,
    /// The report of `wrk --latency`.
    Wrk,
    /// The report of `h2load`.
    H2load,
    /// The report of `ab`.
    Ab,
    /// One or several JSON values; the numbers of the last one.
    Json,
}

/// The condition for a variant to be ready.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ready {
    /// Its port accepts connections.
    Tcp,
    /// This path returns a status below 400.
    Http(String),
    /// A line of its output contains this text.
    Line(String),
}

/// A workload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Workload {
    /// Its name in reports.
    pub name: String,
    /// The path to request.
    pub path: String,
    /// Header fields of each request, `Name: value`.
    pub headers: Vec<String>,
    /// When the companion programs stall, if they do.
    #[serde(default)]
    pub stall: Option<Stall>,
    /// The size of a quick run, if not the default of one second.
    #[serde(default)]
    pub quick: Option<Quick>,
    /// The number of rounds in which it runs, if not all: the first ones.
    #[serde(default)]
    pub rounds: Option<usize>,
    /// Whether servers and load generator run on different cores.
    #[serde(default)]
    pub separate_cores: bool,
    /// How long a run is expected to take, if its kind does not determine it.
    #[serde(default)]
    pub estimate: Option<Time>,
    /// How sessions of TLS are used; resumed by default.
    #[serde(default)]
    pub tls: Option<TlsUse>,
    /// The round-trip time of a simulated path to the server.
    #[serde(default)]
    pub round_trip: Option<Time>,
    /// Further arguments of `rudy bench`, such as a method and a body, with placeholders.
    #[serde(default)]
    pub arguments: Vec<String>,
    /// Whether the requests go to `{tls-port}`, over TLS.
    #[serde(default)]
    pub is_https: bool,
    /// What a response must be before a run counts.
    #[serde(default)]
    pub expect: Option<Expect>,
    /// The kind.
    #[serde(flatten)]
    pub kind: Kind,
}

/// What the response to a single request must be before a run counts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expect {
    /// The status.
    #[serde(default = "ok")]
    pub status: u16,
    /// The file of the plan that the body equals, after its decompression.
    pub body: Option<String>,
    /// The content coding of the body.
    pub encoding: Option<Encoding>,
    /// Whether a response must come from a cache, while the companion processes are stopped.
    #[serde(default)]
    pub cached: bool,
}

/// A content coding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Encoding {
    /// The only one that all measured servers support.
    Gzip,
}

fn ok() -> u16 {
    200
}

/// How a load generator uses sessions of TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TlsUse {
    /// Each handshake is a full one.
    Full,
    /// Further connections resume sessions.
    Resumed,
    /// They also send the request with the first message of the handshake.
    EarlyData,
}

/// A pause of the companion processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stall {
    /// Time from the start of the workload.
    pub after: Time,
    /// The duration.
    pub time: Time,
}

/// The size of a workload in a quick run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Quick {
    /// A duration.
    Time(Time),
    /// A number of requests.
    Requests(u32),
}

/// The kind of a workload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Kind {
    /// `rudy bench`: a closed loop, or an open loop at a rate.
    Bench {
        /// Number of connections.
        connections: u32,
        /// The duration of the measurement.
        time: Time,
        /// Total requests per second; `None` is a closed loop.
        rate: Option<f64>,
        /// The number of requests, instead of a duration.
        #[serde(default)]
        requests: Option<u32>,
        /// Whether each request has its own connection.
        #[serde(default)]
        is_closing: bool,
        /// The number of concurrent streams per connection with HTTP/2; `None` is HTTP/1.1.
        #[serde(default)]
        streams: Option<u32>,
    },
    /// Concurrent requests, each on a new connection.
    Burst {
        /// The number of requests.
        requests: u32,
        /// The timeout of each.
        timeout: Time,
    },
    /// Sequential requests, each on a new connection or all on one.
    Sequence {
        /// The number of requests.
        requests: u32,
        /// Whether all have the same connection.
        #[serde(default)]
        keeps_alive: bool,
    },
    /// `rudy bench --slo`: searches for the maximum rate.
    MaxRate {
        /// The objective, such as `p99<20ms, errors<0.01%`.
        slo: String,
        /// Number of connections.
        connections: u32,
        /// The duration of a step.
        time: Time,
        /// The duration of the run that confirms the result.
        hold: Time,
    },
    /// `rudy flood --idle`: connections that stay open after one request.
    Idle {
        /// Number of connections.
        connections: u32,
        /// The time over which they are opened.
        ramp: Time,
        /// The time to hold them.
        time: Time,
    },
    /// `rudy flood`: streams that stay open.
    Flood {
        /// Number of connections.
        connections: u32,
        /// The time over which they are opened.
        ramp: Time,
        /// The time to hold them.
        time: Time,
    },
    /// The variant itself runs once to its end, and prints its metrics.
    Run {
        /// The value of `{n}` in its command: the amount of work.
        n: Option<u32>,
        /// The timeout.
        within: Time,
        /// The exit codes of a valid run.
        #[serde(default = "success")]
        exit_codes: Vec<i32>,
    },
}

impl Kind {
    /// The time over which connections are opened; zero if they are opened at once.
    #[must_use]
    pub fn ramp(&self) -> Duration {
        match self {
            Self::Idle { ramp, .. } | Self::Flood { ramp, .. } => ramp.0,
            _ => Duration::ZERO,
        }
    }

    /// When a workload ends, from its start; `None` if that depends on the server.
    #[must_use]
    pub fn end(&self) -> Option<Duration> {
        match self {
            Self::Idle { ramp, time, .. } | Self::Flood { ramp, time, .. } => Some(ramp.0 + time.0),
            Self::Bench { time, requests: None, .. } => Some(time.0),
            _ => None,
        }
    }
}

fn success() -> Vec<i32> {
    vec![0]
}

/// A comparison of two variants.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Comparison {
    /// The first variant.
    pub variant: String,
    /// The variant to compare with.
    pub with: String,
    /// The workloads; not empty.
    pub workloads: Vec<String>,
    /// The metrics by their names in [`Run::metrics`](crate::record::Run::metrics); not empty.
    pub metrics: Vec<String>,
}

/// Metrics of an older report that the experiment repeats.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Baseline {
    /// Its name in that report.
    pub name: String,
    /// The corresponding variant of today, if any.
    pub variant: Option<String>,
    /// The corresponding workload.
    pub workload: String,
    /// Names as in [`Run::metrics`](crate::record::Run::metrics).
    pub metrics: BTreeMap<String, f64>,
    /// A statement of the report in words.
    pub text: Option<String>,
}
