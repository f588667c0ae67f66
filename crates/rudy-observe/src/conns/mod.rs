//! `rudy conns`: the sockets of a process by state, now or over time.

mod change;
mod json;
mod table;

use std::time::Duration;

use self::change::Counts;
use crate::watch::{Output, Stop, Ticker, Wake, write};
use crate::{By, Error, Exit, Process};

/// The options of `rudy conns`.
#[derive(Debug, Clone)]
pub struct Options {
    /// The process id.
    pub pid: u32,
    /// How sockets are grouped; by state if `None`.
    pub by: Option<By>,
    /// The interval of a watch; `None` prints once.
    pub watch: Option<Duration>,
    /// The number of updates of a watch; without it, the watch ends with the process or a signal.
    pub count: Option<u64>,
    /// Maximum number of groups to show.
    pub rows: usize,
    /// Prints a JSON object per update instead of text.
    pub json: bool,
    /// Appends updates instead of redrawing, even on a terminal.
    pub plain: bool,
}

/// Shows the sockets, once or at each interval.
#[must_use]
pub fn run(options: &Options) -> Exit {
    match options.watch {
        None => once(options),
        Some(interval) => watch(options, interval),
    }
    .map_or_else(|stop| stop.tell(), |()| Exit::Done)
}

fn once(options: &Options) -> Result<(), Stop> {
    let mut process = Process::open(options.pid)?;
    let sockets = process.sockets()?;
    let text = match options.by {
        _ if options.json => json::line(&process, &sockets, None, options),
        None => table::by_state(&process, &sockets),
        Some(by) => table::groups(&process, &sockets, by, options.rows),
    };
    write(&text)
}

/// Prints the changes since the start at the end of a watch, whatever ends it.
fn watch(options: &Options, interval: Duration) -> Result<(), Stop> {
    let mut process = Process::open(options.pid)?;
    let mut ticker = Ticker::start(interval, process.pid()).map_err(Stop::Waiting)?;
    let mut output = Output::new(options.plain || options.json || options.by.is_none());
    let mut first: Option<Counts> = None;
    let mut last = None;
    let mut shown = 0;
    let ended = loop {
        let sockets = match process.sockets() {
            Ok(sockets) => sockets,
            Err(error) => break Err(error),
        };
        let counts = Counts::of(&sockets);
        let first = first.get_or_insert_with(|| counts.clone());
        match options.by {
            _ if options.json => {
                write(&json::line(&process, &sockets, Some(&counts.since(first)), options))?;
            }
            None if shown == 0 => write(&table::beginning(&process, &counts))?,
            None => write(&table::line(&counts, first))?,
            Some(by) => {
                let rows = output.rows().map_or(options.rows, table::groups_that_fit).min(options.rows);
                output.update(&table::groups(&process, &sockets, by, rows))?;
            }
        }
        last = Some(counts);
        shown += 1;
        if options.count.is_some_and(|count| shown >= count)
            || ticker.wait().map_err(Stop::Waiting)? == Wake::Stop
        {
            break Ok(());
        }
    };
    if let (Some(first), Some(last), false) = (&first, &last, options.json) {
        write(&table::conclusion(first, last))?;
    }
    ended.map_err(|error: Error| Stop::from(error))
}

#[cfg(test)]
mod tests;
