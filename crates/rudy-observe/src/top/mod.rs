//! `rudy top`: the threads of a process, by the CPU they take.

mod json;
mod table;

use std::time::Duration;

use crate::watch::{Output, Place, Stop, Ticker, Wake, write};
use crate::{Difference, Exit, Process, Sample, ThreadDifference};

/// What `rudy top` is asked to do.
#[derive(Debug, Clone)]
pub struct Options {
    /// The process.
    pub pid: u32,
    /// Over which CPU is counted.
    pub interval: Duration,
    /// After how many intervals it ends. Without, when it is interrupted or the process ends.
    pub count: Option<u64>,
    /// The busiest so many threads. Without, as many as fit on the screen, or [`THREADS`].
    pub threads: Option<usize>,
    /// Whether threads that took no CPU are shown too.
    pub shows_idle: bool,
    /// A JSON object for each interval, instead of a table.
    pub json: bool,
    /// Nothing is drawn over, on a terminal neither.
    pub plain: bool,
}

/// So many are shown where nothing says otherwise: more are seldom looked at, and a process may have thousands.
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
    let mut process = Process::open(options.pid)?;
    let mut ticker = Ticker::start(options.interval, process.pid()).map_err(Stop::Waiting)?;
    let mut output = Output::new(options.plain || options.json);
    let mut before = process.sample()?;
    if output.place == Place::Screen {
        output.look(&table::beginning(&process, &before, options.interval))?;
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
            output.look(&table::table(&view))?;
        }
        before = now;
        shown += 1;
    }
    Ok(())
}

/// What is shown of one interval.
struct View<'a> {
    process: &'a Process,
    sample: &'a Sample,
    /// Its threads are those that are shown, the busiest first.
    difference: Difference,
    /// Threads that took CPU, shown or not.
    busy: usize,
    /// Of those, how many are not shown.
    hidden_busy: usize,
    /// How many that took none are not shown.
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
        // At equal CPU the one that was woken more often, and then in the order of their numbers.
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
