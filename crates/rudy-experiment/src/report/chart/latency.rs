//! Latency by percentile: the distribution of each variant under a workload, as far as its requests reach.

use std::collections::BTreeMap;

use rudy_charts::{Axis, Line, Panel, Plot, Point, Series, style};
use rudy_units::{Unit, digits};

use super::Chart;
use super::data::{drawable, failures, is_suspect, median, slug};
use crate::experiment::Experiment;
use crate::plan::Workload;

/// A quantile and its latency in seconds.
type Place = (f64, f64);

/// The chart of a workload with latencies.
pub(super) fn charts(experiment: &Experiment, workload: &Workload) -> Vec<Chart> {
    let workload = &workload.name;
    let (mut series, mut lines, mut rounds_max) = (Vec::new(), Vec::new(), 0);
    for (index, variant) in experiment.plan().variants.iter().enumerate() {
        let (rounds, is_suspect) = rounds(experiment, &variant.name, workload);
        let medians = medians(&rounds);
        if medians.is_empty() {
            continue;
        }
        rounds_max = rounds_max.max(rounds.len());
        let (line, end): (Vec<Place>, Vec<Place>) = medians.iter().partition(|(quantile, _)| *quantile < 1.0);
        // To the maximum there is nothing in between.
        let gap: Vec<Place> = line.last().into_iter().chain(&end).copied().collect();
        lines.push(Line { class: format!("line thin dots {}", style(index).class), axis: None, points: gap });
        let faint = rounds.iter().filter(|_| rounds.len() > 1);
        let below_max =
            |round: &Vec<Place>| round.iter().copied().filter(|(quantile, _)| *quantile < 1.0).collect();
        series.push(Series {
            faint: faint.map(below_max).collect(),
            ..Series::new(&variant.name, style(index), points(&variant.name, &medians, is_suspect))
        });
    }
    let Some(panel) = panel(series, lines) else { return Vec::new() };
    let title = format!("{workload}: latency by percentile");
    let behind =
        if rounds_max > 1 { ", the median of its rounds; each round is faint behind it" } else { "" };
    let is_suspect = panel.series.iter().flat_map(|one| &one.points).any(|point| point.is_hollow);
    let hollow = if is_suspect { " Hollow points include suspect rounds." } else { "" };
    vec![Chart {
        id: format!("latency-{}", slug(workload)),
        caption: format!(
            "A line for each variant{behind}. Each further nine on the axis covers a tenth of the requests before it.{hollow}{}",
            failures(experiment, workload)
        ),
        svg: Plot::new(&title, vec![panel]).svg(),
        title,
    }]
}

/// The distribution of each round, and whether one of them is suspect.
fn rounds(experiment: &Experiment, variant: &str, workload: &str) -> (Vec<Vec<Place>>, bool) {
    let (mut rounds, mut is_any_suspect) = (Vec::new(), false);
    for run in experiment.measured(variant, workload) {
        let place = |[quantile, ns]: &[f64; 2]| {
            let is_quantile = (0.0..=1.0).contains(quantile);
            Some((*quantile, drawable(ns * 1e-9)?)).filter(|_| is_quantile)
        };
        let places: Vec<Place> = run.latency.iter().flatten().filter_map(place).collect();
        if !places.is_empty() {
            rounds.push(places);
            is_any_suspect |= is_suspect(run, "p99_ns");
        }
    }
    (rounds, is_any_suspect)
}

/// Takes medians by quantile. Omits a quantile that some rounds lack: its median would come from other rounds
/// than its neighbours', and the line could fall.
fn medians(rounds: &[Vec<Place>]) -> Vec<Place> {
    let mut by_quantile: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
    for (quantile, seconds) in rounds.iter().flatten() {
        // The bits of numbers that are not negative are in the order of the numbers. Minus zero is among them.
        by_quantile.entry(quantile.abs().to_bits()).or_default().push(*seconds);
    }
    let common = by_quantile.into_iter().filter(|(_, values)| values.len() >= rounds.len());
    common.filter_map(|(bits, values)| Some((f64::from_bits(bits), median(&values)?))).collect()
}

/// The points of a line; the maximum is apart from the others.
fn points(variant: &str, medians: &[Place], is_suspect: bool) -> Vec<Point> {
    let (mut points, last) = (Vec::new(), medians.last());
    for place @ (quantile, seconds) in medians {
        let name = if *quantile < 1.0 { format!("p{}", digits(quantile * 100.0)) } else { "max".to_owned() };
        let warning = if is_suspect { ", suspect" } else { "" };
        let tip = format!("{variant}, {name}: {}{warning}", Unit::Time.text(*seconds));
        if *quantile >= 1.0 {
            points.push(Point { x: 1.0, ..Point::default() });
        }
        points.push(Point {
            x: *quantile,
            y: Some(*seconds),
            is_hollow: is_suspect,
            // The last one always: rounds may have none of the others in common.
            tip: if is_marked(*quantile) || Some(place) == last { tip } else { String::new() },
            ..Point::default()
        });
    }
    points
}

/// Whether a quantile has a mark: the median, the nines and the maximum.
fn is_marked(quantile: f64) -> bool {
    let nines = -(1.0 - quantile).log10();
    quantile >= 1.0 || (quantile - 0.5).abs() < 2e-3 || (nines > 0.5 && (nines - nines.round()).abs() < 1e-6)
}

/// `None` without a latency.
fn panel(series: Vec<Series>, lines: Vec<Line>) -> Option<Panel> {
    let places = || series.iter().flat_map(|one| one.places().chain(one.faint.iter().flatten().copied()));
    places().next()?;
    let quantiles = places().map(|(quantile, _)| quantile).filter(|quantile| *quantile < 1.0);
    let nines = (-(1.0 - quantiles.fold(0.0, f64::max)).log10()).clamp(1.0, 9.0);
    let x = Axis::nines("share of requests that were not slower", nines);
    let y = Axis::log("latency", Unit::Time, places().map(|(_, seconds)| seconds));
    Some(Panel { lines, ..Panel::of_series(230.0, x, y, series) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Warning;
    use crate::report::fixtures;

    const PLAN: &str = "rounds = 3\n\
        [[variant]]\nname = \"a\"\ncommand = [\"a\"]\n[[variant]]\nname = \"b\"\ncommand = [\"b\"]\n\
        [[workload]]\nname = \"l\"\nkind = \"bench\"\n";

    #[test]
    fn the_median_covers_the_range_of_all_rounds() {
        let rounds = [
            vec![(0.5, 1.0), (0.9, 2.0), (1.0, 9.0)],
            vec![(0.5, 3.0), (0.9, 4.0), (0.99, 5.0), (1.0, 6.0)],
            vec![(0.5, 2.0), (0.9, 8.0), (1.0, 8.0)],
        ];
        assert_eq!(medians(&rounds), [(0.5, 2.0), (0.9, 4.0), (1.0, 8.0)]);
        assert_eq!(medians(&[]), []);
    }

    #[test]
    fn a_workload_has_a_line_for_each_variant_with_latencies() {
        let mut experiment = fixtures::experiment(PLAN, |_| Some(Vec::new()));
        assert!(charts(&experiment, &experiment.plan().workloads[0]).is_empty());
        for run in experiment.runs.iter_mut().filter(|run| run.variant == "b") {
            run.latency = Some(vec![[0.0, 1e6], [0.5, 2e6], [0.9, 3e6], [0.99, f64::NAN], [1.0, 7e6]]);
        }
        let charts = charts(&experiment, &experiment.plan().workloads[0]);
        assert_eq!(charts.len(), 1);
        assert_eq!(charts[0].id, "latency-l");
        assert!(
            charts[0].svg.contains("data-tip=\"b, p90: 3.00 ms\"") && !charts[0].svg.contains(">a</text>")
        );
        assert!(
            charts[0].svg.contains("class=\"line s1\""),
            "the second variant of the plan has the second colour"
        );
    }

    #[test]
    fn a_curve_of_suspect_rounds_is_marked() {
        let mut experiment = fixtures::experiment(PLAN, |id| (id.variant == "a").then(Vec::new));
        for run in experiment.runs.iter_mut().filter(|run| run.variant == "a") {
            run.latency = Some(vec![[0.5, 2e6], [0.9, 3e6]]);
        }
        let concerns = vec!["p99_ns".to_owned()];
        experiment.runs[0].warnings = vec![Warning { sentence: "errors".to_owned(), concerns }];
        let chart = charts(&experiment, &experiment.plan().workloads[0]).remove(0);
        assert!(chart.caption.contains(" Hollow points include suspect rounds."), "{}", chart.caption);
        assert!(chart.svg.contains("data-tip=\"a, p90: 3.00 ms, suspect\""), "{}", chart.svg);
        assert!(chart.caption.ends_with(" Failed: b in 3 of 3 rounds."), "{}", chart.caption);
    }
}
