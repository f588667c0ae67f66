//! The flags of `rudy status`.

use std::time::Duration;

use clap::Args;
use rudy_admin::{Filter, Phase};
use rudy_server::run::Exit;

use crate::running::status::{Kill, Options, run};
use crate::top::interval;
use crate::values::ServerFlags;
use crate::values::time;

/// The default number of active requests in a table, and in JSON.
const LIMITS: [usize; 2] = [30, 50_000];

/// Show the active requests of a running server, or end some
///
/// Lists the requests that wait, the oldest first, with what each waits for: receiving (the request body), waiting (for an
/// application, an upstream or a disk), sending (the response), or tunnel (such as WebSocket). Below are the clients, paths and
/// hosts with the most requests in the last 10 to 20 seconds, the clients with the most active requests, and the upstreams.
///
/// Rudy asks the server through its admin socket, as root or as the server's user. Queries are not shown, because they may
/// contain secrets; --queries shows them.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  rudy status                                       what the server does now
  rudy status --live                                again every second, on the whole terminal
  rudy status --phase waiting --min-age 5s          what is slow?
  rudy status --client 192.0.2.0/24                 the requests of a network
  rudy status --kill 812.1                          end a request
  rudy status --kill-client 192.0.2.7               end all active requests of a client
  rudy status --json | jq -r '.active[] | [.age_ms, .path] | @tsv'

Exit codes: 0 done; 1 no server found, no response, or nothing to end; 2 invalid arguments.")]
pub(crate) struct Status {
    /// Show the requests of this address or network only
    #[arg(long, value_name = "ADDRESS", help_heading = "Filters")]
    client: Option<String>,
    /// Show the requests for this host only
    #[arg(long, value_name = "HOST", help_heading = "Filters")]
    host: Option<String>,
    /// Show the requests whose path begins with this text only
    #[arg(long, value_name = "PATH", help_heading = "Filters")]
    path: Option<String>,
    /// Show the requests of upstreams with this text in their address only
    #[arg(long, value_name = "UPSTREAM", help_heading = "Filters")]
    upstream: Option<String>,
    /// Show the requests in this phase only: receiving, waiting, sending or tunnel
    #[arg(long, value_name = "PHASE", help_heading = "Filters")]
    phase: Option<Phase>,
    /// Show the requests of at least this age only
    #[arg(long, value_name = "TIME", value_parser = time, help_heading = "Filters")]
    min_age: Option<Duration>,
    /// Number of active requests to show [default: 30, with --json 50000]
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// Show the queries of requests, which may contain secrets
    #[arg(long)]
    queries: bool,
    /// End the active request with this id: its connection is reset, or its stream in HTTP/2 and HTTP/3
    #[arg(long, value_name = "ID", conflicts_with_all = ["live", "kill_client"])]
    kill: Option<String>,
    /// End all active requests of this address or network
    #[arg(long, value_name = "ADDRESS", conflicts_with = "live")]
    kill_client: Option<String>,
    /// Repeat the report, in place on a terminal
    #[arg(long)]
    live: bool,
    /// Time between two reports of --live, from 10ms to 1h
    #[arg(short, long, value_name = "TIME", value_parser = interval, default_value = "1s", requires = "live")]
    interval: Duration,
    /// Append each report of --live instead of redrawing the screen
    #[arg(long, requires = "live")]
    plain: bool,
    /// Print JSON, with units in its keys
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: ServerFlags,
}

impl Status {
    pub(crate) fn run(self) -> Exit {
        let mut filter = Filter {
            client: self.client,
            host: self.host,
            path: self.path,
            upstream: self.upstream,
            phase: self.phase,
            min_age_ms: 0,
        };
        filter.set_min_age(self.min_age.unwrap_or_default());
        let kill = self.kill.map(Kill::Request).or(self.kill_client.map(Kill::Client));
        run(&Options {
            server: self.server.into(),
            filter,
            limit: self.limit.unwrap_or(LIMITS[usize::from(self.json)]),
            queries: self.queries,
            json: self.json,
            live: self.live.then_some(self.interval),
            plain: self.plain,
            kill,
        })
    }
}
