//! The flags of `rudy flood`.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use rudy_load::bench::Sources;
use rudy_load::flood::{Options, Server};
use rudy_load::{Access, Template, Trust, parse_field};

use crate::values::{elsewhere, number, time};

/// Hold many long-lived connections: open them on a ramp, keep them, read everything, and say how late each chunk was.
///
/// The first chunk of a stream after its greeting sets its schedule: chunk k is due (k - 1) intervals later, and what comes
/// after that is late. With --pid or --run the server is looked at meanwhile: memory per connection, CPU by thread.
///
/// Ctrl-C ends the flood with the report so far.
#[derive(Debug, Args)]
#[command(
    arg(elsewhere("-t", "one thread holds all connections: leave it out")),
    after_help = "Examples:
  rudy flood http://127.0.0.1:8080/ticks          1,000 streams, kept for 30 s
  rudy flood -c 10k -d 2m http://10.0.0.1/s/{}    10,000, each with its number in the path
  rudy flood --pid 4711 --plot flood.svg http://127.0.0.1:8080/ticks
  rudy flood --run 'rudy serve --config rudy.toml' http://127.0.0.1:8080/ticks
  rudy flood --idle -c 9k --pid 4711 http://127.0.0.1:8080/    what an idle connection costs

Times are 10s, 2m, 500ms, or a number of seconds; numbers may have k or m behind them.
Exit codes: 0 done, 1 could not run, 2 bad arguments, 130 interrupted."
)]
pub(crate) struct Flood {
    /// What each connection asks; {} in it stands for the connection's number
    #[arg(value_name = "URL")]
    url: String,
    /// Connections in all
    #[arg(short, long, value_name = "N", default_value = "1000", value_parser = number, help_heading = "Load")]
    connections: NonZeroU32,
    /// Open them evenly over this time
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = time, help_heading = "Load")]
    ramp: Duration,
    /// Keep them for this time after that
    #[arg(long, short = 'd', visible_alias = "duration", value_name = "TIME", default_value = "30s", value_parser = time, help_heading = "Load")]
    hold: Duration,
    /// How far apart the chunks of a stream are meant to be
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = time, help_heading = "Load")]
    interval: Duration,
    /// Chunks at the beginning of a stream that are no part of its schedule
    #[arg(long, value_name = "N", default_value = "1", help_heading = "Load")]
    greetings: u32,
    /// Keep each connection after its whole answer, with no other request
    #[arg(long, conflicts_with_all = ["interval", "greetings"], help_heading = "Load")]
    idle: bool,
    /// Give up a connection, or one without a first byte, after this time
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = time, help_heading = "Load")]
    timeout: Duration,
    /// A field of each request, "Name: value"; may be given again
    #[arg(short = 'H', long, value_name = "FIELD", value_parser = parse_field, help_heading = "Requests")]
    header: Vec<(HeaderName, HeaderValue)>,
    /// The method
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
    /// Connect from these addresses in turn, such as 127.0.0.0/28
    #[arg(long, value_name = "CIDR", help_heading = "Connections")]
    sources: Option<Sources>,
    /// Accept any certificate
    #[arg(short = 'k', long, conflicts_with = "cacert", help_heading = "Connections")]
    insecure: bool,
    /// Accept the certificates in this PEM file and what they have signed, and no others
    #[arg(long, value_name = "FILE", help_heading = "Connections")]
    cacert: Option<PathBuf>,
    /// Connect to this socket in the file system, whatever the URL's host
    #[arg(long, value_name = "PATH", help_heading = "Connections")]
    unix_socket: Option<PathBuf>,
    /// Look at the server with this process number
    #[arg(long, value_name = "PID", help_heading = "Server")]
    pid: Option<u32>,
    /// Start the server with this command, look at it, and end it after the flood
    #[arg(long, value_name = "COMMAND", conflicts_with = "pid", help_heading = "Server")]
    run: Option<String>,
    /// Draw connections, CPU by thread and memory over time
    #[arg(long, value_name = "FILE.svg", help_heading = "Output")]
    plot: Option<PathBuf>,
    /// Write the report as an object, with units in its keys
    #[arg(long, help_heading = "Output")]
    json: bool,
}

impl From<Flood> for Options {
    fn from(flood: Flood) -> Self {
        let trust = match (flood.insecure, flood.cacert) {
            (true, _) => Trust::Anyone,
            (false, Some(file)) => Trust::File(file),
            (false, None) => Trust::Platform,
        };
        let mut fields = HeaderMap::new();
        for (name, value) in flood.header {
            fields.append(name, value);
        }
        Self {
            url: flood.url,
            template: Template { method: flood.method, fields, ..Template::default() },
            connections: flood.connections,
            ramp: flood.ramp,
            hold: flood.hold,
            interval: flood.interval,
            greetings: flood.greetings,
            keeps_idle: flood.idle,
            timeout: flood.timeout,
            access: Access { trust, unix_socket: flood.unix_socket },
            sources: flood.sources.map(Sources::addresses).unwrap_or_default(),
            server: flood.pid.map(Server::Pid).or(flood.run.map(Server::Command)),
            plot: flood.plot,
            is_json: flood.json,
        }
    }
}
