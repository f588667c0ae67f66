//! The flags of `rudy limits`.

use clap::Args;
use rudy_server::run::Exit;

use crate::running::limits::{Options, run};
use crate::values::ServerFlags;

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
    #[command(flatten)]
    server: ServerFlags,
}

impl Limits {
    pub(crate) fn run(self) -> Exit {
        run(&Options { server: self.server.into(), json: self.json })
    }
}
