//! What is shown while a run goes on: always on stderr, and never by a thread that generates.

mod lines;

use super::options::Options;
use super::prepare::Prepared;
use super::run::Watch;

/// The view for this run. It is told through [`Watch`], a few times a second and by the thread that waits for the others;
/// when it is dropped, stderr is as it was found.
pub(super) fn of(_options: &Options, _prepared: &Prepared) -> Box<dyn Watch> {
    Box::new(lines::Lines::default())
}
