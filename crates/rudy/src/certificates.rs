//! The flags of `rudy certificates`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use rudy_server::run::Exit;

use crate::running::certificates::{Options, run};
use crate::trust::{Change, TrustOptions, trust};
use crate::values::ServerFlags;

/// Print the certificates of a running server, or install the local authority
///
/// Prints names, expiry, issuer, key, source, and why a certificate could not be replaced. Rudy asks the server through its
/// admin socket, as root or as the server's user.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
#[command(after_help = "Examples:
  rudy certificates
  rudy certificates --json | jq -r '.certificates[].not_after'
  rudy certificates trust          install the authority of `rudy serve --tls internal`

Exit codes: 0 done; 1 no server found, no response, or not installed everywhere; 2 invalid arguments.")]
pub(crate) struct Certificates {
    #[command(subcommand)]
    command: Option<TrustCommand>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: ServerFlags,
}

#[derive(Debug, Subcommand)]
enum TrustCommand {
    /// Install the local authority, so that programs of this machine accept its certificates
    ///
    /// The authority is that of `tls = \"internal\"` and `rudy serve --tls internal`. It is installed in the store of the system
    /// (needs root), and in the databases of your Chromium and Firefox (with `certutil`).
    #[command(after_help = "Examples:
  rudy certificates trust
  sudo rudy certificates trust --authority ~/.local/state/rudy/authority.crt")]
    Trust(Authority),
    /// Remove the local authority where `trust` has installed it
    #[command(after_help = "Example: rudy certificates untrust")]
    Untrust(Authority),
}

#[derive(Debug, Args)]
struct Authority {
    /// Certificate of the authority [default: authority.crt in the state folder]
    #[arg(long, value_name = "FILE")]
    authority: Option<PathBuf>,
}

impl Certificates {
    pub(crate) fn run(self) -> Exit {
        let Self { command, json, server } = self;
        let (change, authority) = match command {
            None => return run(&Options { server: server.into(), json }),
            Some(TrustCommand::Trust(Authority { authority })) => (Change::Trust, authority),
            Some(TrustCommand::Untrust(Authority { authority })) => (Change::Untrust, authority),
        };
        trust(&TrustOptions { change, authority })
    }
}
