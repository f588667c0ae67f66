//! Shows progress on stderr, from a thread that generates no load.

mod dashboard;
mod lines;
mod screen;
mod totals;

use std::io::{self, IsTerminal};
use std::time::Duration;

pub use self::lines::LOAD_STARTS;
use self::lines::Lines;
use self::screen::Screen;
use super::options::OutputOptions;
use super::prepare::Prepared;
use super::run::Watch;

/// The interval of a dashboard, with which ten seconds fill a line. A thread sends its counts in less than 0.1 ms.
const DASHBOARD_INTERVAL: Duration = Duration::from_millis(100);

/// Opens the view of a run: a dashboard on a terminal, otherwise a line per interval. Sets the interval for a
/// dashboard, unless the user chose one or rows are written. The thread that waits for the generator threads calls the
/// view through [`Watch`], about twenty times per second. Dropping the view restores the terminal.
pub(super) fn open(options: &OutputOptions, prepared: &mut Prepared) -> Box<dyn Watch> {
    if !options.is_plain && is_interactive() {
        let interval = prepared.plan.interval;
        if options.interval.is_none() && options.ndjson.is_none() {
            prepared.plan.interval = DASHBOARD_INTERVAL;
        }
        // Fall back to lines if the terminal is too small or cannot be drawn on.
        if let Some(screen) = Screen::open(prepared) {
            return Box::new(screen);
        }
        prepared.plan.interval = interval;
    }
    Box::new(Lines::new(prepared.plan.interval))
}

/// Whether stderr is a terminal with cursor control.
fn is_interactive() -> bool {
    io::stderr().is_terminal()
        && std::env::var_os("TERM").is_some_and(|term| !term.is_empty() && term != "dumb")
}
