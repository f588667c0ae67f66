//! A report as JSON. Names are stable and include units.

use std::collections::BTreeMap;

use rudy_stats::compare::{Interval, Outcome, Summary};
use serde::Serialize;

use super::analysis::events::Event;
use super::analysis::{ComparisonResult, ControlResult, Evaluation, Report, Section, Table, baseline};
use crate::record::{Head, Machine};

/// The whole document.
pub(super) fn write(report: &Report) -> String {
    let document = Document {
        rudy: env!("CARGO_PKG_VERSION"),
        comparisons_evaluated: report.evaluated,
        experiments: report.sections.iter().map(ExperimentOut::of).collect(),
    };
    // Strings, numbers and maps always serialize; NaN becomes null.
    serde_json::to_string_pretty(&document).expect("it has nothing that JSON has not") + "\n"
}

#[derive(Serialize)]
struct Document<'a> {
    /// The version of the program.
    rudy: &'a str,
    /// The number of comparisons by which the verdicts are corrected.
    comparisons_evaluated: usize,
    experiments: Vec<ExperimentOut<'a>>,
}

#[derive(Serialize)]
struct ExperimentOut<'a> {
    name: &'a str,
    folder: String,
    question: &'a str,
    /// The answer as sentences, one for each compared pair.
    headline: &'a [String],
    /// The margin of equivalence: 0.05 is 5 %.
    delta: f64,
    rounds: usize,
    findings: Vec<FindingOut<'a>>,
    controls: Vec<ControlOut<'a>>,
    summaries: Vec<SummaryOut<'a>>,
    /// The source of the baselines.
    source: &'a str,
    baselines: Vec<BaselineOut<'a>>,
    warnings: Vec<EventOut<'a>>,
    failures: Vec<EventOut<'a>>,
    notes: Vec<EventOut<'a>>,
    /// Notes about the records as a whole.
    remarks: &'a [String],
    /// The heads of the start and of resumptions.
    starts: Vec<Start<'a>>,
}

/// A comparison of the plan under one workload in one metric.
#[derive(Serialize)]
struct FindingOut<'a> {
    variant: &'a str,
    with: &'a str,
    workload: &'a str,
    metric: &'a str,
    /// Rounds in which both have the metric.
    rounds: usize,
    /// Rounds in which both ran; in missing ones, a variant failed or lacks the metric.
    rounds_run: usize,
    /// The medians over the rounds in which both have the metric, in its unit.
    median_variant: Option<f64>,
    median_with: Option<f64>,
    /// The ratio of `variant` to `with`; that of the medians if it was not evaluated.
    ratio: Option<f64>,
    interval: Option<IntervalOut>,
    p_value: Option<f64>,
    /// Corrected for the number of comparisons (Holm).
    p_adjusted: Option<f64>,
    /// `better`, `worse`, `equivalent`, `inconclusive`, or null if it was not evaluated.
    verdict: Option<String>,
    /// The number of rounds that a verdict needs, if there were fewer.
    rounds_needed: Option<usize>,
    /// The reason, if it was not evaluated.
    reason: Option<&'a str>,
    /// Whether it depends on a variant that differs from itself.
    is_flagged: bool,
    /// Whether it depends on suspect runs.
    is_suspect: bool,
    /// The same as a sentence.
    sentence: &'a str,
}

#[derive(Serialize)]
struct IntervalOut {
    low: f64,
    high: f64,
    /// The confidence level.
    confidence: f64,
}

/// A variant compared with itself.
#[derive(Serialize)]
struct ControlOut<'a> {
    variant: &'a str,
    workload: &'a str,
    metric: &'a str,
    rounds: usize,
    rounds_run: usize,
    ratio: Option<f64>,
    interval: Option<IntervalOut>,
    /// `agrees`, `unclear`, `differs`, or null if it was not evaluated.
    outcome: Option<&'static str>,
    /// The reason, if it was not evaluated.
    reason: Option<&'a str>,
}

/// A metric of a variant under a workload, over its rounds without controls.
#[derive(Serialize)]
struct SummaryOut<'a> {
    variant: &'a str,
    workload: &'a str,
    metric: &'a str,
    rounds: usize,
    rounds_run: usize,
    median: f64,
    min: f64,
    max: f64,
    /// The 95 % interval of the median.
    interval: Option<IntervalOut>,
    is_suspect: bool,
}

#[derive(Serialize)]
struct BaselineOut<'a> {
    workload: &'a str,
    /// The name in the older report; null for a new metric without an older one.
    baseline: Option<&'a str>,
    text: Option<&'a str>,
    metric: Option<&'a str>,
    baseline_value: Option<f64>,
    /// The variant of today.
    variant: Option<&'a str>,
    median: Option<f64>,
    /// The ratio of `median` to `baseline_value`.
    ratio: Option<f64>,
}

#[derive(Serialize)]
struct EventOut<'a> {
    workload: &'a str,
    variant: &'a str,
    /// The message of the first run.
    sentence: &'a str,
    /// The number of runs, of `of_runs`.
    runs: usize,
    of_runs: usize,
    /// The affected metrics, for a warning.
    concerns: &'a [String],
}

#[derive(Serialize)]
struct Start<'a> {
    started: &'a str,
    seed: u64,
    machine: &'a Machine,
    versions: &'a BTreeMap<String, String>,
    command: &'a [String],
}

impl<'a> ExperimentOut<'a> {
    fn of(section: &'a Section<'a>) -> Self {
        let plan = section.experiment.plan();
        Self {
            name: &plan.name,
            folder: section.experiment.folder.display().to_string(),
            question: &plan.question,
            headline: &section.headline,
            delta: plan.delta,
            rounds: plan.rounds,
            findings: section.comparisons.iter().map(FindingOut::of).collect(),
            controls: section.controls.iter().map(ControlOut::of).collect(),
            summaries: section.tables.iter().flat_map(summaries).collect(),
            source: &plan.source,
            baselines: section.baselines.iter().map(BaselineOut::of).collect(),
            warnings: section.warnings.iter().map(EventOut::of).collect(),
            failures: section.failures.iter().map(EventOut::of).collect(),
            notes: section.notes.iter().map(EventOut::of).collect(),
            remarks: &section.remarks,
            starts: section.experiment.heads.iter().map(Start::of).collect(),
        }
    }
}

impl<'a> FindingOut<'a> {
    fn of(compared: &'a ComparisonResult<'a>) -> Self {
        let (finding, ratio, reason) = match &compared.evaluation {
            Evaluation::Done(finding) => (Some(finding), Some(finding.ratio), None),
            Evaluation::NotDone { ratio, reason, .. } => (None, *ratio, Some(reason.as_str())),
        };
        let rounds_needed = match &compared.evaluation {
            Evaluation::Done(finding) => finding.too_few.map(|few| few.needed),
            Evaluation::NotDone { needed, .. } => *needed,
        };
        Self {
            variant: compared.variant,
            with: compared.with,
            workload: compared.workload,
            metric: &compared.metric.name,
            rounds: compared.rounds,
            rounds_run: compared.rounds_run,
            median_variant: compared.medians.map(|[variant, _]| variant),
            median_with: compared.medians.map(|[_, with]| with),
            ratio,
            interval: finding.map(|finding| IntervalOut::of(finding.interval)),
            p_value: finding.map(|finding| finding.p_value),
            p_adjusted: finding.map(|finding| finding.p_adjusted),
            verdict: compared.verdict().map(|verdict| verdict.to_string()),
            rounds_needed,
            reason,
            is_flagged: finding.is_some_and(|finding| finding.is_flagged),
            is_suspect: compared.is_suspect,
            sentence: &compared.sentence,
        }
    }
}

impl IntervalOut {
    fn of(interval: Interval) -> Self {
        let Interval { low, high, confidence } = interval;
        Self { low, high, confidence }
    }
}

impl<'a> ControlOut<'a> {
    fn of(control: &'a ControlResult<'a>) -> Self {
        let shown = control.outcome.as_ref().ok();
        Self {
            variant: control.variant,
            workload: control.workload,
            metric: &control.metric.name,
            rounds: control.rounds,
            rounds_run: control.rounds_run,
            ratio: shown.map(|shown| shown.ratio),
            interval: shown.map(|shown| IntervalOut::of(shown.interval)),
            outcome: shown.map(|shown| match shown.outcome {
                Outcome::Agrees => "agrees",
                Outcome::Unclear => "unclear",
                Outcome::Differs => "differs",
            }),
            reason: control.outcome.as_ref().err().map(String::as_str),
        }
    }
}

fn summaries<'a>(table: &'a Table<'a>) -> impl Iterator<Item = SummaryOut<'a>> {
    table.rows.iter().flat_map(|(variant, cells)| {
        cells.iter().zip(&table.metrics).filter_map(|(cell, metric)| {
            let Summary { rounds, median, interval, min, max } = cell.summary?;
            Some(SummaryOut {
                variant,
                workload: table.workload,
                metric: &metric.name,
                rounds,
                rounds_run: cell.rounds_run,
                median,
                min,
                max,
                interval: interval.map(IntervalOut::of),
                is_suspect: cell.is_suspect,
            })
        })
    })
}

impl<'a> BaselineOut<'a> {
    fn of(row: &'a baseline::Row<'a>) -> Self {
        Self {
            workload: row.workload,
            baseline: row.baseline.map(|baseline| baseline.name),
            text: row.baseline.and_then(|baseline| baseline.text),
            metric: row.metric.as_ref().map(|metric| metric.name.as_str()),
            baseline_value: row.baseline.and_then(|baseline| baseline.value),
            variant: row.current.map(|(variant, _)| variant),
            median: row.current.and_then(|(_, cell)| Some(cell.summary?.median)),
            ratio: row.ratio(),
        }
    }
}

impl<'a> EventOut<'a> {
    fn of(events: &'a Event<'a>) -> Self {
        let Event { workload, variant, sentence, runs, of, concerns } = *events;
        Self { workload, variant, sentence, runs, of_runs: of, concerns }
    }
}

impl<'a> Start<'a> {
    fn of(head: &'a Head) -> Self {
        let Head { started, seed, machine, versions, command, .. } = head;
        Self { started, seed: *seed, machine, versions, command }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::report::{analysis, fixtures};

    #[test]
    fn the_json_has_the_number_of_missing_rounds() {
        let plan = |rounds: u64| {
            format!(
                "rounds = {rounds}\n[[variant]]\nname = \"a\"\ncommand = [\"a\"]\n\
                 [[variant]]\nname = \"b\"\ncommand = [\"b\"]\n[[workload]]\nname = \"1k\"\nkind = \"bench\"\n\
                 [[compare]]\nvariant = \"a\"\nwith = \"b\"\nmetrics = [\"p99_ns\", \"p50_ns\"]\n"
            )
        };
        for (rounds, needed) in [(3, Some(7)), (6, Some(7)), (7, None)] {
            let metrics = |id: &fixtures::RunId| {
                let times = if id.variant == "a" { 2.0 } else { 1.0 };
                (id.variant == "a" || id.round > 0)
                    .then(|| vec![("p99_ns", times * 1e6), ("p50_ns", times * 1e5)])
            };
            let made = [fixtures::experiment(&plan(rounds + 1), metrics)];
            let report: Value = serde_json::from_str(&write(&analysis::analyse(&made))).expect("it is JSON");
            let finding = &report["experiments"][0]["findings"][0];
            let counts = ["rounds", "rounds_run", "rounds_needed"].map(|name| finding[name].as_u64());
            assert_eq!(counts, [Some(rounds), Some(rounds + 1), needed]);
        }
    }
}
