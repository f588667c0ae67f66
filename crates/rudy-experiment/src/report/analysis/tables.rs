//! Tables of all metrics, by workload.

use rudy_stats::compare::Summary;

use super::pairs::{is_suspect, value};
use super::{Cell, Table};
use crate::experiment::Experiment;
use crate::metric::Metric;
use crate::record::Outcome;

/// The first metrics of a table. The variant's own metrics follow, and those of the run come last.
const FIRST: [&str; 20] = [
    "time_s",
    "requests_per_s",
    "max_rate_per_s",
    "errors",
    "cpu_s",
    "cpu_us_per_request",
    "cpu_user_us_per_request",
    "cpu_system_us_per_request",
    "p50_ns",
    "p90_ns",
    "p99_ns",
    "p999_ns",
    "max_ns",
    "schedule_delay_p50_ns",
    "schedule_delay_p99_ns",
    "schedule_delay_max_ns",
    "private_bytes_per_connection",
    "private_bytes",
    "idle_private_bytes",
    "idle_private_bytes_per_connection",
];

const LAST: [&str; 4] =
    ["client_schedule_delay_p99_ns", "generator_share", "background_cpu_share", "steal_share"];

/// A table for each workload with metrics.
pub(super) fn tables(experiment: &Experiment) -> Vec<Table<'_>> {
    let workloads = experiment.plan().workloads.iter().map(|workload| table(experiment, &workload.name));
    workloads.filter(|table| !table.metrics.is_empty()).collect()
}

fn table<'a>(experiment: &'a Experiment, workload: &'a str) -> Table<'a> {
    let variants = experiment.plan().variants.iter().map(|variant| variant.name.as_str());
    let names = metrics(experiment, workload);
    let row = |variant| {
        let cells = names.iter().map(|metric| cell(experiment, variant, workload, metric));
        (variant, cells.collect::<Vec<_>>())
    };
    let was_run = |variant: &&str| experiment.runs_of(variant, workload).any(|run| !run.is_control);
    let rows = variants.filter(was_run).map(row);
    Table { workload, rows: rows.collect(), metrics: names.iter().map(|name| Metric::named(name)).collect() }
}

/// The names of all metrics of a workload, in the order of the table.
pub(super) fn metrics<'a>(experiment: &'a Experiment, workload: &str) -> Vec<&'a str> {
    let mut names: Vec<&str> = Vec::new();
    for run in experiment.runs.iter().filter(|run| run.workload == workload) {
        for name in run.metrics.keys() {
            if !names.contains(&name.as_str()) {
                names.push(name);
            }
        }
    }
    let place = |name: &str| {
        let first = FIRST.iter().position(|known| *known == name);
        let last = LAST.iter().position(|known| *known == name).map(|place| place + FIRST.len() + 1);
        first.or(last).unwrap_or(FIRST.len())
    };
    names.sort_by_key(|name| (place(name), *name));
    names
}

/// A metric of a variant under a workload, over all rounds without controls.
pub(super) fn cell(experiment: &Experiment, variant: &str, workload: &str, metric: &str) -> Cell {
    let runs: Vec<_> = experiment.runs_of(variant, workload).filter(|run| !run.is_control).collect();
    let values: Vec<f64> = runs.iter().filter_map(|run| value(run, metric)).collect();
    Cell {
        summary: Summary::new(&values),
        rounds_run: runs.len(),
        has_failed: !runs.is_empty() && runs.iter().all(|run| run.outcome != Outcome::Measured),
        is_suspect: runs.iter().any(|run| is_suspect(run, metric)),
    }
}
