//! The options of `rudy bench`.

use std::num::NonZeroU32;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use http::{HeaderName, HeaderValue, Method};
use rudy_stats::{Slo, search};
use rudy_units::Rate;

use super::sources::Sources;
use super::split::{Split, StartAt};
use crate::{Access, Url};

/// The parsed command line, before validation.
#[derive(Debug, Clone)]
pub struct Options {
    /// URLs to request, with equal weights.
    pub urls: Vec<Url>,
    /// A file of further URLs, with weights, methods and bodies.
    pub url_file: Option<PathBuf>,
    /// The contents of the requests.
    pub request: RequestOptions,
    /// The expected responses.
    pub expected: ExpectedOptions,
    /// The schedule of the requests.
    pub pace: PaceOptions,
    /// The connections.
    pub connections: ConnectionOptions,
    /// Certificates to trust, or a Unix socket.
    pub access: Access,
    /// The share of the load to run; `None` runs all of it.
    pub split: Option<Split>,
    /// The start time; `None` starts at once.
    pub start_at: Option<StartAt>,
    /// The objective of a single run; its exit code is 3 if it is not met.
    pub objective: Option<Slo>,
    /// Search for the maximum rate instead of a single run.
    pub slo_search: Option<SloSearchOptions>,
    /// The outputs.
    pub output: OutputOptions,
}

/// The contents of the requests.
#[derive(Debug, Clone, Default)]
pub struct RequestOptions {
    /// By default GET, or POST with a body.
    pub method: Option<Method>,
    /// Additional header fields.
    pub fields: Vec<(HeaderName, HeaderValue)>,
    /// Bodies to alternate: text, or `@` and a file name.
    pub bodies: Vec<String>,
    /// HTTP/1.0 instead of HTTP/1.1.
    pub is_http_10: bool,
}

/// The expected responses, in addition to the status.
#[derive(Debug, Clone, Default)]
pub struct ExpectedOptions {
    /// The length of the body.
    pub body_bytes: Option<u64>,
    /// A file with the body.
    pub body: Option<PathBuf>,
}

/// The schedule of requests and the duration.
#[derive(Debug, Clone, Default)]
pub struct PaceOptions {
    /// The duration of the measurement; 10 s by default.
    pub duration: Option<Duration>,
    /// The number of requests, instead of a duration.
    pub requests: Option<u64>,
    /// Requests per second in total (open loop); `None` is a closed loop.
    pub rate: Option<Rate>,
    /// The distribution of send times around the rate.
    pub arrivals: Option<ArrivalsName>,
    /// The seed of random send times.
    pub seed: Option<u64>,
    /// The duration of the warm-up, which is not counted.
    pub warm_up: Option<Duration>,
    /// The timeout of a response, from the send.
    pub timeout: Duration,
    /// The timeout of a response, from the time at which the request was due.
    pub deadline: Option<Duration>,
}

/// The distribution of send times around a rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArrivalsName {
    /// Equal gaps.
    Uniform,
    /// Random gaps, like requests of independent users.
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

/// The connections of a load.
#[derive(Debug, Clone)]
pub struct ConnectionOptions {
    /// The total number; by default 64, or the number of requests if lower.
    pub connections: Option<NonZeroU32>,
    /// The number of generator threads; by default half of the cores.
    pub threads: Option<NonZeroU32>,
    /// Opens a connection for each request.
    pub disables_keep_alive: bool,
    /// Requests after which a connection is replaced.
    pub requests_per_connection: Option<NonZeroU32>,
    /// Requests in flight per connection.
    pub pipeline: NonZeroU32,
    /// Local addresses to connect from, in turn.
    pub sources: Option<Sources>,
    /// Maximum number of new connections per second.
    pub connect_rate: Option<f64>,
}

/// The options of a search for the highest rate that meets an objective.
#[derive(Debug, Clone, PartialEq)]
pub struct SloSearchOptions {
    /// The objective.
    pub slo: Slo,
    /// Maximum distance between the passing and the failing rate, as a fraction of the rate.
    pub resolution: f64,
    /// The duration of a step.
    pub step: Duration,
    /// The duration of the run that confirms the result.
    pub hold: Duration,
}

impl SloSearchOptions {
    /// The allowed values of `resolution`.
    pub const RESOLUTION: RangeInclusive<f64> =
        search::Options::RESOLUTION_MIN..=search::Options::RESOLUTION_MAX;
}

/// The outputs of a run.
#[derive(Debug, Clone, Default)]
pub struct OutputOptions {
    /// Adds the full latency distribution to the report.
    pub has_spectrum: bool,
    /// Prints progress as lines instead of a dashboard.
    pub is_plain: bool,
    /// The time between progress updates.
    pub interval: Option<Duration>,
    /// The file for the report as JSON; `-` is standard output, instead of the text.
    pub json: Option<PathBuf>,
    /// The file for a JSON line per interval.
    pub ndjson: Option<PathBuf>,
    /// The file for the latency distribution.
    pub hgrm: Option<PathBuf>,
}
