//! Older results of a plan, next to the new ones.

use super::{Cell, tables};
use crate::experiment::Experiment;
use crate::plan::Baseline;
use crate::report::unit::Metric;

/// An older and a new metric under a workload; one of them exists. The older one may be text only.
#[derive(Debug)]
pub(crate) struct Row<'a> {
    pub(crate) workload: &'a str,
    /// `None` if the older report has only text, and there is no metric to show next to it.
    pub(crate) metric: Option<Metric>,
    pub(crate) baseline: Option<Before<'a>>,
    /// The variant of today, and its metric.
    pub(crate) now: Option<(&'a str, Cell)>,
}

/// A result of the older report.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Before<'a> {
    /// Its name in that report.
    pub(crate) name: &'a str,
    pub(crate) value: Option<f64>,
    /// A statement of that report in words.
    pub(crate) said: Option<&'a str>,
}

impl Row<'_> {
    /// The ratio of today's median to the older value.
    pub(crate) fn ratio(&self) -> Option<f64> {
        let ratio = self.now?.1.summary?.median / self.baseline?.value?;
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
            rows.extend(of_metric(experiment, workload, metric, &baselines));
        }
        let said: Vec<&Baseline> = of_workload().filter(|baseline| baseline.metrics.is_empty()).collect();
        match worded(experiment, workload) {
            Some(metric) if !said.is_empty() => rows.extend(of_metric(experiment, workload, metric, &said)),
            _ => rows.extend(said.into_iter().map(|baseline| {
                let before = Before { name: &baseline.name, value: None, said: baseline.text.as_deref() };
                Row { workload, metric: None, baseline: Some(before), now: None }
            })),
        }
    }
    rows
}

/// The metric to show next to a statement in words: the nines, because "all good" describes them. Any other metric
/// would be a guess.
fn worded<'a>(experiment: &'a Experiment, workload: &str) -> Option<&'a str> {
    tables::metrics(experiment, workload).into_iter().find(|name| *name == "nines")
}

fn of_metric<'a>(
    experiment: &'a Experiment,
    workload: &'a str,
    metric: &str,
    baselines: &[&'a Baseline],
) -> Vec<Row<'a>> {
    let now = |variant: &'a str| {
        let cell = tables::cell(experiment, variant, workload, metric);
        (cell.summary.is_some() || cell.has_failed).then_some((variant, cell))
    };
    let row = |baseline, now| Row { workload, metric: Some(Metric::named(metric)), baseline, now };
    let older = baselines.iter().map(|baseline| {
        let value = baseline.metrics.get(metric).copied();
        let before = Before { name: &baseline.name, value, said: baseline.text.as_deref() };
        row(Some(before), baseline.variant.as_deref().and_then(now))
    });
    let names = experiment.plan().variants.iter().map(|variant| variant.name.as_str());
    let others =
        names.filter(|name| !baselines.iter().any(|baseline| baseline.variant.as_deref() == Some(*name)));
    let others = others.filter_map(now).map(|now| row(None, Some(now)));
    older.chain(others).collect()
}
