//! The flags of `rudy bench`.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use http::{HeaderName, HeaderValue, Method};
use rudy_command::Exit;
use rudy_load::bench::{
    ArrivalsName, ConnectionOptions, ExpectedOptions, MergeOptions, Options, OutputOptions, PaceOptions,
    RequestOptions, SloSearchOptions, Sources, Split, StartAt,
};
use rudy_request::{Access, Sessions, Url, parse_field};
use rudy_stats::Slo;
use rudy_units::Rate;

use crate::get::ServerFlags;
use crate::values::{constant_rate, count, number, time, unsupported};

/// Measure the throughput and latency of an HTTP server
///
/// By default, bench runs a closed loop: each connection sends its next request after the previous response. The server
/// sets the pace, so the result is its maximum throughput.
///
/// With --rate (-R), bench runs an open loop: it sends requests on a fixed schedule and measures latency from the time at
/// which each request was due. With --slo, it searches for the highest rate that meets an objective.
///
/// The report of an open loop has the latency from the time at which a request was due, and the service time from the time
/// at which it was sent. If requests were not sent, or were sent later than the latency to measure, bench did not keep the
/// rate, and the latency is that of a lower rate.
///
/// Press Ctrl-C to stop early and print the report so far.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    disable_help_subcommand = true,
    after_help = "Examples:
  rudy bench http://127.0.0.1:8080/                     64 connections for 10 seconds
  rudy bench -c 100 -n 1m http://127.0.0.1:8080/        one million requests over 100 connections
  rudy bench -R 20k -d 60 http://127.0.0.1:8080/        a constant 20,000 requests per second
  rudy bench -R 1k:50k -d 2m http://127.0.0.1:8080/     a ramp from 1,000 to 50,000 per second
  rudy bench -R 2k --max-p99 20ms http://127.0.0.1/     exit with code 3 if p99 is higher
  rudy bench --slo 'p99<20ms' http://127.0.0.1:8080/    the highest rate with a p99 below 20 ms
  rudy bench --http2 --streams 10 https://10.0.0.1/     10 concurrent streams on each connection
  rudy bench --http3 --streams 10 https://10.0.0.1/     the same over HTTP/3
  rudy bench --disable-keepalive --tls-resume off https://10.0.0.1/   a full TLS handshake for each request
  rudy bench -b @a.json -b @b.json http://10.0.0.1/     POST requests with two alternating bodies
  rudy bench --json - http://127.0.0.1:8080/ | jq .latency_us.p99
  rudy bench -R 1m --split 0/4 --start-at +30s --json 0.json http://10.0.0.1/
  rudy bench merge 0.json 1.json 2.json 3.json          combine the reports of four machines

TIME is 10s, 2m, 500ms, or a number of seconds. Counts and rates accept the suffixes k and m.
Exit codes: 0 done, 1 failed to run or no request succeeded, 2 invalid arguments, 3 the objective was not
met (--slo, --max-p99, --max-error-rate), 130 interrupted.",
    arg(unsupported("-q", "set the rate of all connections together with -R RATE")),
    arg(unsupported("--rps", "set the rate of all connections together with -R RATE")),
    arg(unsupported("-p", "send a file as the body with -b @FILE, or pipeline requests with --pipeline N")),
    arg(unsupported("-s", "scripts are not supported: use --urls, -b and -H; the timeout is --timeout"))
)]
pub(crate) struct Bench {
    #[command(subcommand)]
    command: Option<BenchCommand>,
    /// URLs to request in turn, all on one server
    #[arg(value_name = "URL", required_unless_present = "urls")]
    url: Vec<Url>,
    /// Number of connections [default: 64]
    #[arg(short, long, value_name = "N", value_parser = number, help_heading = "Load")]
    connections: Option<NonZeroU32>,
    /// At a rate, open further connections while all are busy, up to N [default: 4096, or the number of -c]
    #[arg(long, value_name = "N", value_parser = number, help_heading = "Load")]
    max_connections: Option<NonZeroU32>,
    /// Number of threads [default: half of the cores]
    #[arg(short, long, value_name = "N", value_parser = number, help_heading = "Load")]
    threads: Option<NonZeroU32>,
    /// Duration of the measurement [default: 10s]
    #[arg(short, long, short_alias = 'z', value_name = "TIME", value_parser = duration, conflicts_with = "requests", help_heading = "Load")]
    duration: Option<Duration>,
    /// Number of requests to send, instead of a duration
    #[arg(short = 'n', long, value_name = "N", value_parser = count, help_heading = "Load")]
    requests: Option<u64>,
    /// Requests per second over all connections (open loop); A:B ramps from A to B
    #[arg(short = 'R', long, value_name = "RATE", help_heading = "Load")]
    rate: Option<Rate>,
    /// Distribution of send times at a rate: uniform or poisson [default: uniform]
    #[arg(long, value_name = "DISTRIBUTION", help_heading = "Load")]
    arrivals: Option<ArrivalsName>,
    /// Seed of the poisson distribution [default: 0]
    #[arg(long, value_name = "N", help_heading = "Load")]
    seed: Option<u64>,
    /// Warm-up before the measurement, not counted [default: 1s; none with -n or a ramp]
    #[arg(long, value_name = "TIME", value_parser = time, help_heading = "Load")]
    warm_up_time: Option<Duration>,
    /// Maximum time from sending a request to the end of its response
    #[arg(long, visible_short_alias = 'T', value_name = "TIME", default_value = "10s", value_parser = time, help_heading = "Load")]
    timeout: Duration,
    /// Maximum time from when a request was due to the end of its response; overdue requests are not sent
    #[arg(long, value_name = "TIME", value_parser = time, help_heading = "Load")]
    deadline: Option<Duration>,
    /// Exit with code 3 unless the run shows that at most 1 % of requests take longer than this, or fail; needs a rate (-R)
    #[arg(long, value_name = "TIME", value_parser = max_p99, conflicts_with = "slo", help_heading = "Load")]
    max_p99: Option<String>,
    /// Accept --max-p99 without a rate: a stall then delays one request per connection, and hides the others
    #[arg(long, requires = "max_p99", conflicts_with = "rate", help_heading = "Load")]
    closed_loop_latency: bool,
    /// Exit with code 3 if more than this share of the requests fails, such as 0.1%
    #[arg(long, value_name = "SHARE", value_parser = max_error_rate, conflicts_with = "slo", help_heading = "Load")]
    max_error_rate: Option<String>,
    /// Find the highest rate that meets this objective, such as 'p99<20ms, errors<0.01%'
    ///
    /// Terms are percentiles (p50, p99, p99.9), max, mean and errors, with < or <=. A failed request counts as slower than
    /// any limit. The search doubles the rate until the objective fails, then bisects, with up to three tries per rate. A
    /// longer run confirms the result. Exit code 3 means that not even the lowest rate met the objective.
    #[arg(long, value_name = "TERMS", conflicts_with_all = ["rate", "duration", "requests", "warm_up_time", "ndjson", "hgrm", "latency", "interval"], help_heading = "Maximum rate search")]
    slo: Option<Slo>,
    /// Precision: stop when the passing and the failing rate differ by less than this [default: 5%]
    #[arg(long, value_name = "PERCENT", value_parser = resolution, requires = "slo", help_heading = "Maximum rate search")]
    resolution: Option<f64>,
    /// Duration of each step; its first third is warm-up [default: 6s]
    #[arg(long, value_name = "TIME", value_parser = step_time, requires = "slo", help_heading = "Maximum rate search")]
    step_time: Option<Duration>,
    /// Duration of the run that confirms the result [default: 30s]
    #[arg(long, value_name = "TIME", value_parser = step_time, requires = "slo", help_heading = "Maximum rate search")]
    hold_time: Option<Duration>,
    /// Run one share of the load, counted from 0: 0/4 to 3/4 on four machines
    ///
    /// The connections, requests and rate are totals over all shares. Combine the --json reports with `rudy bench merge`.
    #[arg(long, value_name = "I/N", conflicts_with = "slo", help_heading = "Distributed load")]
    split: Option<Split>,
    /// Start time: 2026-11-21T10:00:00Z, seconds since 1970, or +10s from now
    #[arg(long, value_name = "TIME", conflicts_with = "slo", help_heading = "Distributed load")]
    start_at: Option<StartAt>,
    /// Request header field, such as "Accept: text/html" (repeatable)
    #[arg(short = 'H', long, value_name = "FIELD", value_parser = parse_field, help_heading = "Requests")]
    header: Vec<(HeaderName, HeaderValue)>,
    /// Request method [default: GET, or POST with a body]
    #[arg(
        short,
        long,
        visible_short_alias = 'X',
        alias = "request",
        value_name = "METHOD",
        value_parser = method,
        help_heading = "Requests"
    )]
    method: Option<Method>,
    /// Request body: text, @FILE, or @- for standard input; several bodies alternate (repeatable)
    #[arg(short, long, alias = "data", value_name = "TEXT|@FILE", help_heading = "Requests")]
    body: Vec<String>,
    /// Use HTTP/1.0
    #[arg(long = "http1.0", help_heading = "Requests")]
    http_10: bool,
    /// Use HTTP/2: with https if the server chooses it (ALPN), with http without a negotiation
    #[arg(long, conflicts_with = "http_10", help_heading = "Requests")]
    http2: bool,
    /// Use HTTP/3, over UDP; each connection has a socket of its own
    #[arg(long, conflicts_with_all = ["http_10", "http2"], help_heading = "Requests")]
    http3: bool,
    /// File with a URL per line, optionally with weight, method and body: 3 POST URL @FILE
    ///
    /// A URL with weight 3 is requested three times as often as one with weight 1. `#` starts a comment.
    #[arg(long, value_name = "FILE", help_heading = "Requests")]
    urls: Option<PathBuf>,
    /// Count responses whose body is not N bytes long as failed
    #[arg(long, value_name = "N", value_parser = count, help_heading = "Requests")]
    expect_bytes: Option<u64>,
    /// Count responses whose body differs from FILE as failed
    #[arg(long, value_name = "FILE", help_heading = "Requests")]
    expect_body: Option<PathBuf>,
    /// Open a new connection for each request
    #[arg(long, help_heading = "Connections")]
    disable_keepalive: bool,
    /// Number of requests after which a connection is replaced
    #[arg(long, value_name = "N", value_parser = number, help_heading = "Connections")]
    requests_per_connection: Option<NonZeroU32>,
    /// Number of pipelined requests per connection
    #[arg(long, value_name = "N", default_value = "1", value_parser = number, help_heading = "Connections")]
    pipeline: NonZeroU32,
    /// Number of concurrent streams per connection with --http2 or --http3 [default: 1]
    #[arg(long, value_name = "N", value_parser = number, help_heading = "Connections")]
    streams: Option<NonZeroU32>,
    /// Local addresses to connect from, in turn, such as 127.0.0.0/28
    #[arg(long, value_name = "CIDR", help_heading = "Connections")]
    sources: Option<Sources>,
    /// Maximum number of new connections per second [default: 5k]
    #[arg(long, value_name = "RATE", value_parser = constant_rate, help_heading = "Connections")]
    connect_rate: Option<f64>,
    #[command(flatten)]
    server: ServerFlags,
    /// Resume TLS sessions on new connections, or make a full handshake for each
    #[arg(long, value_name = "ON|OFF", value_enum, default_value = "on", help_heading = "Connections")]
    tls_resume: Switch,
    /// Send the first request of a resumed session as early data, with the first message of the handshake
    #[arg(long, conflicts_with_all = ["tls_resume", "http2", "http3"], help_heading = "Connections")]
    tls_early_data: bool,
    /// Simulate a longer path with this round-trip time, with a relay in this process, for few connections
    #[arg(long, value_name = "TIME", value_parser = time, conflicts_with_all = ["unix_socket", "sources"], help_heading = "Connections")]
    round_trip: Option<Duration>,
    /// Print the full latency distribution
    #[arg(long, visible_short_alias = 'L', help_heading = "Output")]
    latency: bool,
    /// Write the report as JSON to a file, or to standard output (-) instead of the text report
    #[arg(long, value_name = "FILE|-", help_heading = "Output")]
    json: Option<PathBuf>,
    /// Write a JSON line per interval to a file, or to standard output (-)
    #[arg(long, value_name = "FILE|-", help_heading = "Output")]
    ndjson: Option<PathBuf>,
    /// Write the latency distribution in .hgrm format (HdrHistogram)
    #[arg(long, value_name = "FILE|-", help_heading = "Output")]
    hgrm: Option<PathBuf>,
    /// Time between progress lines, columns of the dashboard and --ndjson lines [default: 1s; dashboard: 100ms]
    #[arg(long, value_name = "TIME", value_parser = time, help_heading = "Output")]
    interval: Option<Duration>,
    /// Print progress as lines, even on a terminal
    #[arg(long, alias = "no-tui", help_heading = "Output")]
    plain: bool,
}

/// The value of `--tls-resume`.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Switch {
    /// Resumes sessions.
    On,
    /// Makes full handshakes.
    Off,
}

/// The subcommands of `rudy bench`.
#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    Merge(Merge),
}

/// Combine the reports of all shares of a load into one
///
/// Adds counts and histograms, so the percentiles are those of all requests. Rejects reports of different loads, missing
/// shares, and shares whose load generator was saturated or missed its rate.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  rudy bench -R 200k --split 0/2 --start-at 2026-11-21T10:00:00Z --json a.json http://10.0.0.1/
  rudy bench -R 200k --split 1/2 --start-at 2026-11-21T10:00:00Z --json b.json http://10.0.0.1/
  rudy bench merge a.json b.json

Run the first command on one machine and the second on another.

Exit codes: 0 done, 1 cannot read or write, 2 invalid arguments, or reports that do not belong together, 130 interrupted.")]
pub(crate) struct Merge {
    /// Reports written by --json, or container logs that contain them
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Combine the reports despite such problems, and print a warning
    #[arg(long)]
    force: bool,
    /// Print the full latency distribution
    #[arg(long)]
    latency: bool,
    /// Write the report as JSON to a file, or to standard output (-) instead of the text report
    #[arg(long, value_name = "FILE|-")]
    json: Option<PathBuf>,
    /// Write the latency distribution in .hgrm format (HdrHistogram)
    #[arg(long, value_name = "FILE|-")]
    hgrm: Option<PathBuf>,
}

impl From<Merge> for MergeOptions {
    fn from(merge: Merge) -> Self {
        Self {
            files: merge.files,
            force: merge.force,
            output: OutputOptions {
                has_spectrum: merge.latency,
                json: merge.json,
                hgrm: merge.hgrm,
                ..OutputOptions::default()
            },
        }
    }
}

impl Bench {
    /// Runs the command and returns its exit code.
    pub(crate) fn run(mut self) -> Exit {
        match self.command.take() {
            Some(BenchCommand::Merge(merge)) => rudy_load::bench::merge(&merge.into()),
            None => rudy_load::bench::bench(&self.into()),
        }
    }
}

impl From<Bench> for Options {
    fn from(bench: Bench) -> Self {
        Self {
            urls: bench.url,
            url_file: bench.urls,
            request: RequestOptions {
                method: bench.method,
                fields: bench.header,
                bodies: bench.body,
                is_http_10: bench.http_10,
                is_http2: bench.http2,
                is_http3: bench.http3,
            },
            expected: ExpectedOptions { body_bytes: bench.expect_bytes, body: bench.expect_body },
            pace: PaceOptions {
                duration: bench.duration,
                requests: bench.requests,
                rate: bench.rate,
                arrivals: bench.arrivals,
                seed: bench.seed,
                warm_up: bench.warm_up_time,
                timeout: bench.timeout,
                deadline: bench.deadline,
                accepts_closed_loop_latency: bench.closed_loop_latency,
            },
            connections: ConnectionOptions {
                connections: bench.connections,
                connections_max: bench.max_connections,
                threads: bench.threads,
                disables_keep_alive: bench.disable_keepalive,
                requests_per_connection: bench.requests_per_connection,
                pipeline: bench.pipeline,
                streams: bench.streams,
                sources: bench.sources,
                connect_rate: bench.connect_rate,
            },
            access: Access {
                sessions: match (bench.tls_early_data, bench.tls_resume) {
                    (true, _) => Sessions::EarlyData,
                    (false, Switch::On) => Sessions::Resumed,
                    (false, Switch::Off) => Sessions::Full,
                },
                round_trip: bench.round_trip,
                ..bench.server.into()
            },
            split: bench.split,
            start_at: bench.start_at,
            objective: objective(bench.max_p99.into_iter().chain(bench.max_error_rate)),
            slo_search: bench.slo.map(|slo| SloSearchOptions {
                slo,
                resolution: bench.resolution.unwrap_or(0.05),
                step: bench.step_time.unwrap_or(Duration::from_secs(6)),
                hold: bench.hold_time.unwrap_or(Duration::from_secs(30)),
            }),
            output: OutputOptions {
                has_spectrum: bench.latency,
                is_plain: bench.plain,
                interval: bench.interval,
                json: bench.json,
                ndjson: bench.ndjson,
                hgrm: bench.hgrm,
            },
        }
    }
}

/// The terms of an objective that were parsed before; `None` without any.
fn objective(terms: impl Iterator<Item = String>) -> Option<Slo> {
    let terms: Vec<_> = terms.collect();
    terms.join(",").parse().ok()
}

/// Parses a time into a term of an objective.
fn max_p99(text: &str) -> Result<String, String> {
    let time = time(text)?;
    term(format!("p99<={}us", time.as_micros()))
}

/// Parses a percentage or a fraction into a term of an objective.
fn max_error_rate(text: &str) -> Result<String, String> {
    let (number, factor) = text.strip_suffix('%').map_or((text, 100.0), |percent| (percent, 1.0));
    let percent = rudy_units::parse_decimal(number.trim_end()).map(|number| number * factor);
    let percent = percent.filter(|percent| *percent <= 100.0);
    term(format!("errors<={}%", percent.ok_or("expected a share from 0% to 100%, such as 0.1% or 0.001")?))
}

fn term(text: String) -> Result<String, String> {
    text.parse::<Slo>().map(|_| text).map_err(|error| error.to_string())
}

/// Parses the value of -d, which is the body in curl.
fn duration(text: &str) -> Result<Duration, String> {
    let is_body = text.starts_with(['{', '[', '@', '"']) || text.contains(['=', '&']);
    if is_body { Err("-d is the duration; send a body with -b".to_owned()) } else { time(text) }
}

/// Parses a method. With h2load, `-m` is the number of streams.
fn method(text: &str) -> Result<Method, String> {
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!("-m is the method; use --http2 --streams {text} for concurrent streams"));
    }
    text.parse().map_err(|_| "expected a method, such as GET".to_owned())
}

/// Parses a percentage into a fraction of the rate.
fn resolution(text: &str) -> Result<f64, String> {
    let percent = text.strip_suffix('%').unwrap_or(text).trim_end().parse::<f64>().ok();
    let allowed = SloSearchOptions::RESOLUTION;
    percent.map(|percent| percent / 100.0).filter(|part| allowed.contains(part)).ok_or_else(|| {
        format!("expected a percentage from {:.0}% to {:.0}%", allowed.start() * 100.0, allowed.end() * 100.0)
    })
}

/// Parses the duration of a step. Steps below 300 ms have too few requests.
fn step_time(text: &str) -> Result<Duration, String> {
    let least = Duration::from_millis(300);
    let time = time(text)?;
    if time < least { Err(format!("expected at least {} ms", least.as_millis())) } else { Ok(time) }
}
