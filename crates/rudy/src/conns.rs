//! The flags of `rudy conns`.

use std::num::{NonZeroU16, NonZeroU64, NonZeroUsize};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{Args, CommandFactory, ValueEnum};
use rudy_diagnose::conns::{Options, WatchOptions};
use rudy_observe::{By, Target};

use crate::top::interval;
use crate::values::time;

/// Show the sockets of a process by state, and detect leaks
///
/// UNREAD is the number of received bytes that the process has not read, UNSENT the number of sent bytes that peers have not
/// acknowledged.
///
/// A second table counts connections without a descriptor, which the process has closed or not accepted yet. It lists
/// connections at the ports of the process, and to remote addresses to which the process has connections. Processes that
/// share a port or a remote address share these connections.
///
/// With --watch, prints a line per interval with the change since the start, and at the end whether the process leaks: what
/// grows persistently, how fast, and when the descriptors run out. Sockets that only the process can close must grow for 100 s
/// (--min-time); open connections and descriptors, which may be a pool that fills, for three times as long.
///
/// Several processes with the same name, or that listen on the same port, are shown as one; later ones are included. A socket that they share
/// counts once.
///
/// Reads /proc only; needs the same user or root. Stops when the last process ends or on Ctrl-C.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  rudy conns 4711                           sockets by state, once
  rudy conns nginx --by remote              sockets by remote address
  rudy conns :8080 --watch                  watch what listens on port 8080; verdict on Ctrl-C
  rudy conns 4711 --watch 10 --for 1h       a sample every ten seconds for an hour, then the verdict
  rudy conns 4711 --watch --until-leak      exit with code 4 when it leaks
  rudy conns 4711 --watch --plot leak.svg   and write a chart at the end
  rudy conns 4711 --watch --json | jq -c 'select(.verdict)'

TIME is 10s, 2m, 500ms, or a number of seconds.
Exit codes: 0 no leak, or done; 1 process not found or not readable; 2 invalid arguments; 4 leak.")]
pub(crate) struct Conns {
    /// Process id, the id of one of its threads, the name of one or several processes, or :PORT where they listen
    #[arg(value_name = "PID|NAME|:PORT", required_unless_present_any = ["port", "watch"])]
    target: Option<Target>,
    /// Observe the process that listens on this port
    #[arg(long, value_name = "PORT", conflicts_with = "target")]
    port: Option<NonZeroU16>,
    /// Group sockets by this property
    #[arg(long, value_name = "KEY", value_enum, default_value = "state")]
    by: Grouping,
    /// Maximum number of remote or local addresses to show
    #[arg(long, value_name = "N", default_value = "20")]
    rows: NonZeroUsize,
    /// Repeat every TIME (1s if omitted), print changes, and detect leaks
    #[arg(long, value_name = "TIME", num_args = 0..=1, default_missing_value = "1", value_parser = watch_interval, help_heading = "Watch")]
    watch: Option<Duration>,
    /// Stop watching after TIME
    #[arg(long = "for", value_name = "TIME", requires = "watch", value_parser = time, help_heading = "Watch")]
    time: Option<Duration>,
    /// Stop watching after N samples
    #[arg(short = 'n', long, value_name = "N", requires = "watch", help_heading = "Watch")]
    count: Option<NonZeroU64>,
    /// Stop watching when the process leaks
    #[arg(long, requires = "watch", help_heading = "Watch")]
    until_leak: bool,
    /// Minimum duration of growth that counts as a leak
    #[arg(long, value_name = "TIME", default_value = "100s", requires = "watch", value_parser = time, help_heading = "Watch")]
    min_time: Duration,
    /// Write a chart of the counts and of the slope of each leak at the end of the watch
    #[arg(long, value_name = "FILE.svg", requires = "watch", help_heading = "Output")]
    plot: Option<PathBuf>,
    /// Print a JSON object per sample, and the verdict of a watch as the last, with units in the keys
    #[arg(long, help_heading = "Output")]
    json: bool,
    /// Append each update instead of redrawing the screen
    #[arg(long, help_heading = "Output")]
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

/// Parses the value of --watch. A process in its place is a common mistake, so the error mentions it.
fn watch_interval(text: &str) -> Result<Duration, String> {
    interval(text)
        .map_err(|error| format!("{error}; write the process before --watch: `rudy conns {text} --watch`"))
}

impl Conns {
    pub(crate) fn run(self) -> ExitCode {
        let target = self.target.clone().or_else(|| self.port.map(|port| Target::Port(port.get())));
        let Some(target) = target else { self.missing_target().exit() };
        rudy_diagnose::conns::run(&self.options(target)).into()
    }

    /// `rudy conns --watch 500` watches no process every 500 s.
    fn missing_target(&self) -> clap::Error {
        let seconds = self.watch.unwrap_or_default().as_secs_f64();
        let message = format!(
            "no process is given; --watch has {seconds} s as its time\n\n  tip: write the process before --watch: `rudy conns {seconds} --watch`"
        );
        crate::CommandLine::command().error(ErrorKind::MissingRequiredArgument, message)
    }

    fn options(self, target: Target) -> Options {
        let watch = self.watch.map(|interval| WatchOptions {
            interval,
            count: self.count.map(NonZeroU64::get),
            time: self.time,
            until_leak: self.until_leak,
            time_min: self.min_time,
            plot: self.plot.clone(),
        });
        Options {
            target,
            by: match self.by {
                Grouping::State => None,
                Grouping::RemoteAddress => Some(By::RemoteAddress),
                Grouping::LocalAddress => Some(By::LocalAddress),
            },
            watch,
            rows: self.rows.get(),
            json: self.json,
            plain: self.plain,
        }
    }
}
