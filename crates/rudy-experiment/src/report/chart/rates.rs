//! Latency by rate: the steps of a search for the maximum rate, and workloads at several rates.

use rudy_charts::{At, Axis, Panel, Plot, Point, Rule, Series, style};
use rudy_units::{Time, Unit};

use super::Chart;
use super::data::{Rounds, dagger_note, drawable, failures, median, slug};
use super::lines::point;
use crate::experiment::Experiment;
use crate::metric::Metric;
use crate::plan::{Kind, Workload};
use crate::record::Run;

/// The chart of a search, or of workloads at several rates if this workload is the first of them.
pub(super) fn charts(experiment: &Experiment, workload: &Workload) -> Vec<Chart> {
    let chart = match &workload.kind {
        Kind::MaxRate { slo, .. } => search(experiment, workload, slo),
        Kind::Bench { .. } => sweep(experiment, workload),
        _ => None,
    };
    chart.into_iter().collect()
}

fn search(experiment: &Experiment, workload: &Workload, slo: &str) -> Option<Chart> {
    let metric = Metric::named("max_rate_per_s");
    let bound = p99_of(slo).map(|bound| rule(At::Y(bound, None), "", slo));
    let (mut series, mut rules) = (Vec::new(), Vec::from_iter(bound));
    let mut is_suspect = false;
    for (index, variant) in experiment.plan().variants.iter().enumerate() {
        let name = &variant.name;
        let Some(run) = middle(experiment.measured(name, &workload.name).collect()) else { continue };
        let maximum = Rounds::of(experiment, name, &workload.name, &metric, false).median();
        let remarks =
            maximum.map_or("no rate passed".to_owned(), |rate| format!("maximum {}", rate.text(Unit::Rate)));
        series.push(Series::new(format!("{name}, {remarks}"), style(index), steps(name, run)));
        rules.extend(maximum.map(|rate| rule(At::X(rate.value), &format!(" {}", style(index).class), "")));
        is_suspect |= maximum.is_some_and(|rate| rate.is_suspect);
    }
    let title = format!("{}: latency over rate, and the maximum rate", workload.name);
    Some(Chart {
        id: format!("rates-{}", slug(&workload.name)),
        caption: format!(
            "The round with the median maximum rate of each variant. Filled points met {slo}; hollow ones did not, \
             and those at the top had no response. The dashed line is the median of the maximum rates.{}{}",
            dagger_note(is_suspect),
            failures(experiment, &workload.name)
        ),
        svg: plot(&title, series, rules)?.svg(),
        title,
    })
}

fn rule(at: At, class: &str, label: &str) -> Rule {
    Rule { at, class: format!("line thin dash{class}"), label: label.to_owned() }
}

/// The round with the median result; a search without a result is below all others.
fn middle(mut runs: Vec<&Run>) -> Option<&Run> {
    let max_rate = |run: &Run| run.metrics.get("max_rate_per_s").copied().unwrap_or(0.0);
    runs.retain(|run| !run.steps.is_empty());
    runs.sort_by(|a, b| max_rate(a).total_cmp(&max_rate(b)));
    runs.get(runs.len().checked_sub(1)? / 2).copied()
}

/// The steps of a search by rate. A rate may occur more than once.
fn steps(variant: &str, run: &Run) -> Vec<Point> {
    let mut steps: Vec<_> = run.steps.iter().filter(|step| drawable(step.rate_per_s).is_some()).collect();
    steps.sort_by(|a, b| a.rate_per_s.total_cmp(&b.rate_per_s));
    let at_rate = steps.chunk_by(|a, b| a.rate_per_s >= b.rate_per_s);
    let point = |steps: &[&crate::record::Step]| {
        let each: Vec<f64> = steps.iter().filter_map(|step| drawable(step.p99_ns? * 1e-9)).collect();
        let (y, last) = (median(&each), steps.last()?);
        let value = y.map_or("no response".to_owned(), |y| format!("p99 {}", Unit::Time.text(y)));
        let remarks = if last.reason.is_empty() { String::new() } else { format!("; {}", last.reason) };
        Some(Point {
            x: last.rate_per_s,
            y,
            is_hollow: steps.iter().any(|step| !step.passed),
            tip: format!("{variant}, {}: {value}{remarks}", Unit::Rate.text(last.rate_per_s)),
            each: if each.len() > 1 { each } else { Vec::new() },
        })
    };
    at_rate.filter_map(point).collect()
}

/// The limit of the p99.
fn p99_of(slo: &str) -> Option<f64> {
    let bound = slo.split(',').find_map(|term| term.trim().strip_prefix("p99<"))?;
    let time: Time = bound.trim_start_matches('=').trim().parse().ok()?;
    drawable(time.0.as_secs_f64())
}

/// Workloads of one path that differ in their rate.
fn sweep(experiment: &Experiment, workload: &Workload) -> Option<Chart> {
    let rate = |other: &Workload| match other.kind {
        Kind::Bench { rate, .. } if (&other.path, &other.headers) == (&workload.path, &workload.headers) => {
            rate.and_then(drawable)
        }
        _ => None,
    };
    let workloads = experiment.plan().workloads.iter();
    let mut rates: Vec<(f64, &Workload)> =
        workloads.filter_map(|other| Some((rate(other)?, other))).collect();
    let is_first = rates.first().is_some_and(|(_, first)| first.name == workload.name);
    rates.sort_by(|a, b| a.0.total_cmp(&b.0));
    if !is_first || rates.len() < 2 {
        return None;
    }
    let metric = Metric::named("p99_ns");
    let series = experiment.plan().variants.iter().enumerate().map(|(index, variant)| {
        let at = |(rate, workload): &(f64, &Workload)| {
            let rounds = Rounds::of(experiment, &variant.name, &workload.name, &metric, false);
            point(&rounds, *rate, metric.unit, &format!("{}, {}", variant.name, Unit::Rate.text(*rate)))
        };
        Series::new(&variant.name, style(index), rates.iter().filter_map(at).collect())
    });
    let title = format!("{}: latency over rate", workload.path);
    Some(Chart {
        id: format!("rates-of-{}", slug(&workload.path)),
        caption: "The median of the rounds at each rate, and each round as a dot. A point is hollow where a round is \
                  suspect, and at the top where all rounds failed."
            .to_owned(),
        svg: plot(&title, series.collect(), Vec::new())?.svg(),
        title,
    })
}

/// `None` without a latency.
fn plot(title: &str, series: Vec<Series>, rules: Vec<Rule>) -> Option<Plot> {
    let latencies = || series.iter().flat_map(Series::values);
    latencies().next()?;
    let x_of = |rule: &Rule| if let At::X(value) = rule.at { Some(value) } else { None };
    let y_of = |rule: &Rule| if let At::Y(value, _) = rule.at { Some(value) } else { None };
    let rates = series.iter().flat_map(|one| &one.points).map(|point| point.x);
    let x = Axis::fitting("requests sent", Unit::Rate, rates.chain(rules.iter().filter_map(x_of)));
    let y = Axis::log("latency, p99", Unit::Time, latencies().chain(rules.iter().filter_map(y_of)));
    Some(Plot::new(title, vec![Panel { rules, ..Panel::of_series(230.0, x, y, series) }]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Step, Warning};
    use crate::report::fixtures;

    const PLAN: &str = "rounds = 3\n[[variant]]\nname = \"a\"\ncommand = [\"a\"]\n[[variant]]\nname = \"b\"\ncommand = [\"b\"]\n\
        [[workload]]\nname = \"fast\"\nkind = \"bench\"\npath = \"/x\"\nrate = 900\n\
        [[workload]]\nname = \"slow\"\nkind = \"bench\"\npath = \"/x\"\nrate = 100\n\
        [[workload]]\nname = \"other\"\nkind = \"bench\"\npath = \"/y\"\nrate = 100\n\
        [[workload]]\nname = \"k\"\nkind = \"max-rate\"\nslo = \"errors<1%, p99<20ms\"\n";

    fn step(rate_per_s: f64, p99_ns: Option<f64>, passed: bool) -> Step {
        Step { rate_per_s, p99_ns, passed, reason: format!("at {rate_per_s}") }
    }

    fn measured() -> Experiment {
        let mut experiment = fixtures::experiment(PLAN, |id| match id.workload {
            "k" => (id.variant == "a").then(|| vec![("max_rate_per_s", [300.0, 100.0, 200.0][id.round])]),
            _ => Some(vec![("p99_ns", 1e6)]),
        });
        for run in experiment.runs.iter_mut().filter(|run| run.workload == "k" && run.variant == "a") {
            let max_rate = run.metrics["max_rate_per_s"];
            run.steps = vec![
                step(2.0 * max_rate, None, false),
                step(max_rate, Some(2e6), true),
                step(max_rate / 2.0, Some(1e6), true),
                step(max_rate, Some(4e6), true),
            ];
        }
        experiment
    }

    fn charts_of(workload: usize) -> Vec<Chart> {
        let experiment = measured();
        charts(&experiment, &experiment.plan().workloads[workload])
    }

    #[test]
    fn the_round_with_the_median_max_rate_is_drawn_by_rate() {
        let chart = charts_of(3).remove(0);
        for tip in ["a, 100/s: p99 1.00 ms; at 100", "a, 200/s: p99 3.00 ms; at 200"] {
            assert!(chart.svg.contains(&format!("data-tip=\"{tip}\"")), "{tip}: {}", chart.svg);
        }
        assert!(chart.svg.contains(">a, maximum 200/s</text>"), "{}", chart.svg);
        assert!(chart.svg.contains("data-tip=\"a, 400/s: no response; at 400\""));
        assert!(chart.svg.contains(">errors&lt;1%, p99&lt;20ms</text>"));
    }

    #[test]
    fn workloads_of_one_path_at_several_rates_are_one_chart() {
        assert_eq!([charts_of(0).len(), charts_of(1).len(), charts_of(2).len()], [1, 0, 0]);
        let svg = &charts_of(0)[0].svg;
        assert!(
            svg.contains("data-tip=\"a, 100/s: 1.00 ms\"") && svg.contains("data-tip=\"a, 900/s: 1.00 ms\""),
            "{svg}"
        );
    }

    #[test]
    fn suspect_and_missing_maximum_rates_are_explained() {
        let mut experiment = measured();
        let is_of_max_rate = |run: &&mut Run| run.workload == "k" && run.variant == "a";
        let concerns = vec!["max_rate_per_s".to_owned()];
        for run in experiment.runs.iter_mut().filter(is_of_max_rate).take(1) {
            run.warnings = vec![Warning { sentence: "errors".to_owned(), concerns: concerns.clone() }];
        }
        let chart = charts(&experiment, &experiment.plan().workloads[3]).remove(0);
        assert!(chart.svg.contains(">a, maximum 200/s†</text>"), "{}", chart.svg);
        assert!(chart.caption.contains('†') && chart.caption.ends_with(" Failed: b in 3 of 3 rounds."));
        for run in experiment.runs.iter_mut().filter(is_of_max_rate) {
            run.metrics.clear();
        }
        let chart = charts(&experiment, &experiment.plan().workloads[3]).remove(0);
        assert!(chart.svg.contains(">a, no rate passed</text>"), "{}", chart.svg);
    }

    #[test]
    fn a_rate_at_which_a_variant_failed_is_marked() {
        let experiment = fixtures::experiment(PLAN, |id| {
            (id.variant == "a" || id.workload != "fast").then(|| vec![("p99_ns", 1e6)])
        });
        let chart = charts(&experiment, &experiment.plan().workloads[0]).remove(0);
        assert!(chart.svg.contains("data-tip=\"b, 900/s: failed\""), "{}", chart.svg);
    }

    #[test]
    fn the_bound_is_taken_from_the_objective() {
        for (slo, bound) in
            [("p99<20ms", Some(0.02)), ("errors<1%, p99<=2s", Some(2.0)), ("p999<1s", None), ("max<1s", None)]
        {
            assert_eq!(p99_of(slo), bound, "{slo}");
        }
    }
}
