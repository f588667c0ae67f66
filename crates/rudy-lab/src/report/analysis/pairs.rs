//! The values of two that are compared, round by round.

use std::collections::BTreeMap;

use rudy_stats::compare::Summary;

use crate::experiment::Experiment;
use crate::record::{Outcome, Run};

/// One side of a comparison: a subject, or the second time that it was measured in each round.
#[derive(Debug, Clone, Copy)]
pub(super) struct Side<'a> {
    pub(super) subject: &'a str,
    pub(super) is_control: bool,
}

/// The values of the rounds in which both sides have them, in the order of the rounds.
#[derive(Debug, Default)]
pub(super) struct Pairs {
    pub(super) a: Vec<f64>,
    pub(super) b: Vec<f64>,
    /// Whether one of these runs is doubted in this figure.
    pub(super) is_doubtful: bool,
}

impl Pairs {
    pub(super) fn of(experiment: &Experiment, load: &str, figure: &str, a: Side, b: Side) -> Self {
        let (a, b) = (values(experiment, load, figure, a), values(experiment, load, figure, b));
        let mut pairs = Self::default();
        for (round, (value, is_doubted)) in a {
            let Some((other, is_other_doubted)) = b.get(&round) else { continue };
            pairs.a.push(value);
            pairs.b.push(*other);
            pairs.is_doubtful |= is_doubted || *is_other_doubted;
        }
        pairs
    }

    pub(super) fn rounds(&self) -> usize {
        self.a.len()
    }

    /// The median of either side.
    pub(super) fn medians(&self) -> Option<[f64; 2]> {
        Some([Summary::of(&self.a)?.median, Summary::of(&self.b)?.median])
    }

    /// In how many rounds either side is 0 or less, of which there is no ratio.
    pub(super) fn zeros(&self) -> [usize; 2] {
        [&self.a, &self.b].map(|side| side.iter().filter(|value| **value <= 0.0).count())
    }
}

/// Whether a run is doubted in a figure.
pub(super) fn is_doubted(run: &Run, figure: &str) -> bool {
    run.doubts.iter().any(|doubt| doubt.concerns.iter().any(|name| name == figure))
}

/// By round, each with whether it is doubted.
fn values(experiment: &Experiment, load: &str, figure: &str, side: Side) -> BTreeMap<usize, (f64, bool)> {
    let runs = experiment.runs_of(side.subject, load);
    runs.filter(|run| run.is_control == side.is_control && run.outcome == Outcome::Measured)
        .filter_map(|run| Some((run.round, (*run.figures.get(figure)?, is_doubted(run, figure)))))
        .collect()
}
