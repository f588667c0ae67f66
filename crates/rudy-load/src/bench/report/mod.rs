//! What a run has shown, for people and for programs. Both are made of a [`Run`], so that neither knows what the other does not.

mod config;
mod document;
mod rows;
mod seen;
mod table;
#[cfg(test)]
mod tests;
mod text;
mod verdict;

use rudy_stats::Nines;

pub(super) use self::config::Config;
pub(super) use self::document::Document;
pub(super) use self::rows::Rows;
pub(super) use self::text::render;
pub(super) use self::verdict::Verdict;
use super::run::Outcome;

/// A run that is over.
#[derive(Debug, Clone)]
pub(super) struct Run {
    /// What was done.
    pub(super) config: Config,
    /// What came of it.
    pub(super) outcome: Outcome,
}

impl Run {
    /// Whole answers per second.
    pub(super) fn answers_per_second(&self) -> f64 {
        crate::units::per_second(self.outcome.seen.answers(), self.outcome.duration)
    }

    /// Of all requests that have ended, those whose answer was right.
    pub(super) fn nines(&self) -> Nines {
        Nines::new(self.outcome.seen.right, self.outcome.seen.requests())
    }
}
