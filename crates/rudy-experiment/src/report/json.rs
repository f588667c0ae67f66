//! A report as JSON. Names are stable and include units.

use rudy_stats::compare::{Interval, Outcome, Summary};
use serde_json::{Value, json};

use super::analysis::events::Event;
use super::analysis::{ComparisonResult, ControlResult, Evaluation, Report, Section, Table, baseline};
use crate::record::Head;

/// The whole document.
pub(super) fn write(report: &Report) -> String {
    let document = json!({
        "rudy": env!("CARGO_PKG_VERSION"),
        // The number of comparisons by which the verdicts are corrected.
        "comparisons_evaluated": report.evaluated,
        "experiments": report.sections.iter().map(experiment).collect::<Value>(),
    });
    format!("{document:#}\n")
}

fn experiment(section: &Section) -> Value {
    let plan = section.experiment.plan();
    json!({
        "name": plan.name,
        "folder": section.experiment.folder.display().to_string(),
        "question": plan.question,
        // The answer as sentences, one for each compared pair.
        "headline": section.headline,
        // The margin of equivalence: 0.05 is 5 %.
        "delta": plan.delta,
        "rounds": plan.rounds,
        "findings": section.comparisons.iter().map(finding).collect::<Value>(),
        "controls": section.controls.iter().map(control).collect::<Value>(),
        "summaries": section.tables.iter().flat_map(summaries).collect::<Value>(),
        // The source of the baselines.
        "source": plan.source,
        "baselines": section.baselines.iter().map(of_baseline).collect::<Value>(),
        "warnings": section.warnings.iter().map(event).collect::<Value>(),
        "failures": section.failures.iter().map(event).collect::<Value>(),
        "notes": section.notes.iter().map(event).collect::<Value>(),
        // Notes about the records as a whole.
        "remarks": section.remarks,
        // The heads of the start and of resumptions.
        "starts": section.experiment.heads.iter().map(start).collect::<Value>(),
    })
}

/// A comparison of the plan under one workload in one metric.
fn finding(result: &ComparisonResult) -> Value {
    let (finding, ratio, reason) = match &result.evaluation {
        Evaluation::Done(finding) => (Some(finding), Some(finding.ratio), None),
        Evaluation::NotDone { ratio, reason, .. } => (None, *ratio, Some(reason.as_str())),
    };
    let rounds_needed = match &result.evaluation {
        Evaluation::Done(finding) => finding.too_few.map(|few| few.needed),
        Evaluation::NotDone { needed, .. } => *needed,
    };
    json!({
        "variant": result.variant,
        "with": result.with,
        "workload": result.workload,
        "metric": result.metric.name,
        // Rounds in which both have the metric, and those in which both ran; in missing ones, a variant failed or lacks the metric.
        "rounds": result.rounds,
        "rounds_run": result.rounds_run,
        // The medians over the rounds in which both have the metric, in its unit.
        "median_variant": result.medians.map(|[variant, _]| variant),
        "median_with": result.medians.map(|[_, with]| with),
        // The ratio of `variant` to `with`; that of the medians if it was not evaluated.
        "ratio": ratio,
        "interval": finding.map(|finding| interval(finding.interval)),
        "p_value": finding.map(|finding| finding.p_value),
        // Corrected for the number of comparisons (Bonferroni).
        "p_adjusted": finding.map(|finding| finding.p_adjusted),
        // `better`, `worse`, `equivalent`, `inconclusive`, or null if it was not evaluated.
        "verdict": result.verdict().map(|verdict| verdict.to_string()),
        // The number of rounds that a verdict needs, if there were fewer.
        "rounds_needed": rounds_needed,
        // The reason, if it was not evaluated.
        "reason": reason,
        // Whether it depends on a variant that differs from itself, or on suspect runs.
        "is_flagged": finding.is_some_and(|finding| finding.is_flagged),
        "is_suspect": result.is_suspect,
        "sentence": result.sentence,
    })
}

fn interval(Interval { low, high, confidence }: Interval) -> Value {
    json!({"low": low, "high": high, "confidence": confidence})
}

/// A variant compared with itself.
fn control(control: &ControlResult) -> Value {
    let shown = control.outcome.as_ref().ok();
    json!({
        "variant": control.variant,
        "workload": control.workload,
        "metric": control.metric.name,
        "rounds": control.rounds,
        "rounds_run": control.rounds_run,
        "ratio": shown.map(|shown| shown.ratio),
        "interval": shown.map(|shown| interval(shown.interval)),
        "outcome": shown.map(|shown| match shown.outcome {
            Outcome::Agrees => "agrees",
            Outcome::Unclear => "unclear",
            Outcome::Differs => "differs",
        }),
        // The reason, if it was not evaluated.
        "reason": control.outcome.as_ref().err(),
    })
}

/// The metrics of the variants under a workload, over their rounds without controls.
fn summaries(table: &Table) -> Vec<Value> {
    let cells = table
        .rows
        .iter()
        .flat_map(|(variant, cells)| cells.iter().zip(&table.metrics).map(move |cell| (variant, cell)));
    let summary = |(variant, (cell, metric)): (&&str, (&super::analysis::Cell, &crate::metric::Metric))| {
        let Summary { rounds, median, interval: of_median, min, max } = cell.summary?;
        Some(json!({
            "variant": variant,
            "workload": table.workload,
            "metric": metric.name,
            "rounds": rounds,
            "rounds_run": cell.rounds_run,
            "median": median,
            "min": min,
            "max": max,
            // The 95 % interval of the median.
            "interval": of_median.map(interval),
            "is_suspect": cell.is_suspect,
        }))
    };
    cells.filter_map(summary).collect()
}

fn of_baseline(row: &baseline::Row) -> Value {
    json!({
        "workload": row.workload,
        // The name in the older report; null for a new metric without an older one.
        "baseline": row.baseline.map(|baseline| baseline.name),
        "text": row.baseline.and_then(|baseline| baseline.text),
        "metric": row.metric.as_ref().map(|metric| &metric.name),
        "baseline_value": row.baseline.and_then(|baseline| baseline.value),
        // The variant of today.
        "variant": row.current.map(|(variant, _)| variant),
        "median": row.current.and_then(|(_, cell)| Some(cell.summary?.median)),
        // The ratio of `median` to `baseline_value`.
        "ratio": row.ratio(),
    })
}

/// The message of the first of `runs` of `of_runs` runs, and for a warning the affected metrics.
fn event(event: &Event) -> Value {
    let Event { workload, variant, sentence, runs, of, concerns } = *event;
    json!({"workload": workload, "variant": variant, "sentence": sentence, "runs": runs, "of_runs": of, "concerns": concerns})
}

fn start(head: &Head) -> Value {
    let Head { started, seed, machine, versions, command, .. } = head;
    json!({"started": started, "seed": seed, "machine": machine, "versions": versions, "command": command})
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
