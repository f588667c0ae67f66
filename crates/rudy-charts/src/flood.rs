//! Many connections over time: connections, CPU by thread and memory of the server.

use std::collections::BTreeMap;

use rudy_units::{Unit, digits};

use crate::frame::Axis;
use crate::legend::{Entry, Key};
use crate::plot::{At, Column, Line, Panel, Plot, Rule};
use crate::scale::VALUE_MAX;
use crate::stack::{Stack, thinned};

/// Samples of a flood of connections and of its server.
#[derive(Debug, Clone, PartialEq)]
pub struct Flood {
    /// The title.
    pub title: String,
    /// The planned maximum number of connections.
    pub connections: f64,
    /// In ascending order of time.
    pub samples: Vec<FloodSample>,
}

/// A sample.
#[derive(Debug, Clone, PartialEq)]
pub struct FloodSample {
    /// Since the first connection.
    pub t_s: f64,
    /// The number of connections planned until then.
    pub planned: f64,
    /// The number of open connections.
    pub open: f64,
    /// Private memory of the server.
    pub private_bytes: Option<f64>,
    /// CPU seconds that each thread of the server has used so far.
    pub cpu_s: BTreeMap<String, f64>,
}

/// The room above the line of all connections, for their number.
const ABOVE: f64 = 1.12;

const HEIGHT: f64 = 240.0;

/// The lines and their names.
const MEMORY: &str = "line thick s1";
const OPEN: &str = "line thin";
const PLANNED: &str = "line thin dash";

impl Flood {
    /// A plot with logarithmic time, because what matters happens early. `None` with too few samples.
    #[must_use]
    pub fn plot(&self) -> Option<Plot> {
        let flood = Self { connections: finite(self.connections), ..self.clone() };
        let samples: Vec<FloodSample> = self.samples.iter().filter_map(FloodSample::finite).collect();
        flood.plot_of(&samples)
    }

    fn plot_of(&self, samples: &[FloodSample]) -> Option<Plot> {
        let (first, last) = (samples.get(1)?.t_s, samples.last()?.t_s);
        // Times before the first one that is shown are at the start of the axis.
        let share = |sample: &&FloodSample| match sample.t_s {
            t_s if t_s < first => -1.0,
            t_s => (t_s / first).ln() / (last / first).ln(),
        };
        let kept = thinned(samples, share);
        // At time zero nothing has happened, and it has no logarithm.
        let shown: Vec<&FloodSample> = kept.iter().copied().filter(|sample| sample.t_s >= first).collect();
        if shown.len() < 2 {
            return None;
        }
        // A sample of the first second is slightly later than its tick.
        let start = if first >= 1.0 { first.floor() } else { first };
        let x = Axis::log_between("time (logarithmic)", Unit::Time, start, last.max(start * 2.0));
        let cpu: Vec<_> = kept.iter().map(|sample| (sample.t_s, sample.cpu_s.clone())).collect();
        let stack = Stack::of_cpu(&cpu);
        let total = stack.as_ref().map(Stack::total).unwrap_or_default();
        // Most of it stays below the line of all connections.
        let y = Axis::linear("CPU", Unit::Cores, total.iter().copied().fold(0.0, f64::max) * ABOVE);
        let (memory, right) = memory(&shown);
        let panel = Panel {
            right,
            lines: self.connections(&shown).into_iter().chain(memory).collect(),
            rules: vec![self.all()],
            columns: shown.iter().map(|sample| column(sample, stack.as_ref())).collect(),
            stack,
            ..Panel::new(HEIGHT, x, y)
        };
        Some(Plot { title: self.title.clone(), legend: legend(&panel), panels: vec![panel] })
    }

    /// Connections have a scale of their own, without labels: the number at the line of all is enough.
    fn axis(&self) -> Axis {
        Axis::exact(self.connections * ABOVE)
    }

    fn connections(&self, shown: &[&FloodSample]) -> [Line; 2] {
        [(PLANNED, (|sample| sample.planned) as fn(&FloodSample) -> f64), (OPEN, |sample| sample.open)].map(
            |(class, of)| Line {
                class: class.to_owned(),
                axis: Some(self.axis()),
                points: shown.iter().map(|sample| (sample.t_s, of(sample))).collect(),
            },
        )
    }

    fn all(&self) -> Rule {
        Rule {
            at: At::Y(self.connections, Some(self.axis())),
            class: "grid".to_owned(),
            label: format!("{} connections", digits(self.connections)),
        }
    }
}

impl FloodSample {
    /// Without numbers that are none or beyond any axis; `None` without a time.
    fn finite(&self) -> Option<Self> {
        (0.0..=VALUE_MAX).contains(&self.t_s).then(|| Self {
            t_s: self.t_s,
            planned: finite(self.planned),
            open: finite(self.open),
            private_bytes: self.private_bytes.map(finite),
            cpu_s: self.cpu_s.iter().map(|(name, seconds)| (name.clone(), finite(*seconds))).collect(),
        })
    }
}

/// The line of memory, and its axis.
fn memory(shown: &[&FloodSample]) -> (Option<Line>, Option<(Axis, &'static str)>) {
    let place = |sample: &&FloodSample| Some((sample.t_s, sample.private_bytes?));
    let points: Vec<_> = shown.iter().filter_map(place).collect();
    if points.is_empty() {
        return (None, None);
    }
    let axis =
        Axis::linear("memory", Unit::Bytes, points.iter().map(|(_, bytes)| *bytes).fold(1.0, f64::max));
    (Some(Line { class: MEMORY.to_owned(), axis: Some(axis.clone()), points }), Some((axis, "s1")))
}

fn finite(value: f64) -> f64 {
    if value.is_nan() { 0.0 } else { value.clamp(0.0, VALUE_MAX) }
}

fn legend(panel: &Panel) -> Vec<Entry> {
    let mut entries = panel.stack.as_ref().map(Stack::legend).unwrap_or_default();
    let has_memory = panel.right.is_some();
    let lines = [(MEMORY, "private memory"), (OPEN, "open connections"), (PLANNED, "planned")];
    let lines = lines.into_iter().filter(|(class, _)| has_memory || *class != MEMORY);
    entries.extend(lines.map(|(class, name)| Entry { key: Key::Line(class), name: name.to_owned() }));
    entries
}

fn column(sample: &FloodSample, stack: Option<&Stack>) -> Column {
    let mut tip = format!("{}: {} connections", Unit::Time.tick(sample.t_s.round()), digits(sample.open));
    let interval =
        stack.and_then(|stack| Some((stack, stack.ends.iter().position(|end| *end >= sample.t_s)?)));
    if let Some((stack, interval)) = interval {
        tip.push_str(", ");
        tip.push_str(&stack.text(interval));
    }
    if let Some(bytes) = sample.private_bytes {
        tip.push_str(", ");
        tip.push_str(&Unit::Bytes.text(bytes));
    }
    Column { end: sample.t_s, tip }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flood(samples: u32) -> Flood {
        let sample = |second: u32| FloodSample {
            t_s: f64::from(second),
            planned: f64::from(second * 20).min(100.0),
            open: f64::from(second * 20).min(100.0),
            private_bytes: Some(f64::from(4 << 20)),
            cpu_s: [("core-0", 0.5), ("core-1", 0.1)]
                .map(|(name, cores)| (name.to_owned(), cores * f64::from(second)))
                .into(),
        };
        Flood { title: "f".to_owned(), connections: 100.0, samples: (0..samples).map(sample).collect() }
    }

    #[test]
    fn a_flood_has_connections_threads_and_memory() {
        let svg = flood(20).plot().unwrap().svg();
        assert_eq!(svg.matches("<polygon").count(), 2, "a layer for each thread");
        for class in [MEMORY, OPEN, PLANNED] {
            assert!(svg.contains(&format!("<polyline class=\"{class}\"")), "{svg}");
        }
        assert!(svg.contains(">100 connections</text>") && svg.contains(">core-0</text>"));
        let tip = "3 s: 60 connections, CPU 60 % of a core (core-0 50 %, core-1 10 %), 4.00 MiB";
        assert!(svg.contains(&format!("data-tip=\"{tip}\"")), "{svg}");
        assert!(flood(1).plot().is_none());
    }

    #[test]
    fn without_a_server_there_are_only_connections() {
        let mut flood = flood(20);
        for sample in &mut flood.samples {
            sample.private_bytes = None;
            sample.cpu_s.clear();
        }
        let svg = flood.plot().unwrap().svg();
        assert!(!svg.contains("memory") && !svg.contains("<polygon"), "{svg}");
        assert!(svg.contains("data-tip=\"3 s: 60 connections\""), "{svg}");
    }
}
