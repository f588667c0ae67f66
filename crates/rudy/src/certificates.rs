//! The flags of `rudy certificates`.

use std::path::PathBuf;

use clap::Args;
use rudy_server::certificates::Options;

/// Print the certificates of a running server
///
/// Names, expiry, issuer, key, source, and why a certificate could not be replaced. Rudy asks the server through its admin
/// socket, as root or as the server's user.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  rudy certificates
  rudy certificates --json | jq -r '.certificates[].not_after'

Exit codes: 0 printed; 1 no server found, or no response; 2 invalid arguments.")]
pub(crate) struct Certificates {
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

impl From<Certificates> for Options {
    fn from(certificates: Certificates) -> Self {
        let Certificates { json, pid, socket } = certificates;
        Self { socket, pid, json }
    }
}
