//! The flags of `rudy bench`.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use http::{HeaderName, HeaderValue, Method};
use rudy_load::bench::{
    ArrivalsName, ConnectionOptions, ExpectedOptions, JobOptions, KneeOptions, MergeOptions, Options,
    OutputOptions, PaceOptions, RequestOptions, Sources, Split, StartAt,
};
use rudy_load::{Access, Exit, Trust, Url, parse_field};
use rudy_stats::Slo;
use rudy_stats::rate::{ParseError, Rate};

use crate::values::{count, elsewhere, number, time};

/// Find out what a server holds: send it many requests, and measure each.
///
/// Without a rate it is a closed loop: each connection sends its next request when it has the answer to the last, so the server
/// decides how many it is asked. With a rate (-R) it is an open loop: requests are due when the rate says, and latency counts
/// from then, whatever the server does.
///
/// Ctrl-C ends the run with the report so far.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    disable_help_subcommand = true,
    after_help = "Examples:
  rudy bench http://127.0.0.1:8080/                     64 connections, 10 s, as fast as they go
  rudy bench -c 100 -n 1m http://127.0.0.1:8080/        a million requests
  rudy bench -R 20k -d 60 http://127.0.0.1:8080/        20,000 requests a second, come what may
  rudy bench -R 1k:50k -d 2m http://127.0.0.1:8080/     more and more, to see where it gives in
  rudy bench -b @a.json -b @b.json http://10.0.0.1/     POST, the two bodies in turn
  rudy bench --slo 'p99<20ms' http://127.0.0.1:8080/    the highest rate at which that holds
  rudy bench -R 1m --split 0/4 --start-at +30s --json 0.json http://10.0.0.1/
  rudy bench merge 0.json 1.json 2.json 3.json          one report of them
  rudy bench --json - http://127.0.0.1:8080/ | jq .latency_us.p99

Times are 10s, 2m, 500ms, or a number of seconds; counts and rates may have k or m behind them.
Exit codes: 0 done, 1 could not run, 2 bad arguments, 3 no rate held --slo, 130 interrupted.",
    arg(elsewhere("-q", "the rate is -R RATE, for all connections together")),
    arg(elsewhere("-p", "the body is -b @FILE; requests ahead on a connection are --pipeline N")),
    arg(elsewhere("-s", "there are no scripts: see --urls, -b and -H; a time limit is --timeout"))
)]
pub(crate) struct Bench {
    #[command(subcommand)]
    command: Option<BenchCommand>,
    /// What to ask; several of one server are asked in turn
    #[arg(value_name = "URL", required_unless_present = "urls")]
    url: Vec<Url>,
    /// Connections in all [default: 64]
    #[arg(short, long, value_name = "N", value_parser = number, help_heading = "Load")]
    connections: Option<NonZeroU32>,
    /// Threads that generate [default: half of the cores]
    #[arg(short, long, value_name = "N", value_parser = number, help_heading = "Load")]
    threads: Option<NonZeroU32>,
    /// How long requests are sent that count [default: 10s]
    #[arg(short, long, short_alias = 'z', value_name = "TIME", value_parser = time, conflicts_with = "requests", help_heading = "Load")]
    duration: Option<Duration>,
    /// So many requests, instead of a time
    #[arg(short = 'n', long, value_name = "N", value_parser = count, help_heading = "Load")]
    requests: Option<u64>,
    /// An open loop of so many requests per second in all; A:B is a ramp from A to B
    #[arg(short = 'R', long, value_name = "RATE", help_heading = "Load")]
    rate: Option<Rate>,
    /// How requests lie around the rate: uniform, or poisson
    #[arg(long, value_name = "HOW", help_heading = "Load")]
    arrivals: Option<ArrivalsName>,
    /// Where the draw of poisson arrivals begins [default: 0]
    #[arg(long, value_name = "N", help_heading = "Load")]
    seed: Option<u64>,
    /// What is sent before and not counted [default: 1s; none with -n or a ramp]
    #[arg(long, value_name = "TIME", value_parser = time, help_heading = "Load")]
    warm_up_time: Option<Duration>,
    /// For a whole answer, from the send
    #[arg(long, visible_short_alias = 'T', value_name = "TIME", default_value = "10s", value_parser = time, help_heading = "Load")]
    timeout: Duration,
    /// For a whole answer, from when the request was due; what is not sent by then is not sent at all
    #[arg(long, value_name = "TIME", value_parser = time, help_heading = "Load")]
    deadline: Option<Duration>,
    /// Search for the highest rate that holds this, such as 'p99<20ms, errors<0.01%'
    ///
    /// Terms are percentiles (p50, p99, p99.9), max, mean and errors, with < or <=. A request without a right answer is longer
    /// than any time. The rate is doubled until it breaks, then bisected; near the edge each rate is tried up to three times,
    /// and the answer must hold for longer. Exit code 3: not even the lowest rate held.
    #[arg(long, value_name = "TERMS", conflicts_with_all = ["rate", "duration", "requests", "warm_up_time", "ndjson", "hgrm", "latency", "interval"], help_heading = "Knee")]
    slo: Option<Slo>,
    /// How near to each other the rate that holds and the one that breaks must come [default: 5%]
    #[arg(long, value_name = "PERCENT", value_parser = resolution, requires = "slo", help_heading = "Knee")]
    resolution: Option<f64>,
    /// How long a rate is tried, a third of it to warm up [default: 6s]
    #[arg(long, value_name = "TIME", value_parser = step_time, requires = "slo", help_heading = "Knee")]
    step_time: Option<Duration>,
    /// How long the answer must hold [default: 30s]
    #[arg(long, value_name = "TIME", value_parser = step_time, requires = "slo", help_heading = "Knee")]
    hold_time: Option<Duration>,
    /// Carry out one share of this load, counted from 0: 0/4 to 3/4 on four machines
    ///
    /// Connections, requests and the rate are those of all shares together. Join the reports (--json) with `rudy bench merge`.
    #[arg(long, value_name = "I/N", conflicts_with = "slo", help_heading = "Machines")]
    split: Option<Split>,
    /// Begin then: 2026-11-21T10:00:00Z, seconds since 1970, or +10s
    #[arg(long, value_name = "TIME", conflicts_with = "slo", help_heading = "Machines")]
    start_at: Option<StartAt>,
    /// Print a Kubernetes Job that carries this load out from N pods, instead of doing it here
    #[arg(long, value_name = "N", value_parser = number, requires = "image", conflicts_with_all = ["split", "slo", "json", "ndjson", "hgrm", "urls", "cacert", "expect_body", "unix_socket"], help_heading = "Machines")]
    kubernetes: Option<NonZeroU32>,
    /// The image of its pods, with rudy in its path
    #[arg(long, value_name = "IMAGE", requires = "kubernetes", help_heading = "Machines")]
    image: Option<String>,
    /// A field of each request, such as "Accept: text/html"; may be given again
    #[arg(short = 'H', long, value_name = "FIELD", value_parser = parse_field, help_heading = "Requests")]
    header: Vec<(HeaderName, HeaderValue)>,
    /// The method [default: GET, or POST with a body]
    #[arg(
        short,
        long,
        visible_short_alias = 'X',
        alias = "request",
        value_name = "METHOD",
        help_heading = "Requests"
    )]
    method: Option<Method>,
    /// The body: a text, or @FILE, or @- for standard input; of several, each request has the next
    #[arg(short, long, alias = "data", value_name = "TEXT|@FILE", help_heading = "Requests")]
    body: Vec<String>,
    /// Ask in HTTP/1.0
    #[arg(long = "http1.0", help_heading = "Requests")]
    http_10: bool,
    /// URLs, a line each, with weight, method and body beside them where they differ: 3 POST URL @FILE
    ///
    /// The weight says how often a URL is asked in comparison with the others; `#` begins a comment.
    #[arg(long, value_name = "FILE", help_heading = "Requests")]
    urls: Option<PathBuf>,
    /// An answer is right only if its body has N bytes
    #[arg(long, value_name = "N", value_parser = count, help_heading = "Requests")]
    expect_bytes: Option<u64>,
    /// An answer is right only if its body is what FILE holds
    #[arg(long, value_name = "FILE", help_heading = "Requests")]
    expect_body: Option<PathBuf>,
    /// A new connection for each request
    #[arg(long, help_heading = "Connections")]
    disable_keepalive: bool,
    /// Close a connection after N requests, and open another
    #[arg(long, value_name = "N", value_parser = number, help_heading = "Connections")]
    requests_per_connection: Option<NonZeroU32>,
    /// Have N requests under way on a connection at once
    #[arg(long, value_name = "N", default_value = "1", value_parser = number, help_heading = "Connections")]
    pipeline: NonZeroU32,
    /// Connect from these addresses in turn, such as 127.0.0.0/28
    #[arg(long, value_name = "CIDR", help_heading = "Connections")]
    sources: Option<Sources>,
    /// Open at most so many connections per second [default: 5k]
    #[arg(long, value_name = "RATE", value_parser = constant_rate, help_heading = "Connections")]
    connect_rate: Option<f64>,
    /// Accept any certificate
    #[arg(short = 'k', long, conflicts_with = "cacert", help_heading = "Connections")]
    insecure: bool,
    /// Accept the certificates in this PEM file and what they have signed, and no others
    #[arg(long, value_name = "FILE", help_heading = "Connections")]
    cacert: Option<PathBuf>,
    /// Connect to this socket in the file system, whatever the URL's host
    #[arg(long, value_name = "PATH", help_heading = "Connections")]
    unix_socket: Option<PathBuf>,
    /// Add the whole distribution of the latencies to the report
    #[arg(long, visible_short_alias = 'L', help_heading = "Output")]
    latency: bool,
    /// Write the report as JSON to this file, or to standard output (-) instead of the text
    #[arg(long, value_name = "FILE|-", help_heading = "Output")]
    json: Option<PathBuf>,
    /// Write an object for each interval to this file, or to standard output (-)
    #[arg(long, value_name = "FILE|-", help_heading = "Output")]
    ndjson: Option<PathBuf>,
    /// Write the distribution of the latencies to this file, as .hgrm
    #[arg(long, value_name = "FILE|-", help_heading = "Output")]
    hgrm: Option<PathBuf>,
    /// How often something is said while it runs [default: 1s]
    #[arg(long, value_name = "TIME", value_parser = time, help_heading = "Output")]
    interval: Option<Duration>,
    /// Lines while it runs, even on a terminal
    #[arg(long, alias = "no-tui", help_heading = "Output")]
    plain: bool,
}

/// `rudy bench`, or one of its commands.
#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    Merge(Merge),
}

/// Join the reports of all shares of a load, without loss, into one
///
/// Counts are added, and histograms cell by cell: the percentiles are those of all requests. Shares of different plans,
/// missing ones, and those whose generator was the limit or did not keep its rate are refused.
#[derive(Debug, Args)]
#[command(after_help = "Example, the first on one machine and the second on another:
  rudy bench -R 200k --split 0/2 --start-at 2026-11-21T10:00:00Z --json a.json http://10.0.0.1/
  rudy bench -R 200k --split 1/2 --start-at 2026-11-21T10:00:00Z --json b.json http://10.0.0.1/
  rudy bench merge a.json b.json")]
pub(crate) struct Merge {
    /// The reports, as --json wrote them; what else a container's log has before and behind is passed over
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Join them whatever is wrong, and say it
    #[arg(long)]
    force: bool,
    /// Add the whole distribution of the latencies to the report
    #[arg(long)]
    latency: bool,
    /// Write the report as JSON to this file, or to standard output (-) instead of the text
    #[arg(long, value_name = "FILE|-")]
    json: Option<PathBuf>,
    /// Write the distribution of the latencies to this file, as .hgrm
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
    /// Runs it to its end.
    pub(crate) fn run(mut self) -> Exit {
        match self.command.take() {
            Some(BenchCommand::Merge(merge)) => rudy_load::bench::merge(&merge.into()),
            None => match (self.kubernetes, self.image.take()) {
                (Some(pods), Some(image)) => {
                    let arguments =
                        std::env::args().skip_while(|argument| argument != "bench").skip(1).collect();
                    rudy_load::bench::print_job(&JobOptions {
                        pods,
                        image,
                        start_at: self.start_at,
                        arguments,
                    })
                }
                _ => rudy_load::bench::bench(&self.into()),
            },
        }
    }
}

impl From<Bench> for Options {
    fn from(bench: Bench) -> Self {
        let trust = match (bench.insecure, bench.cacert) {
            (true, _) => Trust::Anyone,
            (false, Some(file)) => Trust::File(file),
            (false, None) => Trust::Platform,
        };
        Self {
            urls: bench.url,
            url_file: bench.urls,
            request: RequestOptions {
                method: bench.method,
                fields: bench.header,
                bodies: bench.body,
                is_http_10: bench.http_10,
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
            },
            connections: ConnectionOptions {
                connections: bench.connections,
                threads: bench.threads,
                disables_keep_alive: bench.disable_keepalive,
                requests_per_connection: bench.requests_per_connection,
                pipeline: bench.pipeline,
                sources: bench.sources,
                connect_rate: bench.connect_rate,
            },
            access: Access { trust, unix_socket: bench.unix_socket },
            split: bench.split,
            start_at: bench.start_at,
            knee: bench.slo.map(|slo| KneeOptions {
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

fn constant_rate(text: &str) -> Result<f64, String> {
    match text.parse().map_err(|error: ParseError| error.to_string())? {
        Rate::Constant(rate) => Ok(rate),
        Rate::Ramp(..) => Err("expected one rate, and no ramp".to_owned()),
    }
}

/// As a part of the rate.
fn resolution(text: &str) -> Result<f64, String> {
    let percent = text.strip_suffix('%').unwrap_or(text).trim_end().parse::<f64>().ok();
    let allowed = rudy_stats::knee::Options::RESOLUTION_MIN..=rudy_stats::knee::Options::RESOLUTION_MAX;
    percent.map(|percent| percent / 100.0).filter(|part| allowed.contains(part)).ok_or_else(|| {
        format!("expected a percentage from {:.0}% to {:.0}%", allowed.start() * 100.0, allowed.end() * 100.0)
    })
}

/// Shorter ones have too few requests.
fn step_time(text: &str) -> Result<Duration, String> {
    let least = Duration::from_millis(300);
    let time = time(text).map_err(|error| error.to_string())?;
    if time < least { Err(format!("expected at least {} ms", least.as_millis())) } else { Ok(time) }
}
