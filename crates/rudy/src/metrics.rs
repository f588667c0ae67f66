//! `rudy metrics`: the metrics of a running server.

use clap::Args;
use rudy_server::run::Exit;

use crate::running::metrics;
use crate::values::ServerFlags;

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
    #[command(flatten)]
    server: ServerFlags,
}

impl Metrics {
    pub(crate) fn run(self) -> Exit {
        metrics::run(&metrics::Options { server: self.server.into() })
    }
}
