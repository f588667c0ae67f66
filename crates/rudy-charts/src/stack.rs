//! Areas on top of each other, such as CPU by thread.

use std::collections::BTreeMap;

use rudy_units::Unit;

use crate::frame::{Axis, Frame};
use crate::legend::{Entry, Key};
use crate::scale::VALUE_MAX;
use crate::sheet::Sheet;

/// Areas on top of each other, over intervals of x.
#[derive(Debug, Clone, PartialEq)]
pub struct Stack {
    /// The start of the first interval.
    pub start: f64,
    /// The end of each interval.
    pub ends: Vec<f64>,
    /// From the bottom, with a height for each interval.
    pub layers: Vec<Layer>,
}

/// An area.
#[derive(Debug, Clone, PartialEq)]
pub struct Layer {
    /// The name in the legend.
    pub name: String,
    /// Its height in each interval.
    pub heights: Vec<f64>,
    /// Whether it combines all that have no layer of their own.
    pub is_rest: bool,
}

/// Maximum number of named layers, the highest ones; one more layer has all others.
const NAMED_MAX: usize = 5;

/// The colours of layers from the bottom. All differ from `s1`, the colour of a line above them.
const COLOURS: [&str; NAMED_MAX + 1] = ["s5", "s4", "s2", "s7", "s3", "s0"];

impl Stack {
    /// CPU by thread, in cores, from samples of the time and the CPU seconds used so far. The busiest threads have
    /// layers of their own. `None` without an interval, or without any activity.
    #[must_use]
    pub fn of_cpu(samples: &[(f64, BTreeMap<String, f64>)]) -> Option<Self> {
        let pairs: Vec<_> = samples.windows(2).filter(|pair| pair[1].0 > pair[0].0).collect();
        let mut cores: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        for (index, pair) in pairs.iter().enumerate() {
            let seconds = pair[1].0 - pair[0].0;
            for (name, after) in &pair[1].1 {
                let busy = (after - pair[0].1.get(name).copied().unwrap_or(0.0)) / seconds;
                let busy = if busy.is_finite() { busy.clamp(0.0, VALUE_MAX) } else { 0.0 };
                cores.entry(name).or_insert_with(|| vec![0.0; pairs.len()])[index] = busy;
            }
        }
        let layers = named(cores);
        let (start, ends) = (pairs.first()?[0].0, pairs.iter().map(|pair| pair[1].0).collect());
        (!layers.is_empty()).then_some(Self { start, ends, layers })
    }

    /// The height of all layers in each interval.
    #[must_use]
    pub fn total(&self) -> Vec<f64> {
        let mut total = vec![0.0; self.ends.len()];
        for layer in &self.layers {
            add(&mut total, &layer.heights);
        }
        total
    }

    /// Each layer with its name.
    #[must_use]
    pub fn legend(&self) -> Vec<Entry> {
        let layers = self.layers.iter().enumerate();
        layers
            .map(|(index, layer)| Entry { key: Key::Area(colour(layer, index)), name: layer.name.clone() })
            .collect()
    }

    /// The total of an interval, and each layer.
    #[must_use]
    pub fn text(&self, interval: usize) -> String {
        let share = |height: f64| Unit::Share.text(height);
        let height = |layer: &Layer| layer.heights.get(interval).copied().unwrap_or(0.0);
        let layers = self.layers.iter().filter(|layer| height(layer) > 0.0);
        let layers: Vec<_> = layers.map(|layer| format!("{} {}", layer.name, share(height(layer)))).collect();
        let total = self.layers.iter().map(height).sum();
        format!("CPU {} of a core ({})", share(total), layers.join(", "))
    }

    pub(crate) fn draw(&self, sheet: &mut Sheet, frame: &Frame, (x, y): (&Axis, &Axis)) {
        // The height of the first interval is drawn from its start.
        let shares: Vec<f64> = [self.start].iter().chain(&self.ends).map(|end| x.share(*end)).collect();
        let edge = |heights: &[f64]| -> Vec<(f64, f64)> {
            let heights = heights.iter().take(1).chain(heights);
            shares.iter().zip(heights).map(|(share, height)| frame.at(*share, y.share(*height))).collect()
        };
        let mut heights = vec![0.0; self.ends.len()];
        let mut below = edge(&heights);
        for (index, layer) in self.layers.iter().enumerate() {
            add(&mut heights, &layer.heights);
            let above = edge(&heights);
            let around: Vec<_> = above.iter().chain(below.iter().rev()).copied().collect();
            sheet.area(&format!("{} area", colour(layer, index)), &around, "");
            below = above;
        }
    }
}

fn colour(layer: &Layer, index: usize) -> &'static str {
    if layer.is_rest { "rest" } else { COLOURS[index % COLOURS.len()] }
}

fn add(sum: &mut [f64], more: &[f64]) {
    sum.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
}

fn named(cores: BTreeMap<&str, Vec<f64>>) -> Vec<Layer> {
    let sum = |heights: &[f64]| heights.iter().sum::<f64>();
    let mut busy: Vec<_> = cores.into_iter().filter(|(_, heights)| sum(heights) > 0.0).collect();
    busy.sort_by(|a, b| sum(&b.1).total_cmp(&sum(&a.1)));
    let rest = if busy.len() > NAMED_MAX + 1 { busy.split_off(NAMED_MAX) } else { Vec::new() };
    let layer = |(name, heights): (&str, _)| Layer { name: name.to_owned(), heights, is_rest: false };
    let mut layers: Vec<_> = busy.into_iter().map(layer).collect();
    if let Some((_, first)) = rest.first() {
        let mut heights = vec![0.0; first.len()];
        for (_, more) in &rest {
            add(&mut heights, more);
        }
        layers.push(Layer { name: format!("{} others", rest.len()), heights, is_rest: true });
    }
    layers
}

/// The minimum distance of samples as a fraction of the axis: some three units of a chart.
const APART: f64 = 0.01;

/// The samples at sufficient distances to be visible; `share` is the position of a sample on the axis.
pub fn thinned<T>(samples: impl IntoIterator<Item = T>, share: impl Fn(&T) -> f64) -> Vec<T> {
    let mut kept: Vec<T> = Vec::new();
    for sample in samples {
        if kept.last().is_none_or(|last| share(&sample) - share(last) >= APART) {
            kept.push(sample);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(t_s: f64, threads: &[(&str, f64)]) -> (f64, BTreeMap<String, f64>) {
        (t_s, threads.iter().map(|(name, seconds)| ((*name).to_owned(), *seconds)).collect())
    }

    #[test]
    fn an_interval_has_its_increase() {
        let samples = [sample(0.0, &[]), sample(2.0, &[("a", 1.0)]), sample(3.0, &[("a", 1.5), ("b", 0.25)])];
        let stack = Stack::of_cpu(&samples).unwrap();
        assert_eq!(stack.ends, [2.0, 3.0]);
        let found: Vec<_> =
            stack.layers.iter().map(|layer| (layer.name.as_str(), layer.heights.clone())).collect();
        assert_eq!(found, [("a", vec![0.5, 0.5]), ("b", vec![0.0, 0.25])]);
        assert_eq!(stack.total(), [0.5, 0.75]);
    }

    #[test]
    fn threads_beyond_five_are_combined() {
        let threads = [("a", 7.0), ("b", 6.0), ("c", 5.0), ("d", 4.0), ("e", 3.0), ("f", 2.0), ("g", 1.0)];
        let of = |number: usize| {
            let layers = Stack::of_cpu(&[sample(0.0, &[]), sample(1.0, &threads[..number])]).unwrap().layers;
            (layers.len(), layers.last().map(|layer| (layer.name.clone(), layer.heights.clone())))
        };
        assert_eq!(of(6), (6, Some(("f".to_owned(), vec![2.0]))));
        assert_eq!(of(7), (6, Some(("2 others".to_owned(), vec![3.0]))));
    }

    #[test]
    fn without_an_interval_or_activity_there_is_no_stack() {
        for samples in [vec![], vec![sample(0.0, &[])], vec![sample(0.0, &[]), sample(1.0, &[("a", 0.0)])]] {
            assert_eq!(Stack::of_cpu(&samples), None);
        }
    }
}
