//! `rudy metrics`: the metrics of a running server.

use std::path::PathBuf;

use clap::Args;
use rudy_server::metrics;
use rudy_server::run::Exit;

/// Print the metrics of a running server, in the text format of Prometheus
///
/// Rudy asks the server through its admin socket, as root or as the server's user. Requests are counted by site and route if the
/// configuration has `metrics = true`, or a route with the handler `metrics`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  rudy metrics | grep rudy_upstream
  rudy metrics | promtool check metrics

Exit codes: 0 done; 1 no server found, or no response; 2 invalid arguments.")]
pub(crate) struct Metrics {
    /// Process id of the server [default: the only `rudy serve` of the current user]
    #[arg(long, value_name = "PID")]
    pid: Option<u32>,
    /// Admin socket of the server, if its configuration has `admin_socket`
    #[arg(long, value_name = "PATH", conflicts_with = "pid")]
    socket: Option<PathBuf>,
}

impl Metrics {
    pub(crate) fn run(self) -> Exit {
        metrics::run(&metrics::Options { socket: self.socket, pid: self.pid })
    }
}
