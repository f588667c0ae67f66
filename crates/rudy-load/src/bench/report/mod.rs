//! The report of a run, as text and as JSON. Both come from a [`Run`], so they contain the same information.

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

/// A completed run.
#[derive(Debug, Clone)]
pub(super) struct Run {
    /// Its settings.
    pub(super) config: Config,
    /// Its result.
    pub(super) outcome: Outcome,
}

impl Run {
    /// Complete responses per second.
    pub(super) fn answers_per_second(&self) -> f64 {
        crate::units::per_second(self.outcome.seen.answers(), self.outcome.duration)
    }

    /// The fraction of requests that succeeded.
    pub(super) fn nines(&self) -> Nines {
        Nines::new(self.outcome.seen.right, self.outcome.seen.requests())
    }
}
