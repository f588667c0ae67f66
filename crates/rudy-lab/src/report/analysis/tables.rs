//! Tables of all figures, by load.

use rudy_stats::compare::Summary;

use super::pairs::{is_doubted, value};
use super::{Cell, Table};
use crate::experiment::Experiment;
use crate::record::Outcome;
use crate::report::unit::Figure;

/// The first figures of a table. The subject's own figures follow, and those of the run come last.
const FIRST: [&str; 20] = [
    "time_s",
    "requests_per_s",
    "knee_per_s",
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
    "late_p50_ns",
    "late_p99_ns",
    "late_max_ns",
    "private_bytes_per_connection",
    "private_bytes",
    "idle_private_bytes",
    "idle_private_bytes_per_connection",
];

const LAST: [&str; 4] = ["generator_lag_p99_ns", "generator_share", "others_share", "stolen_share"];

/// A table for each load with figures.
pub(super) fn tables(experiment: &Experiment) -> Vec<Table<'_>> {
    let loads = experiment.plan().loads.iter().map(|load| table(experiment, &load.name));
    loads.filter(|table| !table.figures.is_empty()).collect()
}

fn table<'a>(experiment: &'a Experiment, load: &'a str) -> Table<'a> {
    let subjects = experiment.plan().subjects.iter().map(|subject| subject.name.as_str());
    let names = figures(experiment, load);
    let row = |subject| {
        let cells = names.iter().map(|figure| cell(experiment, subject, load, figure));
        (subject, cells.collect::<Vec<_>>())
    };
    let was_run = |subject: &&str| experiment.runs_of(subject, load).any(|run| !run.is_control);
    let rows = subjects.filter(was_run).map(row);
    Table { load, rows: rows.collect(), figures: names.iter().map(|name| Figure::named(name)).collect() }
}

/// The names of all figures of a load, in the order of the table.
pub(super) fn figures<'a>(experiment: &'a Experiment, load: &str) -> Vec<&'a str> {
    let mut names: Vec<&str> = Vec::new();
    for run in experiment.runs.iter().filter(|run| run.load == load) {
        for name in run.figures.keys() {
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

/// A figure of a subject under a load, over all rounds without controls.
pub(super) fn cell(experiment: &Experiment, subject: &str, load: &str, figure: &str) -> Cell {
    let runs: Vec<_> = experiment.runs_of(subject, load).filter(|run| !run.is_control).collect();
    let values: Vec<f64> = runs.iter().filter_map(|run| value(run, figure)).collect();
    Cell {
        summary: Summary::of(&values),
        rounds_run: runs.len(),
        has_failed: !runs.is_empty() && runs.iter().all(|run| run.outcome != Outcome::Measured),
        is_doubtful: runs.iter().any(|run| is_doubted(run, figure)),
    }
}
