//! Pairs of values by round.

use std::collections::BTreeMap;

use rudy_stats::compare::Summary;

use crate::experiment::Experiment;
use crate::record::{Doubt, Outcome, Run};

/// A side of a comparison: a subject, or its second measurement in each round.
#[derive(Debug, Clone, Copy)]
pub(super) struct Side<'a> {
    pub(super) subject: &'a str,
    pub(super) is_control: bool,
}

/// The values of the rounds in which both sides have them, in order.
#[derive(Debug, Default)]
pub(super) struct Pairs {
    pub(super) a: Vec<f64>,
    pub(super) b: Vec<f64>,
    /// The number of rounds in which both ran. If it is higher, one of them failed or lacks the figure.
    pub(super) rounds_run: usize,
    /// Whether one of the runs is suspect in this figure, even if it lacks the figure.
    pub(super) is_doubtful: bool,
}

impl Pairs {
    pub(super) fn of(experiment: &Experiment, load: &str, figure: &str, a: Side, b: Side) -> Self {
        let (a, b) = (by_round(experiment, load, a), by_round(experiment, load, b));
        let mut pairs = Self::default();
        for (round, run) in a {
            let Some(other) = b.get(&round) else { continue };
            pairs.rounds_run += 1;
            pairs.is_doubtful |= is_doubted(run, figure) || is_doubted(other, figure);
            if let (Some(value), Some(other)) = (value(run, figure), value(other, figure)) {
                pairs.a.push(value);
                pairs.b.push(other);
            }
        }
        pairs
    }

    pub(super) fn rounds(&self) -> usize {
        self.a.len()
    }

    /// The median of each side.
    pub(super) fn medians(&self) -> Option<[f64; 2]> {
        Some([Summary::of(&self.a)?.median, Summary::of(&self.b)?.median])
    }

    /// The number of rounds in which a side is 0 or less, so that there is no ratio.
    pub(super) fn zeros(&self) -> [usize; 2] {
        [&self.a, &self.b].map(|side| side.iter().filter(|value| **value <= 0.0).count())
    }
}

/// Whether a run is suspect in a figure.
pub(super) fn is_doubted(run: &Run, figure: &str) -> bool {
    doubt(run, figure).is_some()
}

/// The first warning about a figure of a run.
pub(super) fn doubt<'a>(run: &'a Run, figure: &str) -> Option<&'a Doubt> {
    run.doubts.iter().find(|doubt| doubt.concerns.iter().any(|name| name == figure))
}

/// A figure of a run; `None` if it failed.
pub(super) fn value(run: &Run, figure: &str) -> Option<f64> {
    let is_measured = run.outcome == Outcome::Measured;
    run.figures.get(figure).copied().filter(|_| is_measured)
}

fn by_round<'a>(experiment: &'a Experiment, load: &'a str, side: Side<'a>) -> BTreeMap<usize, &'a Run> {
    let runs = experiment.runs_of(side.subject, load);
    runs.filter(|run| run.is_control == side.is_control).map(|run| (run.round, run)).collect()
}
