//! The runs of a report with all their metrics, one per row.

use std::collections::BTreeSet;

use super::analysis::Report;
use super::cells::{csv_line, text};
use crate::experiment::Experiment;
use crate::record::{Outcome, Run};

/// The columns before the metrics.
const COLUMNS: [&str; 8] =
    ["experiment", "round", "position", "workload", "variant", "is_control", "outcome", "suspect"];

/// All rows below a line of names. A missing metric is an empty cell.
pub(super) fn write(report: &Report) -> String {
    let experiments = || report.sections.iter().map(|section| (section.title.as_str(), section.experiment));
    let names: BTreeSet<&str> = experiments()
        .flat_map(|(_, experiment)| &experiment.runs)
        .flat_map(|run| run.metrics.keys().map(String::as_str))
        .collect();
    let head: Vec<String> = COLUMNS.into_iter().chain(names.iter().copied()).map(text).collect();
    let mut all = csv_line(&head);
    for (title, Experiment { runs, .. }) in experiments() {
        for run in runs {
            all.push_str(&csv_line(&row(title, run, &names)));
        }
    }
    all
}

fn row(title: &str, run: &Run, names: &BTreeSet<&str>) -> Vec<String> {
    let outcome = match &run.outcome {
        Outcome::Measured => "measured".to_owned(),
        Outcome::Failed { why } => format!("failed: {why}"),
    };
    let suspect: BTreeSet<&str> =
        run.warnings.iter().flat_map(|warning| warning.concerns.iter().map(String::as_str)).collect();
    let suspect = suspect.into_iter().collect::<Vec<_>>().join(" ");
    let mut row = vec![
        text(title),
        (run.round + 1).to_string(),
        (run.position + 1).to_string(),
        text(&run.workload),
        text(&run.variant),
        run.is_control.to_string(),
        text(&outcome),
        text(&suspect),
    ];
    let metric = |name: &&str| run.metrics.get(*name).map_or(String::new(), f64::to_string);
    row.extend(names.iter().map(metric));
    row
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{analysis, fixtures};

    #[test]
    fn each_run_has_a_row_with_every_metric_in_its_column() {
        let plan = "rounds = 1\n[[variant]]\nname = \"a, \\\"b\\\"\"\ncommand = [\"a\"]\n\
            [[workload]]\nname = \"l\"\nkind = \"bench\"\n[[workload]]\nname = \"=m\"\nkind = \"bench\"\n";
        let made = fixtures::experiment(plan, |turn| (turn.workload == "l").then(|| vec![("p99_ns", 1.5e6)]));
        let made = [made];
        let rows = write(&analysis::analyse(&made));
        let expected = "experiment,round,position,workload,variant,is_control,outcome,suspect,p99_ns\r\n\
            made,1,1,l,\"a, \"\"b\"\"\",false,measured,,1500000\r\n\
            made,1,2,'=m,\"a, \"\"b\"\"\",false,failed: it ended (exit code 1) under the workload,,\r\n";
        assert_eq!(rows, expected);
    }
}
