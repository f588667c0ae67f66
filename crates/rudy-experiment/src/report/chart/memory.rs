//! Memory by number of connections: how much each stream of a flood adds to a variant.

use rudy_charts::{Axis, Panel, Plot, Point, Series, style};
use rudy_units::{Unit, float};

use super::Chart;
use super::data::{Rounds, dagger_note, drawable, failures, is_suspect, slug};
use crate::experiment::Experiment;
use crate::metric::Metric;
use crate::plan::{Kind, Workload};
use crate::record::Run;

/// The metric in the legend.
const METRIC: &str = "private_bytes_per_connection";

/// A number of connections, and bytes.
type Place = (f64, f64);

/// The chart of a workload with long-lived connections.
pub(super) fn charts(experiment: &Experiment, workload: &Workload) -> Vec<Chart> {
    let (Kind::Flood { ramp, time, .. } | Kind::Idle { ramp, time, .. }) = &workload.kind else {
        return Vec::new();
    };
    let end = (ramp.0 + time.0).as_secs_f64();
    let (mut series, mut is_marked) = (Vec::new(), false);
    for (index, variant) in experiment.plan().variants.iter().enumerate() {
        let name = &variant.name;
        let runs = experiment.measured(name, &workload.name).map(|run| (run, places(run, end)));
        let mut rounds: Vec<_> = runs.filter(|(_, places)| places.len() > 1).collect();
        rounds.sort_by(|(_, a), (_, b)| last(a).total_cmp(&last(b)));
        let Some(middle) = rounds.len().checked_sub(1).map(|last| rounds.remove(last / 2)) else { continue };
        let each = Rounds::of(experiment, name, &workload.name, &Metric::named(METRIC), false).median();
        is_marked |= each.is_some_and(|each| each.is_suspect);
        let each = each.map(|bytes| format!(", {} each", bytes.text(Unit::Bytes))).unwrap_or_default();
        series.push(Series {
            faint: rounds.into_iter().map(|(_, places)| places).collect(),
            ..Series::new(format!("{name}{each}"), style(index), points(middle.0, &middle.1))
        });
    }
    let title = format!("{}: memory over connections", workload.name);
    let Some(plot) = plot(&title, series) else { return Vec::new() };
    let has_faint = plot.panels[0].series.iter().any(|one| !one.faint.is_empty());
    let faint = " The line is the round with the median at its end, the others are faint behind it.";
    vec![Chart {
        id: format!("memory-{}", slug(&workload.name)),
        title,
        caption: format!(
            "Private memory of all processes of a variant, second by second while connections opened.{}{}{}",
            if has_faint { faint } else { "" },
            dagger_note(is_marked),
            failures(experiment, &workload.name)
        ),
        svg: plot.svg(),
    }]
}

/// Until the end of the hold time: connections that close later still use memory.
fn places(run: &Run, end: f64) -> Vec<Place> {
    let samples = run.samples.iter().filter(|sample| sample.t_s <= end);
    let places = samples.map(|sample| (float(sample.connections), float(sample.private_bytes)));
    places.filter(|(_, bytes)| drawable(*bytes).is_some()).collect()
}

fn last(places: &[Place]) -> f64 {
    places.last().map_or(0.0, |(_, bytes)| *bytes)
}

fn points(run: &Run, places: &[Place]) -> Vec<Point> {
    let is_suspect = [METRIC, "private_bytes"].iter().any(|name| is_suspect(run, name));
    let warning = if is_suspect { ", suspect" } else { "" };
    let point = |(connections, bytes): &Place| Point {
        x: *connections,
        y: Some(*bytes),
        is_hollow: is_suspect,
        tip: format!("{}, {connections} connections: {}{warning}", run.variant, Unit::Bytes.text(*bytes)),
        ..Point::default()
    };
    places.iter().map(point).collect()
}

/// `None` without a connection.
fn plot(title: &str, series: Vec<Series>) -> Option<Plot> {
    let all = || series.iter().flat_map(|one| one.places().chain(one.faint.iter().flatten().copied()));
    let most = all().map(|(connections, _)| connections).fold(0.0, f64::max);
    let bytes = all().map(|(_, bytes)| bytes).fold(0.0, f64::max);
    if most <= 0.0 {
        return None;
    }
    let x = Axis::linear("connections", Unit::Count, most);
    // From zero, so that constant memory per connection is a straight line.
    let y = Axis::linear("private memory", Unit::Bytes, bytes);
    Some(Plot::new(title, vec![Panel::of_series(230.0, x, y, series)]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Warning;
    use crate::report::fixtures;
    use crate::report::fixtures::sample;

    const PLAN: &str = "rounds = 3\n[[variant]]\nname = \"a\"\ncommand = [\"a\"]\n\
        [[workload]]\nname = \"l\"\nkind = \"flood\"\nconnections = 100\nramp = \"2s\"\ntime = \"2s\"\n";

    fn grown() -> Experiment {
        let mut experiment = fixtures::experiment(PLAN, |id| {
            (id.round != 1).then(|| vec![("private_bytes_per_connection", 1024.0)])
        });
        for run in experiment.runs.iter_mut().filter(|run| run.round != 1) {
            for (t_s, connections) in [(0.0, 0), (1.0, 50), (2.0, 100), (3.0, 100), (4.5, 0)] {
                let mut sample = sample(t_s, &[]);
                (sample.connections, sample.private_bytes) =
                    (connections, 1000 + connections * (run.round as u64 + 1));
                run.samples.push(sample);
            }
        }
        experiment
    }

    #[test]
    fn a_round_is_drawn_until_its_flood_ends() {
        let experiment = grown();
        let run = experiment.runs.iter().find(|run| run.round == 2).unwrap();
        assert_eq!(places(run, 4.0), [(0.0, 1000.0), (50.0, 1150.0), (100.0, 1300.0), (100.0, 1300.0)]);
    }

    #[test]
    fn a_tip_has_the_memory_per_connection_and_equal_points_share_one() {
        let experiment = grown();
        let charts = charts(&experiment, &experiment.plan().workloads[0]);
        assert!(charts[0].svg.contains(">a, 1.00 KiB each</text>"), "{}", charts[0].svg);
        assert_eq!(charts[0].svg.matches("class=\"hit\"").count(), 3);
        assert!(charts[0].caption.ends_with(" Failed: a in 1 of 3 rounds."), "{}", charts[0].caption);
    }

    #[test]
    fn suspect_points_are_hollow_and_explained() {
        let mut experiment = grown();
        let concerns = vec![METRIC.to_owned()];
        experiment.runs[0].warnings = vec![Warning { sentence: "errors".to_owned(), concerns }];
        let chart = charts(&experiment, &experiment.plan().workloads[0]).remove(0);
        assert!(chart.svg.contains(">a, 1.00 KiB† each</text>"), "{}", chart.svg);
        assert!(chart.svg.contains("data-tip=\"a, 50 connections: 1.03 KiB, suspect\""), "{}", chart.svg);
        assert!(chart.svg.contains("class=\"s0 hollow\""));
        assert!(chart.caption.contains("† includes suspect rounds."), "{}", chart.caption);
    }
}
