//! The flags of `rudy conns`.

use std::num::{NonZeroU64, NonZeroUsize};
use std::time::Duration;

use clap::{Args, ValueEnum};
use rudy_observe::By;
use rudy_observe::conns::Options;

use crate::top::interval;

/// See the sockets of a process by state, and whether they grow.
///
/// Sockets for which the process has a descriptor are counted by their state; UNREAD are bytes that came and that it has not read,
/// UNSENT those that its peers have not acknowledged. Connections that it has closed, or not accepted yet, belong to no
/// descriptor: those at its ports, and to remotes to which it has connections, are counted apart. Two processes that share a port
/// or a remote share them.
///
/// With --watch it looks again at each interval and writes a line with the change since the start, and at the end what has
/// changed in all: sockets in `CLOSE_WAIT` that only grow are connections that the peer has closed and the process has forgotten.
///
/// It only reads /proc, of its own processes or as root. Ctrl-C ends it, as does the end of the process.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  rudy conns 4711                       what it has now
  rudy conns 4711 --by remote           with whom
  rudy conns 4711 --watch 10            a line every ten seconds
  rudy conns 4711 --watch --by remote   with whom, each second
  rudy conns 4711 --watch --json | jq -c '[.descriptors, .tcp.close_wait.sockets]'

Times are 10s, 2m, 500ms, or a number of seconds.
Exit codes: 0 done, or the process has ended; 1 it cannot be seen; 2 bad arguments.")]
pub(crate) struct Conns {
    /// The process, or one of its threads
    #[arg(value_name = "PID")]
    pid: u32,
    /// Put sockets together by this
    #[arg(long, value_name = "WHAT", value_enum, default_value = "state")]
    by: Grouping,
    /// Look again each second, or at each TIME
    #[arg(long, value_name = "TIME", num_args = 0..=1, default_missing_value = "1", value_parser = interval)]
    watch: Option<Duration>,
    /// End a watch after N looks
    #[arg(short = 'n', long, value_name = "N", requires = "watch")]
    count: Option<NonZeroU64>,
    /// Show at most N remotes or locals
    #[arg(long, value_name = "N", default_value = "20")]
    rows: NonZeroUsize,
    /// Write an object for each look, with units in its keys
    #[arg(long)]
    json: bool,
    /// Write below what was written, instead of over it
    #[arg(long)]
    plain: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Grouping {
    /// Their state
    State,
    /// The peer: its address, and its port where the process connects to it
    Remote,
    /// This side: its address, and its port where the process listens
    Local,
}

impl From<Conns> for Options {
    fn from(conns: Conns) -> Self {
        Self {
            pid: conns.pid,
            by: match conns.by {
                Grouping::State => None,
                Grouping::Remote => Some(By::Remote),
                Grouping::Local => Some(By::Local),
            },
            watch: conns.watch,
            count: conns.count.map(NonZeroU64::get),
            rows: conns.rows.get(),
            json: conns.json,
            plain: conns.plain,
        }
    }
}
