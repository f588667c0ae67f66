//! Tables as CSV (RFC 4180), for spreadsheets and statistics programs.

use super::analysis::pairs::is_suspect;
use super::analysis::{ComparisonResult, Evaluation};
use crate::experiment::Experiment;

/// A line for each metric of each run. Failed runs have none.
pub(super) fn runs(experiments: &[Experiment]) -> String {
    let mut text =
        line(["experiment", "round", "workload", "variant", "is_control", "metric", "value", "is_suspect"]);
    for experiment in experiments {
        for run in &experiment.runs {
            for (metric, value) in &run.metrics {
                text += &line([
                    experiment.plan().name.as_str(),
                    &(run.round + 1).to_string(),
                    &run.workload,
                    &run.variant,
                    &run.is_control.to_string(),
                    metric,
                    &value.to_string(),
                    &is_suspect(run, metric).to_string(),
                ]);
            }
        }
    }
    text
}

/// A line for each comparison of two results.
pub(super) fn comparisons(compared: &[ComparisonResult]) -> String {
    let head =
        ["variant", "workload", "metric", "median_old", "median_new", "ratio", "low", "high", "verdict"];
    let number = |number: Option<f64>| number.map_or_else(String::new, |number| number.to_string());
    let row = |compared: &ComparisonResult| {
        let (ratio, interval) = match &compared.evaluation {
            Evaluation::Done(finding) => (Some(finding.ratio), Some(finding.interval)),
            Evaluation::NotDone { ratio, .. } => (*ratio, None),
        };
        line([
            compared.variant,
            compared.workload,
            &compared.metric.name,
            &number(compared.medians.map(|[_, old]| old)),
            &number(compared.medians.map(|[new, _]| new)),
            &number(ratio),
            &number(interval.map(|interval| interval.low)),
            &number(interval.map(|interval| interval.high)),
            &compared.verdict().map_or_else(String::new, |verdict| verdict.to_string()),
        ])
    };
    line(head) + &compared.iter().map(row).collect::<String>()
}

/// A line. Cells with a comma, a quote or a line break are quoted.
fn line<const N: usize>(cells: [&str; N]) -> String {
    let cell = |cell: &str| {
        if cell.contains([',', '"', '\n', '\r']) {
            format!("\"{}\"", cell.replace('"', "\"\""))
        } else {
            cell.to_owned()
        }
    };
    cells.map(cell).join(",") + "\r\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixtures;

    #[test]
    fn each_metric_of_a_run_is_a_line_and_names_with_commas_are_quoted() {
        let plan = "rounds = 1\n[[variant]]\nname = \"a \\\"b\\\"\"\ncommand = [\"a\"]\n\
                    [[workload]]\nname = \"1 KiB, TLS\"\nkind = \"bench\"\n";
        let experiment = fixtures::experiment(plan, |_| Some(vec![("p99_ns", 1.5e6), ("errors", 0.0)]));
        let name = experiment.plan().name.clone();
        let text = runs(&[experiment]);
        let lines: Vec<&str> = text.split_terminator("\r\n").collect();
        assert_eq!(
            lines[1..],
            [
                format!("{name},1,\"1 KiB, TLS\",\"a \"\"b\"\"\",false,errors,0,false"),
                format!("{name},1,\"1 KiB, TLS\",\"a \"\"b\"\"\",false,p99_ns,1500000,false"),
            ]
        );
    }
}
