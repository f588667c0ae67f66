//! The flags of `rudy top`.

use std::num::{NonZeroU64, NonZeroUsize};
use std::time::Duration;

use clap::Args;
use rudy_observe::top::Options;

use crate::values::time;

/// See which threads of a process take the CPU.
///
/// CPU is counted over an interval, in % of one core: USER and SYS are what of it was spent in the program and in the kernel, WAIT is
/// the time for which the thread was ready and no core was free for it. VOL/s is how often it waited for something, INVOL/s how
/// often its core was taken from it. NID is the thread's number as a JVM's thread dump has it (jcmd PID Thread.print).
///
/// Threads that took no CPU are not shown, and counted. CPU of threads that have ended stands in a row of its own.
///
/// It only reads /proc. Ctrl-C ends it, as does the end of the process.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  rudy top 4711                         the busiest threads, each second
  rudy top $(pidof java) --interval 10  over ten seconds
  rudy top 4711 -n 1 --threads 3        once, the three busiest
  rudy top 4711 --json | jq -c '.busiest[] | [.name, .cpu_percent]'

Times are 10s, 2m, 500ms, or a number of seconds.
Exit codes: 0 done, or the process has ended; 1 it cannot be seen; 2 bad arguments.")]
pub(crate) struct Top {
    /// The process, or one of its threads
    #[arg(value_name = "PID")]
    pid: u32,
    /// Count CPU over so long, 10ms to 1h
    #[arg(short, long, value_name = "TIME", default_value = "1", value_parser = interval)]
    interval: Duration,
    /// End after N intervals
    #[arg(short = 'n', long, value_name = "N")]
    count: Option<NonZeroU64>,
    /// The busiest N threads [default: as many as fit on the terminal, or 20]
    #[arg(long, value_name = "N")]
    threads: Option<NonZeroUsize>,
    /// Show threads that took no CPU too
    #[arg(long)]
    idle: bool,
    /// Write an object for each interval, with units in its keys
    #[arg(long)]
    json: bool,
    /// Write below what was written, instead of over it
    #[arg(long)]
    plain: bool,
}

impl From<Top> for Options {
    fn from(top: Top) -> Self {
        Self {
            pid: top.pid,
            interval: top.interval,
            count: top.count.map(NonZeroU64::get),
            threads: top.threads.map(NonZeroUsize::get),
            shows_idle: top.idle,
            json: top.json,
            plain: top.plain,
        }
    }
}

/// Looking more often than each 10 ms, which is the kernel's tick, would be mostly our own work.
pub(crate) fn interval(text: &str) -> Result<Duration, String> {
    let interval = time(text).map_err(|error| error.to_string())?;
    let sensible = Duration::from_millis(10)..=Duration::from_hours(1);
    if sensible.contains(&interval) {
        Ok(interval)
    } else {
        Err("expected a time from 10ms to 1h".to_owned())
    }
}
