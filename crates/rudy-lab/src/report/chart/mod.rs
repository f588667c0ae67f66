//! The pictures of a report: SVG of our own making, over a few drawing primitives.
//!
//! A kind of chart is a module that takes its data out of the records, by functions that know nothing of drawing, and then
//! draws it. Below them are a [`sheet`] to draw on, scales ([`scale`]), units ([`mod@unit`]), a [`frame`] of axes, marks ([`mark`])
//! and a [`legend`]. Whatever the records hold, what comes out is XML: what is no number is left out by whoever takes the data,
//! and all text is escaped by the sheet.

#[cfg(test)]
mod contrast;
mod data;
mod frame;
mod latency;
mod legend;
mod lines;
mod mark;
mod memory;
mod rates;
mod scale;
mod seconds;
mod sheet;
mod sizes;
mod strip;
mod table;
mod then;
mod threads;
#[cfg(test)]
mod wellformed;

use std::collections::HashSet;

use super::unit;
use crate::experiment::Experiment;

/// A picture, and the numbers that it is made of.
#[derive(Debug, Clone)]
pub(crate) struct Chart {
    /// The name of its file, of `a-z`, `0-9` and `-`; unique in its experiment.
    pub(crate) id: String,
    /// What stands above it.
    pub(crate) title: String,
    /// What one sees in it, in a sentence or two.
    pub(crate) caption: String,
    /// A whole SVG document, which stands alone as well as in a page.
    pub(crate) svg: String,
    /// Its data.
    pub(crate) csv: String,
}

/// All charts that the records of an experiment have something for, in the order in which they are shown.
pub(crate) fn charts(experiment: &Experiment) -> Vec<Chart> {
    let of_load = [
        then::charts,
        sizes::charts,
        rates::charts,
        latency::charts,
        seconds::charts,
        strip::charts,
        memory::charts,
        threads::charts,
    ];
    let loads = experiment.plan().loads.iter();
    let mut charts: Vec<Chart> =
        loads.flat_map(|load| of_load.iter().flat_map(|charts| charts(experiment, load))).collect();
    let mut taken = HashSet::new();
    for chart in &mut charts {
        chart.id = unused(&chart.id, &taken);
        taken.insert(chart.id.clone());
    }
    charts
}

/// Names of loads may differ in what no file name has.
fn unused(id: &str, taken: &HashSet<String>) -> String {
    let numbered = (2..).map(|number| format!("{id}-{number}"));
    [id.to_owned()].into_iter().chain(numbered).find(|id| !taken.contains(id)).unwrap_or_default()
}

#[cfg(test)]
mod tests;
