//! Pairs of values by round.

use std::collections::BTreeMap;

use rudy_stats::compare::Summary;
use rudy_stats::validity::FAILED_MAX;

use crate::experiment::Experiment;
use crate::record::{FAILED_SHARE, Outcome, Run, Warning};

/// A side of a comparison: a variant, or its second measurement in each round.
#[derive(Debug, Clone, Copy)]
pub(super) struct PairSide<'a> {
    pub(super) variant: &'a str,
    pub(super) is_control: bool,
}

/// The values of the rounds in which both sides have them, in order.
#[derive(Debug, Default)]
pub(super) struct Pairs {
    pub(super) a: Vec<f64>,
    pub(super) b: Vec<f64>,
    /// The number of rounds in which both ran. If it is higher, one of them failed or lacks the metric.
    pub(super) rounds_run: usize,
    /// Whether one of the runs is suspect in this metric, even if it lacks the metric.
    pub(super) is_suspect: bool,
    /// What failed in these runs.
    pub(super) failures: Failures,
}

/// What failed in the runs of both sides of a comparison.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Failures {
    /// Why the runs are not comparable: one of them failed, or did not do the work of the workload.
    pub(crate) reason: Option<String>,
    /// The failed requests of each run: in relation to its throughput, because a faster server gets more requests.
    pub(crate) errors: [Vec<f64>; 2],
}

impl Failures {
    pub(super) fn of<'a>(a: impl IntoIterator<Item = &'a Run>, b: impl IntoIterator<Item = &'a Run>) -> Self {
        let mut failures = Self::default();
        for (side, run) in a.into_iter().map(|run| (0, run)).chain(b.into_iter().map(|run| (1, run))) {
            failures.reason = failures
                .reason
                .or_else(|| Some(format!("{} in round {}: {}", run.variant, run.round + 1, not_done(run)?)));
            failures.errors[side].extend(errors(run));
        }
        failures
    }
}

/// Why a run did other work than the others: it ended, or too many of its requests failed or were not sent. What a response costs, and
/// how fast it is, says nothing if it is an error.
fn not_done(run: &Run) -> Option<String> {
    if let Outcome::Failed { why } = &run.outcome {
        return Some(why.lines().next().unwrap_or_default().to_owned());
    }
    let failed = run.metrics.get(FAILED_SHARE).filter(|share| **share > FAILED_MAX);
    failed
        .map(|share| format!("{} of the requests failed", rudy_units::share(*share)))
        .or_else(|| warning(run, "errors").map(|warning| warning.sentence.clone()))
}

fn errors(run: &Run) -> Option<f64> {
    let rate = run.metrics.get("requests_per_s").copied().filter(|rate| *rate > 0.0);
    Some(value(run, "errors")? / rate.unwrap_or(1.0))
}

impl Pairs {
    pub(super) fn of(
        experiment: &Experiment,
        workload: &str,
        metric: &str,
        a: PairSide,
        b: PairSide,
    ) -> Self {
        let (a, b) = (by_round(experiment, workload, a), by_round(experiment, workload, b));
        let (mut pairs, mut runs) = (Self::default(), Vec::new());
        for (round, run) in a {
            let Some(other) = b.get(&round) else { continue };
            pairs.rounds_run += 1;
            pairs.is_suspect |= is_suspect(run, metric) || is_suspect(other, metric);
            runs.push((run, *other));
            if let (Some(value), Some(other)) = (value(run, metric), value(other, metric)) {
                pairs.a.push(value);
                pairs.b.push(other);
            }
        }
        let (a, b): (Vec<_>, Vec<_>) = runs.into_iter().unzip();
        pairs.failures = Failures::of(a, b);
        pairs
    }

    pub(super) fn rounds(&self) -> usize {
        self.a.len()
    }

    /// The median of each side.
    pub(super) fn medians(&self) -> Option<[f64; 2]> {
        Some([Summary::new(&self.a)?.median, Summary::new(&self.b)?.median])
    }

    /// The number of rounds in which a side is 0 or less, so that there is no ratio.
    pub(super) fn zeros(&self) -> [usize; 2] {
        [&self.a, &self.b].map(|side| side.iter().filter(|value| **value <= 0.0).count())
    }
}

/// Whether a run is suspect in a metric.
pub(in crate::report) fn is_suspect(run: &Run, metric: &str) -> bool {
    warning(run, metric).is_some()
}

/// The first warning about a metric of a run.
pub(super) fn warning<'a>(run: &'a Run, metric: &str) -> Option<&'a Warning> {
    run.warnings.iter().find(|warning| warning.concerns.iter().any(|name| name == metric))
}

/// A metric of a run; `None` if it failed.
pub(super) fn value(run: &Run, metric: &str) -> Option<f64> {
    let is_measured = run.outcome == Outcome::Measured;
    run.metrics.get(metric).copied().filter(|_| is_measured)
}

fn by_round<'a>(
    experiment: &'a Experiment,
    workload: &'a str,
    side: PairSide<'a>,
) -> BTreeMap<usize, &'a Run> {
    let runs = experiment.runs_of(side.variant, workload);
    runs.filter(|run| run.is_control == side.is_control).map(|run| (run.round, run)).collect()
}
