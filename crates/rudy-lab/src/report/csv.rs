//! The runs of a report with all their figures, one per row.

use std::collections::BTreeSet;

use super::analysis::Report;
use super::cells::{csv_line, text};
use crate::experiment::Experiment;
use crate::record::{Outcome, Run};

/// The columns before the figures.
const COLUMNS: [&str; 8] =
    ["experiment", "round", "position", "load", "subject", "is_control", "outcome", "doubted"];

/// All rows below a line of names. A missing figure is an empty cell.
pub(super) fn write(report: &Report) -> String {
    let experiments = || report.sections.iter().map(|section| (section.title.as_str(), section.experiment));
    let names: BTreeSet<&str> = experiments()
        .flat_map(|(_, experiment)| &experiment.runs)
        .flat_map(|run| run.figures.keys().map(String::as_str))
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
    let doubted: BTreeSet<&str> =
        run.doubts.iter().flat_map(|doubt| doubt.concerns.iter().map(String::as_str)).collect();
    let doubted = doubted.into_iter().collect::<Vec<_>>().join(" ");
    let mut row = vec![
        text(title),
        (run.round + 1).to_string(),
        (run.position + 1).to_string(),
        text(&run.load),
        text(&run.subject),
        run.is_control.to_string(),
        text(&outcome),
        text(&doubted),
    ];
    let figure = |name: &&str| run.figures.get(*name).map_or(String::new(), f64::to_string);
    row.extend(names.iter().map(figure));
    row
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{analysis, made};

    #[test]
    fn each_run_has_a_row_with_every_figure_in_its_column() {
        let plan = "rounds = 1\n[[subject]]\nname = \"a, \\\"b\\\"\"\ncommand = [\"a\"]\n\
            [[load]]\nname = \"l\"\nkind = \"bench\"\n[[load]]\nname = \"=m\"\nkind = \"bench\"\n";
        let made = made::experiment(plan, |turn| (turn.load == "l").then(|| vec![("p99_ns", 1.5e6)]));
        let made = [made];
        let rows = write(&analysis::analyse(&made));
        let expected = "experiment,round,position,load,subject,is_control,outcome,doubted,p99_ns\r\n\
            made,1,1,l,\"a, \"\"b\"\"\",false,measured,,1500000\r\n\
            made,1,2,'=m,\"a, \"\"b\"\"\",false,failed: it ended (exit code 1) under the load,,\r\n";
        assert_eq!(rows, expected);
    }
}
