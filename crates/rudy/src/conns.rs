//! The flags of `rudy conns`.

use std::num::{NonZeroU64, NonZeroUsize};
use std::time::Duration;

use clap::{Args, ValueEnum};
use rudy_observe::By;
use rudy_observe::conns::Options;

use crate::top::interval;
use crate::values::process_id;

/// Show the sockets of a process by state, and detect leaks
///
/// UNREAD is the number of received bytes that the process has not read, UNSENT the number of sent bytes that peers have not
/// acknowledged.
///
/// A second table counts connections without a descriptor, which the process has closed or not accepted yet. It lists
/// connections at the ports of the process, and to remote addresses to which the process has connections. Processes that
/// share a port or a remote address share these connections.
///
/// With --watch, prints a line per interval with the change since the start, and a summary at the end. A growing number of
/// sockets in `CLOSE_WAIT` means that the process does not close connections that its peers have closed.
///
/// Reads /proc only; needs the same user or root. Stops when the process ends or on Ctrl-C.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  rudy conns 4711                       sockets by state, once
  rudy conns 4711 --by remote           sockets by remote address
  rudy conns 4711 --watch 10            changes every ten seconds
  rudy conns 4711 --watch --by remote   changes by remote address, every second
  rudy conns 4711 --watch --json | jq -c '[.descriptors, .tcp.close_wait.sockets]'

TIME is 10s, 2m, 500ms, or a number of seconds.
Exit codes: 0 done, or the process ended; 1 process not found or not readable; 2 invalid arguments.")]
pub(crate) struct Conns {
    /// Process id, or the id of one of its threads
    #[arg(value_name = "PID", value_parser = process_id)]
    pid: u32,
    /// Group sockets by this property
    #[arg(long, value_name = "KEY", value_enum, default_value = "state")]
    by: Grouping,
    /// Repeat every TIME (1s if omitted) and print changes
    #[arg(long, value_name = "TIME", num_args = 0..=1, default_missing_value = "1", value_parser = watch_interval)]
    watch: Option<Duration>,
    /// Stop watching after N updates
    #[arg(short = 'n', long, value_name = "N", requires = "watch")]
    count: Option<NonZeroU64>,
    /// Maximum number of remote or local addresses to show
    #[arg(long, value_name = "N", default_value = "20")]
    rows: NonZeroUsize,
    /// Print a JSON object per update, with units in its keys
    #[arg(long)]
    json: bool,
    /// Append each update instead of redrawing the screen
    #[arg(long)]
    plain: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Grouping {
    /// TCP state
    State,
    /// Peer address, with the port of outgoing connections
    #[value(name = "remote")]
    RemoteAddress,
    /// Local address, with the port of incoming connections
    #[value(name = "local")]
    LocalAddress,
}

/// Parses the value of --watch. A process id in its place is a common mistake, so the error mentions it.
fn watch_interval(text: &str) -> Result<Duration, String> {
    interval(text).map_err(|error| format!("{error}; write the process id before --watch"))
}

impl From<Conns> for Options {
    fn from(conns: Conns) -> Self {
        Self {
            pid: conns.pid,
            by: match conns.by {
                Grouping::State => None,
                Grouping::RemoteAddress => Some(By::RemoteAddress),
                Grouping::LocalAddress => Some(By::LocalAddress),
            },
            watch: conns.watch,
            count: conns.count.map(NonZeroU64::get),
            rows: conns.rows.get(),
            json: conns.json,
            plain: conns.plain,
        }
    }
}
