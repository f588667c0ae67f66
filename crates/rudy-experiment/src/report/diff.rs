//! `rudy lab diff`: compares the results of two folders, which have no rounds in common.

use std::path::PathBuf;

use rudy_command::{Exit, print, print_line, report_error};
use serde::Serialize;

use super::analysis::across::{across, differences};
use super::analysis::{ComparisonResult, Evaluation};
use super::csv;
use super::gate::Gate;
use super::markdown;
use super::rows::{self, Rows};
use crate::experiment::{self, Experiment};

/// The options of `rudy lab diff`.
#[derive(Debug, Clone)]
pub struct DiffOptions {
    /// The results folder to compare with.
    pub old: PathBuf,
    /// The results folder to compare.
    pub new: PathBuf,
    /// Prints JSON or CSV.
    pub format: DiffFormat,
    /// The condition under which it fails.
    pub gate: Option<Gate>,
}

/// The format of the comparisons.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiffFormat {
    /// A table for a terminal.
    Text,
    /// JSON, with the differences besides the results.
    Json,
    /// A line for each comparison.
    Csv,
}

/// Compares the results of two folders.
#[must_use]
pub fn diff(options: &DiffOptions) -> Exit {
    let (old, new) = match (experiment::read(&options.old), experiment::read(&options.new)) {
        (Ok(old), Ok(new)) => (old, new),
        (Err(why), _) | (_, Err(why)) => return report_error(Exit::BadInput, &why),
    };
    let compared = across(&old, &new);
    if compared.is_empty() {
        return report_error(Exit::BadInput, "both results have no variant, workload and metric in common");
    }
    let text = match options.format {
        DiffFormat::Text => text(&old, &new, &compared),
        DiffFormat::Json => json(&old, &new, &compared),
        DiffFormat::Csv => csv::comparisons(&compared),
    };
    let printed = print(&text);
    let (exit, why) = options.gate.map_or((printed, String::new()), |gate| gate.exit(&compared));
    if !why.is_empty() {
        print_line(&why);
    }
    if exit == Exit::Done { printed } else { exit }
}

fn text(old: &Experiment, new: &Experiment, compared: &[ComparisonResult]) -> String {
    let notes = differences(old, new).into_iter().map(|difference| format!("Note: {difference}.\n"));
    let notes: String = notes.collect();
    let intervals = compared.iter().filter_map(|compared| match &compared.evaluation {
        Evaluation::Done(finding) => Some(finding.interval),
        Evaluation::NotDone { .. } => None,
    });
    let about = [rows::too_few(compared), rows::confidence(intervals)];
    let about: Vec<String> = about.into_iter().flatten().map(|note| format!("\n{note}\n")).collect();
    let gap = if notes.is_empty() { "" } else { "\n" };
    format!("{notes}{gap}{}\n{}", markdown::table(&table(compared)), about.concat())
}

fn table(compared: &[ComparisonResult]) -> Rows {
    let head = ["variant", "workload", "metric", "new / old", "ratio", "CI", "verdict"];
    let row = |compared: &ComparisonResult| {
        vec![
            compared.variant.to_owned(),
            compared.workload.to_owned(),
            compared.metric.title.clone(),
            rows::medians(compared),
            rows::ratio_with_marks(compared),
            rows::interval(&compared.evaluation),
            rows::verdict(compared),
        ]
    };
    Rows { head: head.map(str::to_owned).to_vec(), body: compared.iter().map(row).collect() }
}

#[derive(Serialize)]
struct Document<'a> {
    old: String,
    new: String,
    /// The differences besides the results.
    differences: Vec<String>,
    comparisons: Vec<Row<'a>>,
}

#[derive(Serialize)]
struct Row<'a> {
    variant: &'a str,
    workload: &'a str,
    metric: &'a str,
    median_old: Option<f64>,
    median_new: Option<f64>,
    /// The ratio of the new to the old value.
    ratio: Option<f64>,
    low: Option<f64>,
    high: Option<f64>,
    /// `better`, `worse`, `equivalent`, `inconclusive`, or null if it was not evaluated.
    verdict: Option<String>,
    is_suspect: bool,
}

fn json(old: &Experiment, new: &Experiment, compared: &[ComparisonResult]) -> String {
    let row = |compared: &ComparisonResult| match &compared.evaluation {
        Evaluation::Done(finding) => (Some(finding.ratio), Some(finding.interval)),
        Evaluation::NotDone { ratio, .. } => (*ratio, None),
    };
    let rows = compared.iter().map(|compared| {
        let (ratio, interval) = row(compared);
        Row {
            variant: compared.variant,
            workload: compared.workload,
            metric: &compared.metric.name,
            median_old: compared.medians.map(|[_, old]| old),
            median_new: compared.medians.map(|[new, _]| new),
            ratio,
            low: interval.map(|interval| interval.low),
            high: interval.map(|interval| interval.high),
            verdict: compared.verdict().map(|verdict| verdict.to_string()),
            is_suspect: compared.is_suspect,
        }
    });
    let document = Document {
        old: old.folder.display().to_string(),
        new: new.folder.display().to_string(),
        differences: differences(old, new),
        comparisons: rows.collect(),
    };
    // Strings and numbers always serialize.
    serde_json::to_string_pretty(&document).expect("it has only strings and numbers") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixtures;

    const PLAN: &str = "rounds = 8\n[[variant]]\nname = \"a\"\ncommand = [\"a\"]\n[[variant]]\nname = \"b\"\ncommand = [\"b\"]\n\
        [[workload]]\nname = \"1k\"\nkind = \"bench\"\n";

    fn experiment(plan: &str, factor: f64) -> Experiment {
        let noise = |round: usize| 1.0 + 0.001 * f64::from(u32::try_from(round).unwrap());
        let cpu = |id: &fixtures::RunId| noise(id.round) * if id.variant == "b" { factor } else { 1.0 };
        fixtures::experiment(plan, |id| Some(vec![("cpu_us_per_request", 7.0 * cpu(id))]))
    }

    #[test]
    fn only_the_changed_variant_is_worse() {
        let (old, new) = (experiment(PLAN, 1.0), experiment(PLAN, 1.2));
        let compared = across(&old, &new);
        let verdicts: Vec<_> =
            compared.iter().map(|compared| compared.verdict().unwrap().to_string()).collect();
        assert_eq!(verdicts, ["equivalent", "worse"]);
        let text = text(&old, &new, &compared);
        assert!(text.contains("| b       | 1k       | CPU per request |") && text.contains("1.20"), "{text}");
        assert!(!text.contains("Note"), "{text}");
        let exit = |limit: &str| Gate::fail_if_worse(limit).unwrap().exit(&compared).0;
        assert_eq!((exit("5%"), exit("25%")), (Exit::NotMet, Exit::Done));
    }

    #[test]
    fn too_few_rounds_have_a_ratio_and_no_verdict() {
        let plan = PLAN.replace("rounds = 8", "rounds = 3");
        let (old, new) = (experiment(&plan, 1.0), experiment(&plan, 1.2));
        let compared = across(&old, &new);
        assert!(compared.iter().all(|compared| compared.verdict().is_none()));
        let text = text(&old, &new, &compared);
        assert!(text.contains("1.20") && text.contains("3 rounds, 6 needed"), "{text}");
    }

    #[test]
    fn other_machines_versions_and_plans_are_named() {
        let old = experiment(PLAN, 1.0);
        let mut new = experiment(
            &PLAN.replace("[\"b\"]", "[\"c\"]").replace("bench\"\n", "bench\"\nconnections = 3\n"),
            1.0,
        );
        new.heads[0].machine.cores = 16;
        new.heads[0].versions.insert("nginx".to_owned(), "1.30".to_owned());
        new.runs.pop();
        let listed = differences(&old, &new).join("\n");
        for expected in [
            "the machine differs: a processor, 2 cores",
            "the version of nginx differs: none, then 1.30",
            "the workload 1k differs",
            "the command or the configuration of b differs",
            "the new experiment is incomplete",
        ] {
            assert!(listed.contains(expected), "{listed}");
        }
    }
}
