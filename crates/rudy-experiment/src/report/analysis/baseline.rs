//! Older results of a plan, next to the new ones.

use super::{Cell, tables};
use crate::experiment::Experiment;
use crate::metric::Metric;
use crate::plan::Baseline;

/// An older and a new metric under a workload; one of them exists. The older one may be text only.
#[derive(Debug)]
pub(crate) struct Row<'a> {
    pub(crate) workload: &'a str,
    /// `None` if the older report has only text, and there is no metric to show next to it.
    pub(crate) metric: Option<Metric>,
    pub(crate) baseline: Option<BaselineResult<'a>>,
    /// The variant of today, and its metric.
    pub(crate) current: Option<(&'a str, Cell)>,
}

/// A result of the older report.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BaselineResult<'a> {
    /// Its name in that report.
    pub(crate) name: &'a str,
    pub(crate) value: Option<f64>,
    /// A statement of that report in words.
    pub(crate) text: Option<&'a str>,
}

impl Row<'_> {
    /// The ratio of today's median to the older value.
    pub(crate) fn ratio(&self) -> Option<f64> {
        let ratio = self.current?.1.summary?.median / self.baseline?.value?;
        (ratio.is_finite() && ratio > 0.0).then_some(ratio)
    }
}

/// For each workload and each older metric: the older value next to that of today's variant, followed by today's
/// other variants. A statement in words is shown next to the nines, or alone.
pub(super) fn rows(experiment: &Experiment) -> Vec<Row<'_>> {
    let plan = experiment.plan();
    let mut rows = Vec::new();
    for workload in &plan.workloads {
        let workload = workload.name.as_str();
        let of_workload = || plan.baselines.iter().filter(|baseline| baseline.workload == workload);
        let mut metrics: Vec<&str> = Vec::new();
        for name in of_workload().flat_map(|baseline| baseline.metrics.keys()) {
            if !metrics.contains(&name.as_str()) {
                metrics.push(name);
            }
        }
        for metric in metrics {
            let baselines: Vec<&Baseline> =
                of_workload().filter(|baseline| baseline.metrics.contains_key(metric)).collect();
            rows.extend(rows_of_metric(experiment, workload, metric, &baselines));
        }
        let without_metrics: Vec<&Baseline> =
            of_workload().filter(|baseline| baseline.metrics.is_empty()).collect();
        match metric_for_text(experiment, workload) {
            Some(metric) if !without_metrics.is_empty() => {
                rows.extend(rows_of_metric(experiment, workload, metric, &without_metrics));
            }
            _ => rows.extend(without_metrics.into_iter().map(|baseline| {
                let result =
                    BaselineResult { name: &baseline.name, value: None, text: baseline.text.as_deref() };
                Row { workload, metric: None, baseline: Some(result), current: None }
            })),
        }
    }
    rows
}

/// The metric to show next to a statement in words: the nines, because "all good" describes them. Any other metric
/// would be a guess.
fn metric_for_text<'a>(experiment: &'a Experiment, workload: &str) -> Option<&'a str> {
    tables::metrics(experiment, workload).into_iter().find(|name| *name == "nines")
}

fn rows_of_metric<'a>(
    experiment: &'a Experiment,
    workload: &'a str,
    metric: &str,
    baselines: &[&'a Baseline],
) -> Vec<Row<'a>> {
    let current = |variant: &'a str| {
        let cell = tables::cell(experiment, variant, workload, metric);
        (cell.summary.is_some() || cell.has_failed).then_some((variant, cell))
    };
    let row = |baseline, current| Row { workload, metric: Some(Metric::named(metric)), baseline, current };
    let with_baselines = baselines.iter().map(|baseline| {
        let value = baseline.metrics.get(metric).copied();
        let result = BaselineResult { name: &baseline.name, value, text: baseline.text.as_deref() };
        row(Some(result), baseline.variant.as_deref().and_then(current))
    });
    let names = experiment.plan().variants.iter().map(|variant| variant.name.as_str());
    let others =
        names.filter(|name| !baselines.iter().any(|baseline| baseline.variant.as_deref() == Some(*name)));
    let others = others.filter_map(current).map(|current| row(None, Some(current)));
    with_baselines.chain(others).collect()
}
