//! `rudy conns`: the sockets of a process by state, now or over time, and whether they leak.

mod counts;
mod history;
mod json;
mod plot;
mod sentence;
mod table;
mod verdict;
mod watch;

use std::path::PathBuf;
use std::time::Duration;

use rudy_command::Exit;
use rudy_observe::{By, Processes, Target};

use crate::watch::{Stop, write};

/// The options of `rudy conns`.
#[derive(Debug, Clone)]
pub struct Options {
    /// The process, or several with this name.
    pub target: Target,
    /// How sockets are grouped; by state if `None`.
    pub by: Option<By>,
    /// The watch; `None` prints once.
    pub watch: Option<WatchOptions>,
    /// Maximum number of groups to show.
    pub rows: usize,
    /// Prints a JSON object per update instead of text.
    pub json: bool,
    /// Appends updates instead of redrawing, even on a terminal.
    pub plain: bool,
}

/// The options of a watch. Without an end, it ends with the process or a signal.
#[derive(Debug, Clone)]
pub struct WatchOptions {
    /// The time between samples.
    pub interval: Duration,
    /// The number of samples.
    pub count: Option<u64>,
    /// The duration.
    pub time: Option<Duration>,
    /// Whether to end at the first leak.
    pub until_leak: bool,
    /// The time for which growth must persist to be a leak.
    pub time_min: Duration,
    /// The file for a chart as SVG, written at the end.
    pub plot: Option<PathBuf>,
}

/// Shows the sockets, once or at each interval.
#[must_use]
pub fn run(options: &Options) -> Exit {
    match &options.watch {
        None => once(options).map_or_else(|stop| stop.print(), |()| Exit::Done),
        Some(watch) => watch::run(options, watch),
    }
}

fn once(options: &Options) -> Result<(), Stop> {
    let mut processes = Processes::open(&options.target)?;
    let sockets = processes.sockets()?;
    let text = match options.by {
        _ if options.json => json::sample(&processes, &sockets, None, options),
        None => table::by_state(&processes, &sockets),
        Some(by) => table::groups(&processes, &sockets, by, options.rows),
    };
    write(&text)
}

#[cfg(test)]
mod tests;
