//! The flags of `rudy reload`.

use clap::Args;

use crate::running::reload::Options;

/// Reload the configuration of a running server, or upgrade its binary
///
/// Sends SIGHUP to the server, waits, and prints the result. If the new configuration is invalid, the server continues
/// with the old one.
///
/// With --binary, sends SIGUSR2: the server starts the binary at its own path with the same command line. The new process
/// takes over the listening sockets, and the old one finishes its requests. No connection is lost. If the new process
/// fails meanwhile, the old one continues to serve.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  rudy reload                      reload the configuration
  rudy reload --binary             upgrade after installing a new version
  rudy reload --pid \"$MAINPID\"     ExecReload= of a systemd unit

Exit codes: 0 reloaded; 1 configuration rejected, or no server found; 2 invalid arguments.")]
pub(crate) struct Reload {
    /// Upgrade the binary: replace the server process by a new one with the same command line
    #[arg(long)]
    binary: bool,
    /// Process id of the server [default: the only `rudy serve` of the current user]
    #[arg(long, value_name = "PID")]
    pid: Option<u32>,
}

impl From<Reload> for Options {
    fn from(reload: Reload) -> Self {
        Self { pid: reload.pid, binary: reload.binary }
    }
}
