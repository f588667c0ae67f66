//! The flags of `rudy top`.

use std::num::{NonZeroU64, NonZeroUsize};
use std::time::Duration;

use clap::Args;
use rudy_observe::Target;
use rudy_observe::top::Options;

use crate::values::time;

/// Show the CPU usage of a process by thread
///
/// CPU, USER (program), SYS (kernel) and WAIT (runnable, but no core free) are percentages of one core over the interval.
/// VOL/s and INVOL/s are voluntary and involuntary context switches per second. NID is the thread id in the format of a
/// JVM thread dump (jcmd PID Thread.print).
///
/// Idle threads are counted but not listed. The row (ended) has the CPU of threads that ended within the interval.
///
/// Reads /proc only. Stops when the process ends or on Ctrl-C.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  rudy top 4711                         the busiest threads, every second
  rudy top $(pidof java) --interval 10  every ten seconds
  rudy top 4711 -n 1 --threads 3        the three busiest threads, once
  rudy top 4711 --json | jq -c '.busiest[] | [.name, .cpu_percent]'

TIME is 10s, 2m, 500ms, or a number of seconds.
Exit codes: 0 done, or the process ended; 1 process not found or not readable; 2 invalid arguments.")]
pub(crate) struct Top {
    /// Process id, the id of one of its threads, or the name of the process
    #[arg(value_name = "PID|NAME")]
    target: Target,
    /// Time between updates, from 10ms to 1h
    #[arg(short, long, value_name = "TIME", default_value = "1", value_parser = interval)]
    interval: Duration,
    /// Exit after N updates
    #[arg(short = 'n', long, value_name = "N")]
    count: Option<NonZeroU64>,
    /// Number of threads to show [default: as many as fit on the terminal, else 20]
    #[arg(long, value_name = "N")]
    threads: Option<NonZeroUsize>,
    /// Show idle threads too
    #[arg(long)]
    idle: bool,
    /// Print a JSON object per update, with units in its keys
    #[arg(long)]
    json: bool,
    /// Append each update instead of redrawing the screen
    #[arg(long)]
    plain: bool,
}

impl From<Top> for Options {
    fn from(top: Top) -> Self {
        Self {
            target: top.target,
            interval: top.interval,
            count: top.count.map(NonZeroU64::get),
            threads: top.threads.map(NonZeroUsize::get),
            shows_idle: top.idle,
            json: top.json,
            plain: top.plain,
        }
    }
}

/// Parses an interval of at least 10 ms, the kernel's tick: more frequent updates would mostly measure Rudy itself.
pub(crate) fn interval(text: &str) -> Result<Duration, String> {
    let interval = time(text).map_err(|error| error.to_string())?;
    let sensible = Duration::from_millis(10)..=Duration::from_hours(1);
    if sensible.contains(&interval) {
        Ok(interval)
    } else {
        Err("expected a time from 10ms to 1h".to_owned())
    }
}
