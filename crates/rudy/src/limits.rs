//! The flags of `rudy limits`.

use std::path::PathBuf;

use clap::Args;
use rudy_server::limits::{Options, run};
use rudy_server::run::Exit;

/// Print the rate limits of a running server, and the clients over them
///
/// Prints each `rate_limit` and `concurrent_requests` with the number of rejected requests, and the keys that were over it most
/// often, such as addresses. Rudy asks the server through its admin socket, as root or as the server's user.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  rudy limits
  rudy limits --json | jq -r '.limits[].top[].key'

Exit codes: 0 done; 1 no server found, or no response; 2 invalid arguments.")]
pub(crate) struct Limits {
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Process id of the server [default: the only `rudy serve` of the current user]
    #[arg(long, value_name = "PID")]
    pid: Option<u32>,
    /// Admin socket of the server, if its configuration has `admin_socket`
    #[arg(long, value_name = "PATH", conflicts_with = "pid")]
    socket: Option<PathBuf>,
}

impl Limits {
    pub(crate) fn run(self) -> Exit {
        let Self { json, pid, socket } = self;
        run(&Options { socket, pid, json })
    }
}
