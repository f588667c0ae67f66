//! The flags of `rudy flood`.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use rudy_load::bench::Sources;
use rudy_load::flood::{Options, Server};
use rudy_request::{Protocols, Template, parse_field};

use crate::get::ServerFlags;
use crate::values::{number, time, unsupported};

/// Open many long-lived connections and measure what they cost the server
///
/// Opens the connections over a ramp, holds them, reads all data, and measures how late each chunk arrives. The first chunk
/// after the greeting starts the schedule of a stream: chunk k is due (k - 1) intervals later.
///
/// With --pid or --run, also measures the memory per connection and the CPU usage of the server by thread.
///
/// Press Ctrl-C to stop early and print the report so far.
#[derive(Debug, Args)]
#[command(
    arg(unsupported("-t", "one thread handles all connections: remove the flag")),
    after_help = "Examples:
  rudy flood http://127.0.0.1:8080/ticks          1,000 streams for 30 seconds
  rudy flood -c 10k -d 2m http://10.0.0.1/s/{}    10,000 streams, numbered in the path
  rudy flood --http2 -c 10 --streams 100 https://10.0.0.1/s/{}   1,000 streams on 10 connections
  rudy flood --pid 4711 --plot flood.svg http://127.0.0.1:8080/ticks
  rudy flood --run 'rudy serve --config rudy.toml' http://127.0.0.1:8080/ticks
  rudy flood --idle -c 9k --pid 4711 http://127.0.0.1:8080/    memory of idle connections

TIME is 10s, 2m, 500ms, or a number of seconds. Counts accept the suffixes k and m.
Exit codes: 0 done, 1 failed to run, 2 invalid arguments, 130 interrupted."
)]
pub(crate) struct Flood {
    /// URL to request; {} is replaced by the number of the connection or stream
    #[arg(value_name = "URL")]
    url: String,
    /// Number of connections
    #[arg(short, long, value_name = "N", default_value = "1000", value_parser = number, help_heading = "Load")]
    connections: NonZeroU32,
    /// Use HTTP/2: with https if the server chooses it (ALPN), with http without a negotiation
    #[arg(long, help_heading = "Load")]
    http2: bool,
    /// Number of streams to open on each connection with --http2 [default: 1]
    #[arg(long, value_name = "N", value_parser = number, requires = "http2", help_heading = "Load")]
    streams: Option<NonZeroU32>,
    /// Time over which the connections are opened
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = time, help_heading = "Load")]
    ramp: Duration,
    /// Time to hold the connections after the ramp
    #[arg(long, short = 'd', visible_alias = "duration", value_name = "TIME", default_value = "30s", value_parser = time, help_heading = "Load")]
    hold: Duration,
    /// Expected time between chunks of a stream
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = time, help_heading = "Load")]
    interval: Duration,
    /// Number of initial chunks before the schedule starts
    #[arg(long, value_name = "N", default_value = "1", help_heading = "Load")]
    greetings: u32,
    /// Send one request per connection, then hold the connection idle
    #[arg(long, conflicts_with_all = ["interval", "greetings"], help_heading = "Load")]
    idle: bool,
    /// Maximum time to connect, and to receive the first byte
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = time, help_heading = "Load")]
    timeout: Duration,
    /// Request header field, such as "Accept: text/html" (repeatable)
    #[arg(short = 'H', long, value_name = "FIELD", value_parser = parse_field, help_heading = "Requests")]
    header: Vec<(HeaderName, HeaderValue)>,
    /// Request method
    #[arg(
        short,
        long,
        visible_short_alias = 'X',
        alias = "request",
        value_name = "METHOD",
        default_value = "GET",
        help_heading = "Requests"
    )]
    method: Method,
    /// Local addresses to connect from, in turn, such as 127.0.0.0/28
    #[arg(long, value_name = "CIDR", help_heading = "Connections")]
    sources: Option<Sources>,
    #[command(flatten)]
    server: ServerFlags,
    /// Process id of the server to measure, with its descendants
    #[arg(long, value_name = "PID", help_heading = "Server")]
    pid: Option<u32>,
    /// Command that starts the server; it is measured, and stopped at the end
    #[arg(long, value_name = "COMMAND", conflicts_with = "pid", help_heading = "Server")]
    run: Option<String>,
    /// Write a chart of connections, CPU by thread and memory over time
    #[arg(long, value_name = "FILE.svg", help_heading = "Output")]
    plot: Option<PathBuf>,
    /// Print the report as JSON, with units in its keys
    #[arg(long, help_heading = "Output")]
    json: bool,
}

impl From<Flood> for Options {
    fn from(flood: Flood) -> Self {
        let mut fields = HeaderMap::new();
        for (name, value) in flood.header {
            fields.append(name, value);
        }
        Self {
            url: flood.url,
            template: Template {
                method: flood.method,
                fields,
                protocols: if flood.http2 { Protocols::Http2 } else { Protocols::Http1 },
                ..Template::default()
            },
            connections: flood.connections,
            streams: flood.http2.then(|| flood.streams.unwrap_or(NonZeroU32::MIN)),
            ramp: flood.ramp,
            hold: flood.hold,
            interval: flood.interval,
            greetings: flood.greetings,
            holds_idle: flood.idle,
            timeout: flood.timeout,
            access: flood.server.into(),
            sources: flood.sources.map(Sources::addresses).unwrap_or_default(),
            server: flood.pid.map(Server::Pid).or(flood.run.map(Server::Command)),
            plot: flood.plot,
            is_json: flood.json,
        }
    }
}
