//! `rudy top --disk`: which processes and threads write, and into which files.

mod files;
mod io;
mod json;
mod sample;
mod table;

use std::time::Duration;

use rudy_command::Exit;
use rudy_observe::{Process, Target};

use self::sample::{Activity, Sample};
use crate::watch::{Output, Stop, Ticker, Wake, write};

/// The options of `rudy top --disk`.
#[derive(Debug, Clone)]
pub struct Options {
    /// The process; all if none is given.
    pub target: Option<Target>,
    /// The time between updates.
    pub interval: Duration,
    /// The number of updates; without it, the command ends with the process or a signal.
    pub count: Option<u64>,
    /// The number of rows; by default as many as fit on the screen, or [`ROWS`].
    pub rows: Option<usize>,
    /// Whether processes and threads that write nothing are shown too.
    pub shows_idle: bool,
    /// Prints a JSON object per interval instead of a table.
    pub json: bool,
    /// Appends updates instead of redrawing, even on a terminal.
    pub plain: bool,
}

/// The default number of rows.
pub const ROWS: usize = 20;

/// Shows who writes at each interval.
#[must_use]
pub fn run(options: &Options) -> Exit {
    match watch(options) {
        Ok(()) => Exit::Done,
        Err(stop) => stop.print(),
    }
}

fn watch(options: &Options) -> Result<(), Stop> {
    let pid = options.target.as_ref().map(Target::pid).transpose()?;
    // The process itself, if a thread of it is named.
    let pid = pid.map(Process::open).transpose()?.map(|process| process.pid());
    // Without a process, the end of this one ends the watch.
    let mut ticker = Ticker::start(options.interval, pid).map_err(Stop::Waiting)?;
    let mut output = Output::new(options.plain || options.json);
    let mut before = Sample::take(pid)?;
    let mut shown = 0;
    while options.count.is_none_or(|count| shown < count) {
        if ticker.wait().map_err(Stop::Waiting)? == Wake::Stop {
            break;
        }
        let now = Sample::take(pid)?;
        let activity = Activity::between(&before, &now);
        if options.json {
            write(&json::line(&activity, options))?;
        } else {
            output.update(&table::table(&activity, options, output.rows()))?;
        }
        before = now;
        shown += 1;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
