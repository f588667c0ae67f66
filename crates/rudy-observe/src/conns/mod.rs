//! `rudy conns`: the sockets of a process by state, now or over time.

mod change;
mod json;
mod table;

use std::time::Duration;

use self::change::Counts;
use crate::watch::{Output, Stop, Ticker, Wake, write};
use crate::{By, Error, Exit, Process};

/// What `rudy conns` is asked to do.
#[derive(Debug, Clone)]
pub struct Options {
    /// The process.
    pub pid: u32,
    /// What the sockets are put together by. Without, by their state.
    pub by: Option<By>,
    /// At which interval it looks again. Without, once.
    pub watch: Option<Duration>,
    /// After how many looks a watch ends. Without, when it is interrupted or the process ends.
    pub count: Option<u64>,
    /// So many groups are shown.
    pub rows: usize,
    /// A JSON object for each look, instead of text.
    pub json: bool,
    /// Nothing is drawn over, on a terminal neither.
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

/// Ends with what has changed since it began, whatever ends it.
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
                output.look(&table::groups(&process, &sockets, by, rows))?;
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
