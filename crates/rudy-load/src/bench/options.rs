//! The options of `rudy bench`.

use std::num::NonZeroU32;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use http::{HeaderName, HeaderValue, Method};
use rudy_request::{Access, Protocols, Url};
use rudy_stats::{Slo, search};
use rudy_units::Rate;

use super::sources::Sources;
use super::split::{Split, StartAt};

/// The parsed command line, before validation.
#[derive(Debug, Clone)]
pub struct Options {
    /// URLs to request, with equal weights.
    pub urls: Vec<Url>,
    /// A file of further URLs, with weights, methods and bodies.
    pub url_file: Option<PathBuf>,
    /// The content of the requests.
    pub request: RequestOptions,
    /// The expected responses.
    pub expected: ExpectedOptions,
    /// The load model, and the duration.
    pub pace: PaceOptions,
    /// The connections.
    pub connections: ConnectionOptions,
    /// Certificates to trust, or a Unix socket.
    pub access: Access,
    /// The share of the plan to run; `None` is the whole plan.
    pub split: Option<Split>,
    /// The start time; `None` is now.
    pub start_at: Option<StartAt>,
    /// The objective of a single run, whose exit code is 3 if it does not meet the objective.
    pub objective: Option<Slo>,
    /// The options of a search for the maximum rate; `None` is a single run.
    pub slo_search: Option<SloSearchOptions>,
    /// The outputs.
    pub output: OutputOptions,
}

/// The content of the requests.
#[derive(Debug, Clone, Default)]
pub struct RequestOptions {
    /// The method; `None` is GET, or POST with a body.
    pub method: Option<Method>,
    /// Additional header fields.
    pub fields: Vec<(HeaderName, HeaderValue)>,
    /// Bodies, used in turn: text, or `@` and a file name.
    pub bodies: Vec<String>,
    /// Whether to use HTTP/1.0 instead of HTTP/1.1.
    pub is_http_10: bool,
    /// Whether to use HTTP/2.
    pub is_http2: bool,
    /// Whether to use HTTP/3.
    pub is_http3: bool,
}

impl RequestOptions {
    /// The protocols to offer.
    pub(crate) fn protocols(&self) -> Protocols {
        match (self.is_http2, self.is_http3) {
            (_, true) => Protocols::Http3,
            (true, _) => Protocols::Http2,
            _ => Protocols::Http1,
        }
    }

    /// The version of HTTP, as a number.
    pub(super) fn http_version(&self) -> &'static str {
        match (self.protocols(), self.is_http_10) {
            (Protocols::Http3, _) => "3",
            (Protocols::Http2, _) => "2",
            (_, true) => "1.0",
            (_, false) => "1.1",
        }
    }
}

/// The expected responses, in addition to the status.
#[derive(Debug, Clone, Default)]
pub struct ExpectedOptions {
    /// The length of the body.
    pub body_bytes: Option<u64>,
    /// A file with the body.
    pub body: Option<PathBuf>,
}

/// The load model, and the duration of the run.
#[derive(Debug, Clone, Default)]
pub struct PaceOptions {
    /// The duration of the measurement; `None` is 10 s.
    pub duration: Option<Duration>,
    /// The number of requests, instead of a duration.
    pub requests: Option<u64>,
    /// Requests per second in total (open loop); `None` is a closed loop.
    pub rate: Option<Rate>,
    /// The distribution of send times around the rate.
    pub arrivals: Option<ArrivalsName>,
    /// The seed of random send times.
    pub seed: Option<u64>,
    /// The duration of the warm-up, whose requests are not counted.
    pub warm_up: Option<Duration>,
    /// The timeout of a response, from the send.
    pub timeout: Duration,
    /// The timeout of a response, from the time at which the request was due.
    pub deadline: Option<Duration>,
    /// Whether an objective about latency is accepted in a closed loop.
    pub accepts_closed_loop_latency: bool,
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

/// The connections of a run.
#[derive(Debug, Clone)]
pub struct ConnectionOptions {
    /// The total number; `None` is 64, or the number of requests if lower.
    pub connections: Option<NonZeroU32>,
    /// The number up to which an open loop opens further ones; `None` is `connections`, or the default without it.
    pub connections_max: Option<NonZeroU32>,
    /// The number of generator threads; `None` is half of the cores.
    pub threads: Option<NonZeroU32>,
    /// Whether to open a connection for each request.
    pub disables_keep_alive: bool,
    /// The number of requests after which a connection is replaced.
    pub requests_per_connection: Option<NonZeroU32>,
    /// Maximum number of requests in flight per connection.
    pub pipeline: NonZeroU32,
    /// HTTP/2: maximum number of concurrent streams per connection; `None` is 1.
    pub streams: Option<NonZeroU32>,
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
    /// Whether the text report has the full latency distribution.
    pub has_spectrum: bool,
    /// Whether progress is printed as lines instead of a dashboard.
    pub is_plain: bool,
    /// The time between progress updates; `None` is 1 s, or 100 ms for a dashboard.
    pub interval: Option<Duration>,
    /// The file for the report as JSON; `-` is standard output, instead of the text.
    pub json: Option<PathBuf>,
    /// The file for a JSON line per interval.
    pub ndjson: Option<PathBuf>,
    /// The file for the latency distribution.
    pub hgrm: Option<PathBuf>,
}
