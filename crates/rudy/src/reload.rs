//! The flags of `rudy reload`.

use clap::Args;
use rudy_server::reload::Options;

/// Have a running server read its configuration again, or replace its binary.
///
/// Without --pid it is the one `rudy serve` of this user. The command waits and prints the outcome. If the new configuration is
/// wrong, or the new process does not start, the server goes on as before.
///
/// With --binary the server starts its command line again, from the same path. The new process takes over the listening sockets,
/// and the old one finishes its requests: no connection is lost. If the new process ends while the old one still finishes, the old one
/// takes over again.
///
/// It sends SIGHUP, or SIGUSR2 with --binary.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  rudy reload                      read the configuration again
  rudy reload --binary             after a new version was installed
  rudy reload --pid \"$MAINPID\"     in a systemd unit, as ExecReload=

Exit codes: 0 done; 1 rejected, or no server can be signalled; 2 bad arguments.")]
pub(crate) struct Reload {
    /// Replace the process by a new one of the same command line
    #[arg(long)]
    binary: bool,
    /// The process of the server [default: the one `rudy serve` of this user]
    #[arg(long, value_name = "PID")]
    pid: Option<u32>,
}

impl From<Reload> for Options {
    fn from(reload: Reload) -> Self {
        Self { pid: reload.pid, binary: reload.binary }
    }
}
