//! Metrics of variants that differ in a number: a line for each curve.

use rudy_charts::{Axis, Panel, Plot, Point, Series, style};
use rudy_units::{Unit, digits};

use super::Chart;
use super::data::{Rounds, slug};
use super::lines::point;
use crate::experiment::Experiment;
use crate::metric::Metric;
use crate::plan::{Curve, Kind, Variant, Workload};

/// The charts of a workload, if at least two variants of a curve run with it.
pub(super) fn charts(experiment: &Experiment, workload: &Workload) -> Vec<Chart> {
    let metrics = metrics(&workload.kind).iter().map(|name| Metric::named(name));
    metrics.filter_map(|metric| chart_of(experiment, workload, &metric)).collect()
}

fn chart_of(experiment: &Experiment, workload: &Workload, metric: &Metric) -> Option<Chart> {
    let points = |variant: &Variant, curve: &Curve| {
        let rounds = Rounds::of(experiment, &variant.name, &workload.name, metric, false);
        point(&rounds, f64::from(curve.at), metric.unit, &at(curve))
    };
    let mut curves: Vec<(&Curve, Vec<Point>)> = Vec::new();
    for variant in &experiment.plan().variants {
        let Some(curve) = &variant.curve else { continue };
        let Some(point) = points(variant, curve) else { continue };
        match curves.iter_mut().find(|(first, _)| first.name == curve.name) {
            Some((_, points)) => points.push(point),
            None => curves.push((curve, vec![point])),
        }
    }
    curves.retain(|(_, points)| points.len() > 1 && points.iter().any(|point| point.y.is_some()));
    (!curves.is_empty()).then(|| chart(&workload.name, metric, curves))
}

fn metrics(kind: &Kind) -> &'static [&'static str] {
    match kind {
        // CPU time depends least on what else the machine does.
        Kind::Bench { rate: None, .. } => &["cpu_us_per_request", "requests_per_s"],
        Kind::Sequence { .. } | Kind::Burst { .. } | Kind::Run { n: None, .. } => &["time_s"],
        _ => &[],
    }
}

fn at(curve: &Curve) -> String {
    format!("{}, {} {}", curve.name, digits(f64::from(curve.at)), curve.of)
}

fn chart(workload: &str, metric: &Metric, curves: Vec<(&Curve, Vec<Point>)>) -> Chart {
    let of = curves[0].0.of.clone();
    let series = |(index, (curve, mut points)): (usize, (&Curve, Vec<Point>))| {
        points.sort_by(|a, b| a.x.total_cmp(&b.x));
        Series::new(&curve.name, style(index), points)
    };
    let numbers: Vec<f64> =
        curves.iter().flat_map(|(_, points)| points.iter().map(|point| point.x)).collect();
    let series: Vec<Series> = curves.into_iter().enumerate().map(series).collect();
    let x = Axis::fitting(&of, Unit::Count, numbers.into_iter());
    let y = Axis::fitting(&metric.title, metric.unit, series.iter().flat_map(Series::values));
    let title = format!("{workload}: {} over {of}", metric.title);
    Chart {
        id: format!("curve-{}-{}", slug(workload), slug(&metric.title)),
        caption:
            "The median of the rounds, and each round as a dot. A point is hollow where a round is suspect."
                .to_owned(),
        svg: Plot::new(&title, vec![Panel::of_series(240.0, x, y, series)]).svg(),
        title,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixtures;

    #[test]
    fn variants_of_a_curve_are_the_points_of_a_line() {
        let variant = |name: &str, curve: &str, at: u32| {
            format!(
                "[[variant]]\nname = \"{name}\"\ncommand = [\"a\"]\n\
                 curve = {{ name = \"{curve}\", at = {at}, of = \"bits\" }}\n"
            )
        };
        let plan = [
            "rounds = 1\n".to_owned(),
            variant("c", "long", 4096),
            variant("a", "long", 2048),
            variant("x", "one-point", 2048),
            "[[workload]]\nname = \"l\"\nkind = \"bench\"\n".to_owned(),
        ];
        let experiment = fixtures::experiment(&plan.concat(), |id| {
            Some(vec![("requests_per_s", if id.variant == "c" { 100.0 } else { 700.0 })])
        });
        let charts = charts(&experiment, &experiment.plan().workloads[0]);
        assert_eq!(charts.len(), 1);
        let svg = &charts[0].svg;
        let at = |text: &str| svg.find(text).unwrap_or_else(|| panic!("{text}: {svg}"));
        assert!(at("long, 2,048 bits: 700/s") < at("long, 4,096 bits: 100/s"), "in the order of the number");
        assert!(!svg.contains("one-point"), "a point is no line");
    }
}
