//! A workload over time: the rate and the p99 by second. Shows pauses and slowdowns, which medians hide.

use rudy_charts::{Axis, Panel, Plot, Point, Series, style};
use rudy_units::Unit;

use super::Chart;
use super::data::{drawable, failures, is_suspect, slug};
use crate::experiment::Experiment;
use crate::plan::{Kind, Workload};
use crate::record::{Interval, Run};

/// A value over time: its title, its unit, and how it is read.
type Quantity = (&'static str, Unit, fn(&Interval) -> Option<f64>);

const QUANTITIES: [Quantity; 2] = [
    ("responses", Unit::Rate, |interval| drawable(interval.requests_per_s)),
    ("latency, p99", Unit::Time, |interval| drawable(interval.p99_ns? * 1e-9)),
];

/// The metrics whose warnings affect the values over time.
const METRICS: [&str; 2] = ["requests_per_s", "p99_ns"];

/// Minimum number of seconds with a value for a chart.
const SECONDS_MIN: usize = 3;

/// The chart of a workload whose generator reports every second.
pub(super) fn charts(experiment: &Experiment, workload: &Workload) -> Vec<Chart> {
    let mut runs: Vec<(usize, &Run)> = Vec::new();
    for (index, variant) in experiment.plan().variants.iter().enumerate() {
        let Some(run) = experiment.measured(&variant.name, &workload.name).next() else { continue };
        let has_value = |interval: &&Interval| {
            drawable(interval.t_s).is_some() && QUANTITIES.iter().any(|(_, _, of)| of(interval).is_some())
        };
        let seconds = run.intervals.iter().filter(has_value);
        runs.extend((seconds.count() >= SECONDS_MIN).then_some((index, run)));
    }
    if runs.is_empty() || !matches!(workload.kind, Kind::Bench { .. }) {
        return Vec::new();
    }
    let panels = QUANTITIES.iter().map(|quantity| panel(&runs, quantity)).collect();
    let title = format!("{}: requests and latency by the second", workload.name);
    vec![Chart {
        id: format!("seconds-{}", slug(&workload.name)),
        caption: format!(
            "The first measured round of each variant, second by second.{}",
            failures(experiment, &workload.name)
        ),
        svg: Plot::new(&title, panels).svg(),
        title,
    }]
}

fn panel(runs: &[(usize, &Run)], (title, unit, of): &Quantity) -> Panel {
    let series = |(index, run): &(usize, &Run)| {
        let is_suspect = METRICS.iter().any(|metric| is_suspect(run, metric));
        let warning = if is_suspect { ", suspect" } else { "" };
        let point = |interval: &Interval| {
            let (x, y) = (drawable(interval.t_s)?, of(interval));
            let tip = |value| {
                format!("{}, {}: {}{warning}", run.variant, Unit::Time.tick(x.round()), unit.text(value))
            };
            Some(Point {
                x,
                y,
                is_hollow: is_suspect,
                tip: y.map(tip).unwrap_or_default(),
                ..Point::default()
            })
        };
        let points = run.intervals.iter().filter_map(point).collect();
        Series::new(format!("{}, round {}", run.variant, run.round + 1), style(*index), points)
    };
    let series: Vec<Series> = runs.iter().map(series).collect();
    let last = series.iter().flat_map(|one| &one.points).map(|point| point.x).fold(0.0, f64::max);
    let y = Axis::fitting(title, *unit, series.iter().flat_map(Series::values));
    Panel::of_series(110.0, Axis::linear("time", Unit::Time, last), y, series)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixtures;

    const PLAN: &str = "rounds = 2\n[[variant]]\nname = \"a\"\ncommand = [\"a\"]\n\
        [[workload]]\nname = \"l\"\nkind = \"bench\"\n";

    fn with_seconds(seconds: u32) -> Experiment {
        let mut experiment = fixtures::experiment(PLAN, |id| (id.round > 0).then(Vec::new));
        for run in &mut experiment.runs {
            let interval = |second| Interval {
                t_s: f64::from(second),
                requests_per_s: 1000.0 * f64::from(second),
                p50_ns: None,
                p99_ns: (second != 3).then_some(2e6),
            };
            run.intervals = (1..=seconds).map(interval).collect();
        }
        experiment
    }

    #[test]
    fn a_second_without_a_response_breaks_the_line() {
        let experiment = with_seconds(5);
        let chart = charts(&experiment, &experiment.plan().workloads[0]).remove(0);
        assert_eq!(
            chart.svg.matches("<polyline class=\"line s0\"").count(),
            1 + 1 + 2,
            "legend, rate, latency"
        );
        assert!(
            chart.svg.contains("data-tip=\"a, 4 s: 4,000/s\"")
                && chart.svg.contains("data-tip=\"a, 4 s: 2.00 ms\"")
        );
        assert!(chart.svg.contains(">a, round 2</text>"), "the first one failed: {}", chart.svg);
    }

    #[test]
    fn two_seconds_are_no_development() {
        for (seconds, number) in [(0, 0), (2, 0), (3, 1)] {
            let experiment = with_seconds(seconds);
            assert_eq!(charts(&experiment, &experiment.plan().workloads[0]).len(), number, "{seconds}");
        }
    }
}
