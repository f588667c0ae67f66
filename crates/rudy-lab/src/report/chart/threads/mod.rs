//! CPU by thread over time: for a flood together with connections and memory, for other workloads alone.

mod flood;
mod layers;
mod panels;

use super::Chart;
use super::frame::{Axis, Frame};
use super::legend::{Entry, Key};
use super::sheet::Sheet;
use super::unit::Unit;
use crate::experiment::Experiment;
use crate::plan::{Kind, Workload};

use self::layers::{Layer, Layers};

/// A chart for each variant of a flood, and one chart with all variants for another workload.
pub(super) fn charts(experiment: &Experiment, workload: &Workload) -> Vec<Chart> {
    match &workload.kind {
        Kind::Flood { connections, ramp, time } | Kind::Idle { connections, ramp, time } => {
            let plan = flood::Plan::new(*connections, ramp.0, time.0);
            let variants = experiment.plan().variants.iter();
            let chart = |variant: &crate::plan::Variant| {
                let run = experiment.measured(&variant.name, &workload.name).next()?;
                flood::chart(&plan, &workload.name, &variant.name, run)
            };
            variants.filter_map(chart).collect()
        }
        // The CPU usage of the start cannot be separated from that of the work.
        Kind::Run { .. } => Vec::new(),
        _ => panels::chart(experiment, &workload.name).into_iter().collect(),
    }
}

/// The colours of layers, the busiest first. All differ from that of the memory line.
pub(super) const COLOURS: [&str; layers::NAMED_MAX + 1] = ["s5", "s4", "s2", "s7", "s3", "s0"];

fn colour(layer: &Layer, index: usize) -> &'static str {
    if layer.is_rest { "rest" } else { COLOURS[index % COLOURS.len()] }
}

/// The class of a name on the area of this layer.
pub(super) fn ink(colour: &str) -> &'static str {
    if colour == "s0" { "on-dark" } else { "on" }
}

/// Each layer with its name.
fn keys(layers: &Layers) -> Vec<Entry> {
    let entry = |(index, layer): (usize, &Layer)| Entry {
        key: Key::Area(colour(layer, index)),
        name: layer.name.clone(),
    };
    layers.threads.iter().enumerate().map(entry).collect()
}

/// Draws the stacked layers, and returns the upper edge of each.
fn stack(sheet: &mut Sheet, frame: &Frame, (x, y): (&Axis, &Axis), layers: &Layers) -> Vec<Vec<(f64, f64)>> {
    // The usage of the first second is drawn from its start.
    let times = [layers.start_s].into_iter().chain(layers.ends_s.iter().copied());
    let shares: Vec<f64> = times.map(|time| x.share(time)).collect();
    let edge = |heights: &[f64]| -> Vec<(f64, f64)> {
        let heights = heights.iter().take(1).chain(heights);
        shares.iter().zip(heights).map(|(share, cores)| frame.at(*share, y.share(*cores))).collect()
    };
    let mut below = vec![0.0; layers.ends_s.len()];
    let mut edges = vec![edge(&below)];
    for (index, layer) in layers.threads.iter().enumerate() {
        let above: Vec<f64> = below.iter().zip(&layer.cores).map(|(below, cores)| below + cores).collect();
        let top = edge(&above);
        let bottom = edges[index].iter().rev();
        let around: Vec<_> = top.iter().chain(bottom).copied().collect();
        sheet.area(&format!("{} area", colour(layer, index)), &around, "");
        edges.push(top);
        below = above;
    }
    edges
}

/// The tip of a second: the total, and each thread.
fn words(layers: &Layers, second: usize, total: f64) -> String {
    let each = layers.threads.iter().filter(|layer| layer.cores[second] > 0.0);
    let each: Vec<_> =
        each.map(|layer| format!("{} {}", layer.name, Unit::Share.text(layer.cores[second]))).collect();
    format!("CPU {} of a core ({})", Unit::Share.text(total), each.join(", "))
}

#[cfg(test)]
pub(in crate::report::chart) mod made {
    use crate::record::Sample;

    pub(in crate::report::chart) fn sample(t_s: f64, threads: &[(&str, f64)]) -> Sample {
        Sample {
            t_s,
            threads: threads.iter().map(|(name, seconds)| ((*name).to_owned(), [*seconds, 0.0])).collect(),
            private_bytes: 4 << 20,
            shared_bytes: 0,
            descriptors: 10,
            connections: 100,
            voluntary_switches: 0,
            involuntary_switches: 0,
        }
    }
}
