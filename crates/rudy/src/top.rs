//! The flags of `rudy top`.

use std::num::{NonZeroU64, NonZeroUsize};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, ValueEnum};
use rudy_diagnose::top::{Options, Sort};
use rudy_diagnose::{Dumps, disk};
use rudy_observe::Target;

use crate::values::time;

/// Show the CPU usage of a process by thread, or the bytes that processes write
///
/// Several processes with the same name, as those of nginx or php-fpm, are shown as one; later ones are included.
///
/// CPU, USER (program), SYS (kernel) and WAIT (runnable, but no core free) are percentages of one core over the interval.
/// TOTAL is CPU since the start of the thread. VOL/s and INVOL/s are voluntary and involuntary context switches per second.
/// Above the table, lines with => say what the samples show.
///
/// Idle threads are counted but not listed. The row (ended) has the CPU of threads that ended within the interval.
///
/// On a terminal, keys sort the table (c, t, n, w), sum threads by name (g), show stacks (s) and quit (q); ? lists them.
///
/// Reads /proc only; --jvm also asks the JVM for thread dumps. Stops when the last process ends or on Ctrl-C.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  rudy top 4711                         the busiest threads, every second
  rudy top java --sum                   a row for worker-1 to worker-3000
  rudy top 4711 --once --threads 3      the three busiest threads, once
  rudy top nginx                        all threads of all processes named nginx
  rudy top java --jvm --once            ten thread dumps in ten seconds, joined with the threads
  rudy top --disk                       which processes write, and into which files?
  rudy top 4711 --json | jq -c '.busiest[] | [.name, .cpu_percent]'

TIME is 10s, 2m, 500ms, or a number of seconds.
Exit codes: 0 done, or the process ended; 1 process not found or not readable, or no thread dump; 2 invalid arguments.")]
pub(crate) struct Top {
    /// Process id, the id of one of its threads, or the name of one or several processes
    #[arg(value_name = "PID|NAME", required_unless_present = "disk")]
    target: Option<Target>,
    /// Time between updates, from 10ms to 1h [default: 1, with --jvm 10]
    #[arg(short, long, value_name = "TIME", value_parser = interval)]
    interval: Option<Duration>,
    /// Exit after N updates
    #[arg(short = 'n', long, value_name = "N")]
    count: Option<NonZeroU64>,
    /// Exit after one update
    #[arg(long, conflicts_with = "count")]
    once: bool,
    /// Number of rows to show [default: as many as fit on the terminal, else 20]
    #[arg(long, value_name = "N")]
    threads: Option<NonZeroUsize>,
    /// Order of threads
    #[arg(long, value_name = "KEY", value_enum, default_value = "cpu", conflicts_with = "disk")]
    sort: Order,
    /// Sum threads whose names differ in numbers only
    #[arg(long, conflicts_with = "disk")]
    sum: bool,
    /// Show the kernel stacks of the three first threads, as far as permitted
    #[arg(long, conflicts_with = "disk")]
    stacks: bool,
    /// Attach to the JVM with jcmd or jstack, and join ten thread dumps per update with the threads
    #[arg(long, conflicts_with_all = ["disk", "jvm_dump"])]
    jvm: bool,
    /// Join the thread dumps of a file with the threads, instead of attaching to the JVM
    #[arg(long, value_name = "FILE", conflicts_with = "disk")]
    jvm_dump: Option<PathBuf>,
    /// Show written bytes by process, thread and file; of all processes if none is given
    #[arg(long)]
    disk: bool,
    /// Show idle threads or processes too
    #[arg(long)]
    idle: bool,
    /// Print a JSON object per update, with units in its keys
    #[arg(long)]
    json: bool,
    /// Append each update instead of redrawing the screen
    #[arg(long)]
    plain: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Order {
    /// CPU of the interval
    Cpu,
    /// CPU since the start of the thread
    Total,
    /// Name
    Name,
    /// Time in which the thread was runnable without a free core
    Wait,
}

impl Top {
    pub(crate) fn run(self) -> ExitCode {
        let is_disk = self.disk;
        match (is_disk, self.target.clone()) {
            (false, Some(target)) => rudy_diagnose::top::run(&self.threads(target)).into(),
            (_, target) => disk::run(&self.disk(target)).into(),
        }
    }

    fn threads(self, target: Target) -> Options {
        let dumps = if self.jvm { Some(Dumps::Attach) } else { self.jvm_dump.clone().map(Dumps::File) };
        Options {
            target,
            interval: self.interval.unwrap_or(Duration::from_secs(if self.jvm { 10 } else { 1 })),
            count: self.updates(),
            threads: self.threads.map(NonZeroUsize::get),
            sort: match self.sort {
                Order::Cpu => Sort::Cpu,
                Order::Total => Sort::Total,
                Order::Name => Sort::Name,
                Order::Wait => Sort::Wait,
            },
            sums_names: self.sum,
            shows_stacks: self.stacks,
            dumps,
            shows_idle: self.idle,
            json: self.json,
            plain: self.plain,
        }
    }

    fn disk(self, target: Option<Target>) -> disk::Options {
        disk::Options {
            target,
            interval: self.interval.unwrap_or(Duration::from_secs(1)),
            count: self.updates(),
            rows: self.threads.map(NonZeroUsize::get),
            shows_idle: self.idle,
            json: self.json,
            plain: self.plain,
        }
    }

    fn updates(&self) -> Option<u64> {
        if self.once { Some(1) } else { self.count.map(NonZeroU64::get) }
    }
}

/// Parses an interval of at least 10 ms, the kernel's tick: more frequent updates would mostly measure Rudy itself.
pub(crate) fn interval(text: &str) -> Result<Duration, String> {
    let interval = time(text)?;
    let sensible = Duration::from_millis(10)..=Duration::from_hours(1);
    if sensible.contains(&interval) {
        Ok(interval)
    } else {
        Err("expected a time from 10ms to 1h".to_owned())
    }
}
