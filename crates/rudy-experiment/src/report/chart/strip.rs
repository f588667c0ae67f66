//! A metric of all variants under a workload: a row for each, with a point per round.

use rudy_charts::{Axis, Dot, Entry, Fill, Key, Row, Rows, Shape, Style, style};
use rudy_units::float;

use super::Chart;
use super::data::{Rounds, dagger_note, slug};
use crate::experiment::Experiment;
use crate::metric::Metric;
use crate::plan::{Kind, Workload};

/// The success rate of a workload at a rate.
const NINES: &str = "nines";

/// The most useful metrics for a kind of workload.
pub(super) fn charts(experiment: &Experiment, workload: &Workload) -> Vec<Chart> {
    let of = |metric: &&str| chart(experiment, &workload.name, &Metric::named(metric));
    metrics(&workload.kind).iter().filter_map(of).collect()
}

fn metrics(kind: &Kind) -> &'static [&'static str] {
    match kind {
        Kind::Bench { rate: None, .. } => &["requests_per_s", "cpu_us_per_request"],
        // The generator then determines the number of requests.
        Kind::Bench { rate: Some(_), .. } => &[NINES, "errors", "p99_ns", "cpu_us_per_request"],
        Kind::Burst { .. } | Kind::Sequence { .. } => &["time_s", "errors", "cpu_us_per_request"],
        Kind::MaxRate { .. } => &["max_rate_per_s"],
        // Shown by size instead, if there is more than one.
        Kind::Run { n: Some(_), .. } => &["time_s"],
        // The metrics of a load generator.
        Kind::Run { n: None, .. } => &["time_s", "requests_per_s", "cpu_us_per_request", "p99_ns", "max_ns"],
        Kind::Idle { .. } => &["private_bytes", "private_bytes_per_connection"],
        Kind::Flood { .. } => &["private_bytes_per_connection", "schedule_delay_p99_ns"],
    }
}

fn chart(experiment: &Experiment, workload: &str, metric: &Metric) -> Option<Chart> {
    let all = all_rounds(experiment, workload, metric);
    let values = || all.iter().flat_map(|(.., rounds)| &rounds.values);
    // A chart without any error is useless.
    if !values().any(|value| metric.name != "errors" || value.value > 0.0) {
        return None;
    }
    let rows = Rows {
        title: format!("{workload}: {}", metric.title),
        legend: legend(
            all.iter().any(|(_, is_control, rounds)| *is_control && !rounds.values.is_empty()),
            values().any(|value| value.is_suspect),
        ),
        x: Axis::fitting(&metric.title, metric.unit, values().map(|value| value.value)),
        rows: all
            .iter()
            .map(|(index, is_control, rounds)| {
                row(&experiment.plan().variants[*index].name, *index, *is_control, rounds, metric)
            })
            .collect(),
    };
    let is_suspect = all.iter().any(|(.., rounds)| rounds.median().is_some_and(|median| median.is_suspect));
    // Without a failure, the bound depends only on the number of requests.
    let nines = " Nines are the lower bound of the success rate, which grows with the number of requests.";
    Some(Chart {
        id: format!("{}-{}", slug(&metric.name), slug(workload)),
        caption: format!(
            "A point for each round, the first at the top of its row; the line is their median.{}{}",
            if metric.name == NINES { nines } else { "" },
            dagger_note(is_suspect),
        ),
        svg: rows.svg(),
        title: rows.title,
    })
}

/// The index of each variant and its rounds, followed by those of its control.
fn all_rounds(experiment: &Experiment, workload: &str, metric: &Metric) -> Vec<(usize, bool, Rounds)> {
    let mut all = Vec::new();
    for (index, variant) in experiment.plan().variants.iter().enumerate() {
        let of = |is_control| Rounds::of(experiment, &variant.name, workload, metric, is_control);
        let (own, control) = (of(false), of(true));
        let has_any = |rounds: &Rounds| !rounds.values.is_empty() || rounds.failed > 0;
        let is_control_shown = has_any(&control);
        // A control is shown below its variant, even if the variant has no value.
        if has_any(&own) || !control.values.is_empty() {
            all.push((index, false, own));
        }
        if is_control_shown {
            all.push((index, true, control));
        }
    }
    all
}

/// The explanation of the marks.
fn legend(is_controlled: bool, is_suspect: bool) -> Vec<Entry> {
    let entry = |shape, fill, name: &str| Entry {
        key: Key::Mark(Style { class: "soft", shape, is_dashed: false }, fill),
        name: name.to_owned(),
    };
    let mut entries = vec![entry(Shape::Circle, Fill::Full, "a round")];
    entries.extend(is_controlled.then(|| entry(Shape::Diamond, Fill::Full, "A/A control")));
    entries.extend(is_suspect.then(|| entry(Shape::Circle, Fill::Hollow, "suspect")));
    entries
}

fn row(variant: &str, index: usize, is_control: bool, rounds: &Rounds, metric: &Metric) -> Row {
    let last = rounds.values.iter().map(|value| value.round).max().unwrap_or(0);
    let again = if is_control { ", control" } else { "" };
    let dot = |round: &super::data::RoundValue| {
        let warning = if round.is_suspect { ", suspect" } else { "" };
        let value = metric.unit.text(round.value);
        Dot {
            value: round.value,
            place: if last == 0 { 0.5 } else { float(round.round as u64) / float(last as u64) },
            fill: if round.is_suspect { Fill::Hollow } else { Fill::Full },
            tip: format!("{variant}{again}, round {}: {value}{warning}", round.round + 1),
        }
    };
    let median = rounds.median().map(|median| median.value);
    let has_note = rounds.failed > 0 && median.is_some();
    Row {
        name: if is_control { "control".to_owned() } else { variant.to_owned() },
        text: rounds.text(metric.unit),
        note: if has_note { format!("{} failed", rounds.failed) } else { String::new() },
        style: Style { shape: if is_control { Shape::Diamond } else { Shape::Circle }, ..style(index) },
        is_soft: is_control,
        is_child: is_control,
        line: median,
        dots: rounds.values.iter().map(dot).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Warning;
    use crate::report::fixtures;

    const PLAN: &str = "rounds = 3\n\
        [[variant]]\nname = \"a\"\ncommand = [\"a\"]\ncontrol = true\n\
        [[variant]]\nname = \"b\"\ncommand = [\"b\"]\n[[variant]]\nname = \"dead\"\ncommand = [\"c\"]\n\
        [[workload]]\nname = \"l\"\nkind = \"bench\"\n";

    fn experiment(of_b: f64) -> Experiment {
        fixtures::experiment(PLAN, |id| match id.variant {
            "dead" => None,
            "b" => (id.round > 0).then(|| vec![("requests_per_s", of_b)]),
            _ => Some(vec![("requests_per_s", if id.is_control { 1010.0 } else { 1000.0 })]),
        })
    }

    fn of(experiment: &Experiment) -> Vec<Chart> {
        charts(experiment, &experiment.plan().workloads[0])
    }

    #[test]
    fn every_round_has_a_point_and_failures_are_counted() {
        let charts = of(&experiment(800.0));
        assert_eq!(charts.iter().map(|chart| chart.id.as_str()).collect::<Vec<_>>(), ["requests-per-s-l"]);
        let svg = &charts[0].svg;
        assert_eq!(svg.matches("<path class=\"s0 full\"").count(), 6, "three rounds and their controls");
        assert_eq!(svg.matches("<path class=\"s1 full\"").count(), 2);
        assert!(svg.contains("data-tip=\"a, control, round 3: 1,010/s\""), "{svg}");
        assert!(svg.contains(">1 failed</text>") && svg.contains(">failed</text>"));
    }

    #[test]
    fn errors_are_drawn_if_there_are_any() {
        let plan = PLAN.replace("\"bench\"", "\"burst\"\nrequests = 9");
        for (errors, charts) in [(0.0, 0), (1.0, 1)] {
            let experiment =
                fixtures::experiment(&plan, |id| Some(vec![("errors", errors * f64::from(id.round > 1))]));
            assert_eq!(of(&experiment).len(), charts);
        }
    }

    #[test]
    fn a_workload_at_a_rate_shows_the_success_rate() {
        let plan = PLAN.replace("\"bench\"", "\"bench\"\nrate = 100");
        let experiment = fixtures::experiment(&plan, |id| {
            Some(vec![("nines", 3.5), ("errors", f64::from(id.variant == "b")), ("p99_ns", 1e6)])
        });
        let charts = of(&experiment);
        let ids: Vec<_> = charts.iter().map(|chart| chart.id.as_str()).collect();
        assert_eq!(ids, ["nines-l", "errors-l", "p99-ns-l"]);
        assert!(charts[0].svg.contains(">3.50</text>") && charts[0].caption.contains("lower bound"));
    }

    #[test]
    fn a_median_of_suspect_rounds_is_marked() {
        let mut experiment = experiment(800.0);
        let concerns = vec!["requests_per_s".to_owned()];
        experiment.runs[0].warnings = vec![Warning { sentence: "errors".to_owned(), concerns }];
        let chart = of(&experiment).remove(0);
        assert!(
            chart.svg.contains(">1,000/s†</text>") && chart.svg.contains(">800/s</text>"),
            "{}",
            chart.svg
        );
        assert!(chart.caption.ends_with("† includes suspect rounds."), "{}", chart.caption);
    }

    #[test]
    fn an_axis_from_zero_becomes_logarithmic_for_a_wide_range() {
        let svg = |of_b| of(&experiment(of_b))[0].svg.clone();
        assert!(!svg(60.0).contains("logarithmic") && svg(40.0).contains("logarithmic"));
    }
}
