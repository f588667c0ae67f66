//! CPU usage by thread and second.

use std::collections::BTreeMap;

use crate::record::Sample;
use crate::report::chart::data::drawable;

/// Maximum number of named layers, the busiest threads; one more layer has all others.
pub(super) const NAMED_MAX: usize = 5;

/// The minimum distance of samples, as a fraction of the axis: three units of a chart.
const APART: f64 = 0.0075;

/// CPU usage by thread, between samples.
#[derive(Debug, PartialEq)]
pub(super) struct Layers {
    /// The start of the first second.
    pub(super) start_s: f64,
    /// The end of each second.
    pub(super) ends_s: Vec<f64>,
    /// From the busiest to that of the others.
    pub(super) threads: Vec<Layer>,
}

/// A thread, threads with the same name, or all others.
#[derive(Debug, PartialEq)]
pub(super) struct Layer {
    pub(super) name: String,
    /// Busy cores in each second.
    pub(super) cores: Vec<f64>,
    /// Whether it combines the threads without their own layer.
    pub(super) is_rest: bool,
}

impl Layers {
    /// `None` without a full second, or without any activity.
    pub(super) fn new(samples: &[&Sample]) -> Option<Self> {
        let pairs: Vec<_> = samples.windows(2).filter(|pair| pair[1].t_s > pair[0].t_s).collect();
        let mut burnt: BTreeMap<String, Vec<f64>> = BTreeMap::new();
        for (index, pair) in pairs.iter().enumerate() {
            let seconds = pair[1].t_s - pair[0].t_s;
            for (name, after) in &pair[1].threads {
                let before = pair[0].threads.get(name).copied().unwrap_or_default();
                let cores = (after[0] - before[0] + after[1] - before[1]) / seconds;
                burnt.entry(name.clone()).or_insert_with(|| vec![0.0; pairs.len()])[index] +=
                    drawable(cores).unwrap_or(0.0);
            }
        }
        let layers = named(burnt);
        let start_s = pairs.first()?[0].t_s;
        let ends_s = pairs.iter().map(|pair| pair[1].t_s).collect();
        (!layers.is_empty()).then_some(Self { start_s, ends_s, threads: layers })
    }

    /// The total of each second.
    pub(super) fn total(&self) -> Vec<f64> {
        let mut total = vec![0.0; self.ends_s.len()];
        for layer in &self.threads {
            total.iter_mut().zip(&layer.cores).for_each(|(sum, cores)| *sum += cores);
        }
        total
    }
}

/// The samples at sufficient distances to be visible; `share` is the position of a time on the axis. Samples
/// are cumulative, so the next one includes a skipped one.
pub(super) fn thinned<'a>(samples: &[&'a Sample], share: impl Fn(f64) -> f64) -> Vec<&'a Sample> {
    let mut kept: Vec<&Sample> = Vec::new();
    for sample in samples {
        if kept.last().is_none_or(|last| share(sample.t_s) - share(last.t_s) >= APART) {
            kept.push(sample);
        }
    }
    kept
}

fn named(burnt: BTreeMap<String, Vec<f64>>) -> Vec<Layer> {
    let sum = |cores: &[f64]| cores.iter().sum::<f64>();
    let mut busy: Vec<_> = burnt.into_iter().filter(|(_, cores)| sum(cores) > 0.0).collect();
    busy.sort_by(|a, b| sum(&b.1).total_cmp(&sum(&a.1)));
    let rest = if busy.len() > NAMED_MAX + 1 { busy.split_off(NAMED_MAX) } else { Vec::new() };
    let mut layers: Vec<_> =
        busy.into_iter().map(|(name, cores)| Layer { name, cores, is_rest: false }).collect();
    if let Some((_, first)) = rest.first() {
        let mut cores = vec![0.0; first.len()];
        for (_, more) in &rest {
            cores.iter_mut().zip(more).for_each(|(sum, cores)| *sum += cores);
        }
        layers.push(Layer { name: format!("{} others", rest.len()), cores, is_rest: true });
    }
    layers
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::chart::threads::made::sample;

    #[test]
    fn a_second_is_what_was_added_in_it() {
        let samples = [sample(0.0, &[]), sample(2.0, &[("a", 1.0)]), sample(3.0, &[("a", 1.5), ("b", 0.25)])];
        let layers = Layers::new(&samples.iter().collect::<Vec<_>>()).unwrap();
        assert_eq!(layers.ends_s, [2.0, 3.0]);
        let found: Vec<_> =
            layers.threads.iter().map(|layer| (layer.name.as_str(), layer.cores.clone())).collect();
        assert_eq!(found, [("a", vec![0.5, 0.5]), ("b", vec![0.0, 0.25])]);
        assert_eq!(layers.total(), [0.5, 0.75]);
    }

    #[test]
    fn beyond_five_threads_the_others_are_together() {
        let threads = [("a", 7.0), ("b", 6.0), ("c", 5.0), ("d", 4.0), ("e", 3.0), ("f", 2.0), ("g", 1.0)];
        let of = |number: usize| {
            let samples = [sample(0.0, &[]), sample(1.0, &threads[..number])];
            let layers = Layers::new(&samples.iter().collect::<Vec<_>>()).unwrap().threads;
            (layers.len(), layers.last().map(|layer| (layer.name.clone(), layer.cores.clone())))
        };
        assert_eq!(of(6), (6, Some(("f".to_owned(), vec![2.0]))));
        assert_eq!(of(7), (6, Some(("2 others".to_owned(), vec![3.0]))));
    }

    #[test]
    fn without_a_second_or_work_there_are_no_layers() {
        for samples in [vec![], vec![sample(0.0, &[])], vec![sample(0.0, &[]), sample(1.0, &[("a", 0.0)])]] {
            assert_eq!(Layers::new(&samples.iter().collect::<Vec<_>>()), None);
        }
    }
}
