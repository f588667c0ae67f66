//! `rudy top`: the threads of a process by CPU usage.

mod json;
mod table;

use std::time::Duration;

use crate::watch::{Destination, Output, Stop, Ticker, Wake, write};
use crate::{Difference, Exit, Process, Sample, Target, ThreadDifference};

/// The options of `rudy top`.
#[derive(Debug, Clone)]
pub struct Options {
    /// The process.
    pub target: Target,
    /// The time between updates.
    pub interval: Duration,
    /// The number of updates; without it, the command ends with the process or a signal.
    pub count: Option<u64>,
    /// The number of threads to show; by default as many as fit on the screen, or [`THREADS`].
    pub threads: Option<usize>,
    /// Whether idle threads are shown too.
    pub shows_idle: bool,
    /// Prints a JSON object per interval instead of a table.
    pub json: bool,
    /// Appends updates instead of redrawing, even on a terminal.
    pub plain: bool,
}

/// The default number of threads: more are rarely useful, and a process may have thousands.
pub const THREADS: usize = 20;

/// Shows the threads at each interval.
#[must_use]
pub fn run(options: &Options) -> Exit {
    match watch(options) {
        Ok(()) => Exit::Done,
        Err(stop) => stop.tell(),
    }
}

fn watch(options: &Options) -> Result<(), Stop> {
    let mut process = Process::open(options.target.pid()?)?;
    let mut ticker = Ticker::start(options.interval, process.pid()).map_err(Stop::Waiting)?;
    let mut output = Output::new(options.plain || options.json);
    let mut before = process.sample()?;
    if output.destination == Destination::Screen {
        output.update(&table::beginning(&process, &before, options.interval))?;
    }
    let mut shown = 0;
    while options.count.is_none_or(|count| shown < count) {
        if ticker.wait().map_err(Stop::Waiting)? == Wake::Stop {
            break;
        }
        let now = process.sample()?;
        let view = View::new(&process, &now, now.since(&before), options, output.rows());
        if options.json {
            write(&json::line(&view))?;
        } else {
            output.update(&table::table(&view))?;
        }
        before = now;
        shown += 1;
    }
    Ok(())
}

/// The contents of one update.
struct View<'a> {
    process: &'a Process,
    sample: &'a Sample,
    /// With the shown threads only, the busiest first.
    difference: Difference,
    /// Number of threads that used CPU, shown or not.
    busy: usize,
    /// Number of those that are not shown.
    hidden_busy: usize,
    /// Number of idle threads that are not shown.
    hidden_idle: usize,
}

impl<'a> View<'a> {
    fn new(
        process: &'a Process,
        sample: &'a Sample,
        mut difference: Difference,
        options: &Options,
        rows: Option<usize>,
    ) -> Self {
        let most = options.threads.unwrap_or_else(|| rows.map_or(THREADS, table::threads_that_fit));
        let threads = &mut difference.threads;
        // With equal CPU, by voluntary switches, then by id.
        threads.sort_by_key(|thread| (std::cmp::Reverse((thread.cpu, switches(thread))), thread.tid));
        let busy = threads.iter().filter(|thread| is_busy(thread)).count();
        let idle = threads.len() - busy;
        if !options.shows_idle {
            threads.truncate(busy);
        }
        threads.truncate(most);
        let shown_busy = threads.len().min(busy);
        let hidden_idle = idle - (threads.len() - shown_busy);
        Self { process, sample, difference, busy, hidden_busy: busy - shown_busy, hidden_idle }
    }
}

fn is_busy(thread: &ThreadDifference) -> bool {
    !thread.cpu.is_zero()
}

fn switches(thread: &ThreadDifference) -> u64 {
    thread.voluntary_switches + thread.involuntary_switches
}

#[cfg(test)]
mod tests;
