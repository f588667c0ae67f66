//! The analysis of records: the contents of a report, independent of its format.

pub(crate) mod across;
pub(crate) mod baseline;
mod compared;
pub(crate) mod events;
pub(super) mod pairs;
pub(crate) mod sentences;
mod tables;
#[cfg(test)]
mod tests;

use rudy_stats::compare::{Comparison, Control, Delta, Finding, Summary, Verdict, evaluate};

use self::compared::PendingComparison;
pub(crate) use self::compared::better;
use crate::experiment::Experiment;
use crate::metric::Metric;

/// The analysis of one or several experiments, evaluated together.
#[derive(Debug)]
pub(crate) struct Report<'a> {
    /// The experiments.
    pub(crate) sections: Vec<Section<'a>>,
    /// The number of evaluated comparisons, by which verdicts are corrected.
    pub(crate) evaluated: usize,
}

/// The analysis of an experiment.
#[derive(Debug)]
pub(crate) struct Section<'a> {
    /// The records.
    pub(crate) experiment: &'a Experiment,
    /// The name of the plan, with the folder if two experiments of a report have the same name.
    pub(crate) title: String,
    /// The answer to the plan's question, if any: a sentence for each compared pair.
    pub(crate) headline: Vec<String>,
    /// The comparisons of the plan, in its order.
    pub(crate) comparisons: Vec<ComparisonResult<'a>>,
    /// The controls: variants that were measured twice in each round.
    pub(crate) controls: Vec<ControlResult<'a>>,
    /// All metrics of all variants, with a table per workload.
    pub(crate) tables: Vec<Table<'a>>,
    /// Older results of the plan, next to the new ones.
    pub(crate) baselines: Vec<baseline::Row<'a>>,
    /// Validity warnings.
    pub(crate) warnings: Vec<events::Event<'a>>,
    /// Failed runs, with the reasons.
    pub(crate) failures: Vec<events::Event<'a>>,
    /// Events that affect no metric.
    pub(crate) notes: Vec<events::Event<'a>>,
    /// Notes about the records as a whole: a different machine, a truncated line.
    pub(crate) remarks: Vec<String>,
}

/// A comparison of two variants in a metric under a workload.
#[derive(Debug)]
pub(crate) struct ComparisonResult<'a> {
    pub(crate) variant: &'a str,
    pub(crate) with: &'a str,
    pub(crate) workload: &'a str,
    pub(crate) metric: Metric,
    /// Rounds in which both have the metric.
    pub(crate) rounds: usize,
    /// Rounds in which both ran.
    pub(crate) rounds_run: usize,
    /// The medians over the rounds in which both have the metric.
    pub(crate) medians: Option<[f64; 2]>,
    /// Whether one of the runs is suspect in this metric.
    pub(crate) is_suspect: bool,
    /// What failed in the runs.
    pub(crate) failures: pairs::Failures,
    /// The outcome.
    pub(crate) evaluation: Evaluation,
    /// The outcome as a sentence.
    pub(crate) sentence: String,
}

impl ComparisonResult<'_> {
    /// Whether rounds are missing because a variant failed or lacks the metric. The remaining rounds may be
    /// its good ones.
    pub(crate) fn misses_rounds(&self) -> bool {
        self.rounds < self.rounds_run
    }

    /// The finding; `None` if the comparison was not evaluated.
    pub(crate) fn verdict(&self) -> Option<Verdict> {
        match &self.evaluation {
            Evaluation::Done(finding) => Some(finding.verdict),
            Evaluation::NotDone { .. } => None,
        }
    }

    /// The reason, if no values of these rounds could lead to a verdict.
    pub(crate) fn reason_without_verdict(&self) -> Option<String> {
        match &self.evaluation {
            Evaluation::NotDone { reason, .. } => Some(reason.clone()),
            Evaluation::Done(_) => self.too_few().map(|rounds| format!("no verdict: {rounds}")),
        }
    }

    /// The rounds that exist and that a verdict needs, if they are too few.
    pub(crate) fn too_few(&self) -> Option<String> {
        let needed = match &self.evaluation {
            Evaluation::NotDone { needed, .. } => *needed,
            Evaluation::Done(finding) => {
                finding.too_few.filter(|_| finding.verdict == Verdict::Inconclusive).map(|few| few.needed)
            }
        }?;
        Some(sentences::too_few(self.rounds, self.rounds_run, needed))
    }

    /// Whether the result must be marked as suspect.
    pub(crate) fn is_marked(&self) -> bool {
        self.is_suspect || self.misses_rounds()
    }

    /// Whether it is known which is better, or that they are equivalent.
    pub(crate) fn is_decided(&self) -> bool {
        self.verdict().is_some_and(|verdict| verdict != Verdict::Inconclusive)
    }
}

/// The outcome of a comparison.
#[derive(Debug)]
pub(crate) enum Evaluation {
    /// It was evaluated.
    Done(Finding),
    /// It was not evaluated.
    NotDone {
        /// The ratio of the medians, if both exist and are not 0.
        ratio: Option<f64>,
        /// The reason.
        reason: String,
        /// The number of rounds needed, if there were too few.
        needed: Option<usize>,
    },
}

/// A variant compared with itself.
#[derive(Debug)]
pub(crate) struct ControlResult<'a> {
    pub(crate) variant: &'a str,
    pub(crate) workload: &'a str,
    pub(crate) metric: Metric,
    /// Rounds in which it has the metric twice.
    pub(crate) rounds: usize,
    /// Rounds in which it ran twice.
    pub(crate) rounds_run: usize,
    /// The result, or why there is none: too few rounds, or values of 0.
    pub(crate) outcome: Result<Control, String>,
}

/// The metrics of a workload.
#[derive(Debug)]
pub(crate) struct Table<'a> {
    pub(crate) workload: &'a str,
    /// The metrics that any variant has.
    pub(crate) metrics: Vec<Metric>,
    /// The variants in the order of the plan, each with a cell per metric.
    pub(crate) rows: Vec<(&'a str, Vec<Cell>)>,
}

/// A metric of a variant under a workload.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cell {
    /// Over the rounds that have the metric; `None` if none does.
    pub(crate) summary: Option<Summary>,
    /// The number of rounds in which it ran.
    pub(crate) rounds_run: usize,
    /// Whether it failed in all of them.
    pub(crate) has_failed: bool,
    /// Whether one of these runs is suspect in this metric.
    pub(crate) is_suspect: bool,
}

impl Cell {
    /// Whether some rounds failed or lack the metric, while others have it.
    pub(crate) fn misses_rounds(&self) -> bool {
        self.summary.is_some_and(|summary| summary.rounds < self.rounds_run)
    }
}

/// Analyses all experiments. The verdicts are corrected for all comparisons together, because readers see
/// them as one report.
pub(crate) fn analyse(experiments: &[Experiment]) -> Report<'_> {
    let pending: Vec<Vec<PendingComparison>> =
        experiments.iter().map(compared::pending_comparisons).collect();
    let comparisons: Vec<Comparison> =
        pending.iter().flatten().filter_map(|comparison| comparison.input.clone().ok()).collect();
    let comparison_count = pending.iter().flatten().filter(|comparison| comparison.is_measured()).count();
    let mut findings = evaluate(&comparisons).into_iter();
    let sections = experiments.iter().zip(pending).map(|(experiment, pending)| {
        let compared = pending.into_iter().map(|comparison| {
            let finding = comparison.input.is_ok().then(|| findings.next()).flatten();
            comparison.result(finding, comparison_count)
        });
        section(experiment, compared.collect(), title(experiment, experiments))
    });
    Report { sections: sections.collect(), evaluated: comparisons.len() }
}

fn section<'a>(
    experiment: &'a Experiment,
    comparisons: Vec<ComparisonResult<'a>>,
    title: String,
) -> Section<'a> {
    Section {
        experiment,
        title,
        headline: sentences::headline(&comparisons),
        controls: compared::controls(experiment),
        comparisons,
        tables: tables::tables(experiment),
        baselines: baseline::rows(experiment),
        warnings: events::warnings(experiment),
        failures: events::failures(experiment),
        notes: events::notes(experiment),
        remarks: events::remarks(experiment),
    }
}

fn title(experiment: &Experiment, all: &[Experiment]) -> String {
    let name = &experiment.plan().name;
    if all.iter().filter(|other| other.plan().name == *name).count() > 1 {
        format!("{name} ({})", experiment.folder.display())
    } else {
        name.clone()
    }
}

/// The smallest difference that matters to a plan.
fn delta(experiment: &Experiment) -> Delta {
    Delta::new(experiment.plan().delta).unwrap_or_default()
}
