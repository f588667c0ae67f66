//! The settings of traces.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use http::header;
use rudy_config::{Fields, FilePath, Location, Problem, Table, written_as_text};
use rudy_pipeline::field_changes::is_of_connection;
use rudy_request::Url;
use rudy_units::{Size, Time};

/// The path of the receiver of spans, after that of the collector (OTLP 1.7, section "OTLP/HTTP Request").
const TRACES_PATH: &str = "/v1/traces";

/// Traces of requests, which are sent to a collector: a table, or its URL alone.
#[derive(Debug, Clone, PartialEq, Table)]
#[setting(short(endpoint), what = "the URL of a collector (\"http://127.0.0.1:4318\") or a table")]
pub struct TracingTable {
    /// URL of a collector that receives OTLP over HTTP: the OpenTelemetry Collector, Jaeger or Tempo. `/v1/traces` is appended unless it is
    /// there. The port is usually 4318; 4317 is that of gRPC, which Rudy does not speak.
    #[setting(example = "http://127.0.0.1:4318")]
    pub endpoint: CollectorUrl,
    /// Share of the traces that begin here and are recorded. A trace that a trusted client has begun is recorded if the client records it.
    #[setting(
        default = Percentage(0.01),
        reason = "Spans of one request in a hundred cost little and show what is usual.",
        example = "100%"
    )]
    pub sample: Percentage,
    /// Whether the traces of all clients continue, and are recorded if the client says so. By default, only those of `trusted_proxies` do:
    /// a stranger could have Rudy record each of its requests, or add spans to the traces of others. For other clients, a trace
    /// begins.
    #[setting(default)]
    pub trust_clients: bool,
    /// Name of this service in traces.
    #[setting(default = "rudy".to_owned(), example = "shop-frontend")]
    pub service_name: String,
    /// Header fields of the requests to the collector, such as a key. Write secrets as `${NAME}`, from the environment: then no log shows
    /// them.
    #[setting(default, example = { Authorization = "Bearer ${OTLP_TOKEN}" })]
    pub headers: Fields,
    /// PEM file with the certificates to trust for an `https` URL. The default is what the operating system trusts.
    #[setting(example = "ca.pem")]
    pub trusted_certificates: Option<FilePath>,
    /// Maximum time until the collector has accepted spans. After it, they are sent again.
    #[setting(default = Time(Duration::from_secs(10)), reason = "As in the exporters of OpenTelemetry.", example = "5s")]
    pub timeout: Time<1, 600_000>,
    /// Maximum memory for spans that wait for the collector. When it is used up, further spans are dropped and counted.
    #[setting(
        default = Size(4 << 20),
        reason = "About 8,000 spans: a minute of 100 recorded requests per second without the collector.",
        example = "16M"
    )]
    pub queue: Size<65_536, 1_073_741_824>,
}

impl TracingTable {
    /// Reports fields that cannot be set.
    #[must_use]
    pub fn problems(&self, location: &Location) -> Vec<Problem> {
        let ours = [header::HOST, header::CONTENT_TYPE, header::CONTENT_LENGTH, header::CONTENT_ENCODING];
        let is_ours = |name| ours.contains(name) || is_of_connection(name);
        let invalid = self.headers.names().filter(|(_, name)| is_ours(name)).map(|(key, name)| {
            let problem = Problem::key(&location.key("headers").key(key), format!("{name} cannot be set"));
            problem.label("Rudy sets it for each request")
        });
        invalid.collect()
    }
}

/// The URL of a collector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CollectorUrl(pub(super) Url);

impl FromStr for CollectorUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const EXPECTED: &str = "expected a URL with its scheme, as in \"http://127.0.0.1:4318\"";
        if !["http://", "https://"].iter().any(|scheme| text.starts_with(scheme))
            || text.contains(['?', '#', '@'])
        {
            return Err(EXPECTED.to_owned());
        }
        let base = text.trim_end_matches('/');
        let base = base.strip_suffix(TRACES_PATH).unwrap_or(base);
        format!("{base}{TRACES_PATH}").parse().map(Self).map_err(|_| EXPECTED.to_owned())
    }
}

impl fmt::Display for CollectorUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

written_as_text!(CollectorUrl, "the URL of a collector (\"http://127.0.0.1:4318\")", {
    doc: "The URL of a collector: `http://` or `https://`, a host, a port, and maybe a path.",
    pattern: "^https?://[^?#@]+$",
    examples: ["http://127.0.0.1:4318", "https://otlp.example.org/tenant"],
});

/// A share, from 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Percentage(pub f64);

impl FromStr for Percentage {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = text.strip_suffix('%').map(str::trim_end).and_then(|number| number.parse::<f64>().ok());
        let share = number.filter(|number| (0.0..=100.0).contains(number)).map(|number| Self(number / 100.0));
        share.ok_or_else(|| "expected a percentage from 0 to 100, as in \"1%\" or \"0.1%\"".to_owned())
    }
}

impl fmt::Display for Percentage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the error of the division, and without digits that are zero.
        write!(f, "{}%", (self.0 * 1e10).round() / 1e8)
    }
}

written_as_text!(Percentage, "a percentage (\"1%\")", {
    doc: "A percentage from 0 to 100.",
    pattern: "^[0-9]+(\\.[0-9]+)? ?%$",
    examples: ["1%", "0.1%", "100%"],
});
