//! What is shown while a run goes on: on stderr, and never by a thread that generates.

mod lines;

use super::options::OutputOptions;
use super::prepare::Prepared;
use super::run::Watch;

/// The view for this run. It is told through [`Watch`], some twenty times a second, by the thread that waits for those that
/// generate; when it is dropped, the terminal is as it was found.
pub(super) fn of(_options: &OutputOptions, prepared: &Prepared) -> Box<dyn Watch> {
    Box::new(lines::Lines::new(prepared.plan.interval))
}
