//! What `rudy bench` is asked to do.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use http::{HeaderName, HeaderValue, Method};
use rudy_stats::Slo;
use rudy_stats::rate::Rate;

use super::sources::Sources;
use super::split::{Split, StartAt};
use crate::{Access, Url};

/// The command line, read but not yet judged.
#[derive(Debug, Clone)]
pub struct Options {
    /// What to ask; each as often as the others.
    pub urls: Vec<Url>,
    /// A file of more, with their weights, methods and bodies.
    pub url_file: Option<PathBuf>,
    /// What each request is.
    pub request: RequestOptions,
    /// What a right answer is.
    pub expected: ExpectedOptions,
    /// When requests are sent, and until when.
    pub pace: PaceOptions,
    /// On which connections.
    pub connections: ConnectionOptions,
    /// Whom to trust, and how to reach them.
    pub access: Access,
    /// Which share of the plan is carried out here; all of it where nothing is said.
    pub split: Option<Split>,
    /// When it begins; as soon as it can where nothing is said.
    pub start_at: Option<StartAt>,
    /// What is searched for, instead of one run.
    pub knee: Option<KneeOptions>,
    /// What is written, and where to.
    pub output: OutputOptions,
}

/// What each request is.
#[derive(Debug, Clone, Default)]
pub struct RequestOptions {
    /// GET where nothing is said; POST where there is a body.
    pub method: Option<Method>,
    /// Fields besides those that every request has.
    pub fields: Vec<(HeaderName, HeaderValue)>,
    /// Their bodies in turn: each a text, or `@` and the name of a file that holds it.
    pub bodies: Vec<String>,
    /// HTTP/1.0 instead of HTTP/1.1.
    pub is_http_10: bool,
}

/// What a right answer is, beyond its status.
#[derive(Debug, Clone, Default)]
pub struct ExpectedOptions {
    /// The bytes of its body.
    pub body_bytes: Option<u64>,
    /// A file that holds its body.
    pub body: Option<PathBuf>,
}

/// When requests are sent, and until when.
#[derive(Debug, Clone, Default)]
pub struct PaceOptions {
    /// The time that counts; 10 s where neither it nor a number of requests is said.
    pub duration: Option<Duration>,
    /// So many requests instead.
    pub requests: Option<u64>,
    /// An open loop with so many requests per second in all; a closed loop where nothing is said.
    pub rate: Option<Rate>,
    /// How the requests lie around their rate.
    pub arrivals: Option<ArrivalsName>,
    /// Where the draw of their gaps begins.
    pub seed: Option<u64>,
    /// What is sent at the beginning and not counted.
    pub warm_up: Option<Duration>,
    /// For a whole answer, from the send.
    pub timeout: Duration,
    /// For a whole answer, from the moment when the request was due.
    pub deadline: Option<Duration>,
}

/// How the requests lie around their rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArrivalsName {
    /// Evenly.
    Uniform,
    /// As from many people who know nothing of each other.
    Poisson,
}

impl std::str::FromStr for ArrivalsName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "uniform" => Ok(Self::Uniform),
            "poisson" => Ok(Self::Poisson),
            _ => Err("expected uniform or poisson".to_owned()),
        }
    }
}

/// On which connections requests are sent.
#[derive(Debug, Clone)]
pub struct ConnectionOptions {
    /// How many in all; 64 where nothing is said, or as many as there are requests if that is fewer.
    pub connections: Option<NonZeroU32>,
    /// Threads that generate; half of the cores where nothing is said.
    pub threads: Option<NonZeroU32>,
    /// A connection for each request.
    pub disables_keep_alive: bool,
    /// Requests after which a connection is closed and another opened.
    pub requests_per_connection: Option<NonZeroU32>,
    /// Requests under way on a connection at once.
    pub pipeline: NonZeroU32,
    /// Addresses that connections come from, in turn.
    pub sources: Option<Sources>,
    /// Connections that are opened in a second at most.
    pub connect_rate: Option<f64>,
}

/// A search for the highest rate that holds an objective.
#[derive(Debug, Clone, PartialEq)]
pub struct KneeOptions {
    /// What must hold.
    pub slo: Slo,
    /// How near to each other the rate that holds and the one that does not must come, as a part of the rate.
    pub resolution: f64,
    /// How long a rate is tried.
    pub step: Duration,
    /// How long the answer must hold.
    pub hold: Duration,
}

/// What is written, and where to.
#[derive(Debug, Clone, Default)]
pub struct OutputOptions {
    /// The whole distribution of the latencies, in the report.
    pub has_spectrum: bool,
    /// Lines instead of a live view.
    pub is_plain: bool,
    /// How often something is said while it runs.
    pub interval: Option<Duration>,
    /// The report as JSON there; `-` is standard output, instead of the text.
    pub json: Option<PathBuf>,
    /// An object for each interval there.
    pub ndjson: Option<PathBuf>,
    /// The distribution of the latencies there.
    pub hgrm: Option<PathBuf>,
}
