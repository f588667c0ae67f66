//! What is shown while a run goes on: on stderr, and never by a thread that generates.

mod dashboard;
mod lines;
mod screen;

use std::io::{self, IsTerminal};

use self::lines::Lines;
use self::screen::Screen;
use super::options::OutputOptions;
use super::prepare::Prepared;
use super::run::Watch;

/// The view for this run: a picture where somebody looks at a terminal, a line for each interval where not. It is told
/// through [`Watch`], some twenty times a second, by the thread that waits for those that generate; when it is dropped, the
/// terminal is as it was found.
pub(super) fn of(options: &OutputOptions, prepared: &Prepared) -> Box<dyn Watch> {
    if !options.is_plain && is_for_eyes() {
        // A terminal that cannot be drawn on, or has no room, can still be written to.
        if let Some(screen) = Screen::open(prepared) {
            return Box::new(screen);
        }
    }
    Box::new(Lines::new(prepared.plan.interval))
}

/// Whether stderr is a terminal that knows more than lines.
fn is_for_eyes() -> bool {
    io::stderr().is_terminal()
        && std::env::var_os("TERM").is_some_and(|term| !term.is_empty() && term != "dumb")
}
