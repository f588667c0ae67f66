//! The charts of a report: functions from the records to descriptions of data, which `rudy-charts` draws.

mod baseline;
mod curves;
mod data;
mod latency;
mod lines;
mod memory;
mod rates;
mod seconds;
mod sizes;
mod strip;
mod threads;

use std::collections::HashSet;

use crate::experiment::Experiment;

/// A chart.
#[derive(Debug, Clone)]
pub struct Chart {
    /// The file name, of `a-z`, `0-9` and `-`; unique in its experiment.
    pub id: String,
    /// The title.
    pub title: String,
    /// The caption, in a sentence or two.
    pub caption: String,
    /// A complete SVG document, which also works outside of a page.
    pub svg: String,
}

/// All charts for which an experiment has data, in display order.
#[must_use]
pub fn charts(experiment: &Experiment) -> Vec<Chart> {
    let of_workload = [
        baseline::charts,
        sizes::charts,
        curves::charts,
        rates::charts,
        latency::charts,
        seconds::charts,
        strip::charts,
        memory::charts,
        threads::charts,
    ];
    let workloads = experiment.plan().workloads.iter();
    let mut charts: Vec<Chart> = workloads
        .flat_map(|workload| of_workload.iter().flat_map(|charts| charts(experiment, workload)))
        .collect();
    let mut taken = HashSet::new();
    for chart in &mut charts {
        chart.id = unused(&chart.id, &taken);
        taken.insert(chart.id.clone());
    }
    charts
}

/// Names of workloads may differ only in characters that a file name cannot have.
fn unused(id: &str, taken: &HashSet<String>) -> String {
    let numbered = (2..).map(|number| format!("{id}-{number}"));
    [id.to_owned()].into_iter().chain(numbered).find(|id| !taken.contains(id)).unwrap_or_default()
}

#[cfg(test)]
mod tests;
