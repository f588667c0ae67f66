//! Historical results and those of today on one axis.

use rudy_charts::{Axis, Dot, Entry, Fill, Key, Row, Rows, Shape, Style, style};

use super::Chart;
use super::data::{Rounds, dagger_note, drawable, slug};
use crate::experiment::Experiment;
use crate::metric::Metric;
use crate::plan::{Baseline, Workload};

/// The charts of a workload: one for each metric of a baseline.
pub(super) fn charts(experiment: &Experiment, workload: &Workload) -> Vec<Chart> {
    let baselines = experiment.plan().baselines.iter().filter(|baseline| baseline.workload == workload.name);
    let mut names: Vec<&String> = baselines.flat_map(|baseline| baseline.metrics.keys()).collect();
    names.sort_unstable();
    names.dedup();
    names.into_iter().filter_map(|name| chart(experiment, &workload.name, &Metric::named(name))).collect()
}

fn chart(experiment: &Experiment, workload: &str, metric: &Metric) -> Option<Chart> {
    let source = &experiment.plan().source;
    let period = year(source).map_or("baseline".to_owned(), |year| format!("baseline, {year}"));
    let rows = rows(experiment, workload, metric, &period);
    let dots = || rows.iter().flat_map(|row| row.dots.iter().map(move |dot| (row.is_soft, dot)));
    let is_suspect = dots().any(|(is_baseline, dot)| !is_baseline && dot.fill == Fill::Hollow);
    if rows.is_empty() {
        return None;
    }
    let rows = Rows {
        title: format!("{workload}, baseline and today: {}", metric.title),
        legend: legend(&period, is_suspect),
        x: Axis::fitting(&metric.title, metric.unit, dots().map(|(_, dot)| dot.value)),
        rows,
    };
    let from = if source.is_empty() { String::new() } else { format!(" Baseline: {source}.") };
    Some(Chart {
        id: format!("baseline-{}-{}", slug(&metric.name), slug(workload)),
        caption: format!(
            "Each baseline, and below it the result of its variant today.{from}{}",
            dagger_note(is_suspect)
        ),
        svg: rows.svg(),
        title: rows.title,
    })
}

/// Each baseline above the variant that it belongs to; variants without one come last.
fn rows(experiment: &Experiment, workload: &str, metric: &Metric, period: &str) -> Vec<Row> {
    let plan = experiment.plan();
    let mut rows = Vec::new();
    let mut remaining: Vec<usize> = (0..plan.variants.len()).collect();
    for baseline in plan.baselines.iter().filter(|baseline| baseline.workload == workload) {
        let value = baseline.metrics.get(&metric.name).and_then(|value| drawable(value * metric.factor));
        let Some(value) = value else { continue };
        let is_own = |name: &String| baseline.variant.as_ref() == Some(name);
        let variant = plan.variants.iter().position(|variant| is_own(&variant.name));
        rows.push(baseline_row(baseline, variant, value, metric, period));
        // Two baselines may belong to one variant, which is shown below the first of them.
        if let Some(place) = remaining.iter().position(|index| Some(*index) == variant) {
            rows.extend(current_row(experiment, workload, metric, remaining.remove(place), true));
        }
    }
    if !rows.is_empty() {
        rows.extend(
            remaining
                .into_iter()
                .filter_map(|variant| current_row(experiment, workload, metric, variant, false)),
        );
    }
    rows
}

fn baseline_row(
    baseline: &Baseline,
    variant: Option<usize>,
    value: f64,
    metric: &Metric,
    period: &str,
) -> Row {
    let text = metric.unit.text(value);
    let remark = baseline.text.as_ref().map(|text| format!(" ({text})")).unwrap_or_default();
    let tip = format!("{}, {period}: {text}{remark}", baseline.name);
    let class = variant.map_or("soft", |variant| style(variant).class);
    Row {
        name: baseline.name.clone(),
        note: String::new(),
        style: Style { class, shape: Shape::Square, is_dashed: false },
        is_soft: true,
        is_child: false,
        line: None,
        dots: vec![Dot { value, place: 0.5, fill: Fill::Hollow, tip }],
        text,
    }
}

/// `None` if the variant did not run or lacks the metric.
fn current_row(
    experiment: &Experiment,
    workload: &str,
    metric: &Metric,
    variant: usize,
    is_child: bool,
) -> Option<Row> {
    let name = &experiment.plan().variants[variant].name;
    let rounds = Rounds::of(experiment, name, workload, metric, false);
    let number = rounds.values.len();
    let median = (number > 1).then(|| format!("the median of {number} rounds"));
    let suspect = rounds.is_suspect.then(|| "suspect".to_owned());
    let remarks: Vec<String> = median.into_iter().chain(rounds.failures()).chain(suspect).collect();
    let remarks = if remarks.is_empty() { String::new() } else { format!(" ({})", remarks.join(", ")) };
    let dot = |median: super::data::Median| Dot {
        value: median.value,
        place: 0.5,
        fill: if rounds.is_suspect { Fill::Hollow } else { Fill::Full },
        tip: format!("{name}, today: {}{remarks}", metric.unit.text(median.value)),
    };
    (number > 0 || rounds.failed > 0).then(|| Row {
        name: name.clone(),
        text: rounds.text(metric.unit),
        note: String::new(),
        style: Style { shape: Shape::Circle, ..style(variant) },
        is_soft: false,
        is_child,
        line: None,
        dots: rounds.median().map(dot).into_iter().collect(),
    })
}

fn legend(period: &str, is_suspect: bool) -> Vec<Entry> {
    let entry = |shape, fill, name: &str| Entry {
        key: Key::Mark(Style { class: "soft", shape, is_dashed: false }, fill),
        name: name.to_owned(),
    };
    let mut entries =
        vec![entry(Shape::Square, Fill::Hollow, period), entry(Shape::Circle, Fill::Full, "today, median")];
    entries.extend(is_suspect.then(|| entry(Shape::Circle, Fill::Hollow, "suspect")));
    entries
}

/// The first number of four digits that can be a year.
fn year(source: &str) -> Option<&str> {
    let numbers = source.split(|character: char| !character.is_ascii_digit());
    numbers.into_iter().find(|number| number.len() == 4 && ("1960".."2100").contains(number))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Warning;
    use crate::report::fixtures;

    const PLAN: &str = "source = \"a report of 2014, on 12345 cores\"\nrounds = 3\n\
        [[variant]]\nname = \"new\"\ncommand = [\"a\"]\n[[variant]]\nname = \"other\"\ncommand = [\"b\"]\n\
        [[workload]]\nname = \"l\"\nkind = \"burst\"\nrequests = 100\n\
        [[baseline]]\nname = \"Old\"\nvariant = \"new\"\nworkload = \"l\"\nmetrics = { time_s = 106.0, errors = 35 }\ntext = \"slow\"\n\
        [[baseline]]\nname = \"Gone\"\nworkload = \"l\"\nmetrics = { errors = 9 }\n";

    fn of_plan() -> Vec<Chart> {
        let experiment = fixtures::experiment(PLAN, |id| {
            let time = if id.variant == "new" { 4.0 } else { 5.0 };
            Some(vec![("time_s", time), ("errors", 0.0)])
        });
        charts(&experiment, &experiment.plan().workloads[0])
    }

    #[test]
    fn a_baseline_is_above_its_variant() {
        let charts = of_plan();
        assert_eq!(
            charts.iter().map(|chart| chart.id.as_str()).collect::<Vec<_>>(),
            ["baseline-errors-l", "baseline-time-s-l"]
        );
        let names = charts[0].svg.split("data-tip=\"").skip(1).filter_map(|tip| tip.split(',').next());
        assert_eq!(names.collect::<Vec<_>>(), ["Old", "new", "Gone", "other"]);
        assert!(
            charts[1].svg.contains("data-tip=\"Old, baseline, 2014: 106 s (slow)\""),
            "{}",
            charts[1].svg
        );
        assert!(charts[1].svg.contains("logarithmic") && !charts[0].svg.contains("logarithmic"));
    }

    #[test]
    fn failed_and_suspect_results_are_marked() {
        let mut experiment = fixtures::experiment(PLAN, |id| {
            (id.variant == "new" && id.round < 2).then(|| vec![("time_s", 4.0)])
        });
        let warning = Warning { sentence: "errors".to_owned(), concerns: vec!["time_s".to_owned()] };
        experiment.runs[0].warnings = vec![warning];
        let chart = charts(&experiment, &experiment.plan().workloads[0]).pop().unwrap();
        assert!(
            chart.svg.contains(">4.00 s†</text>") && chart.svg.contains(">failed</text>"),
            "{}",
            chart.svg
        );
        let tip = "data-tip=\"new, today: 4.00 s (the median of 2 rounds, 1 of 3 rounds failed, suspect)\"";
        assert!(chart.svg.contains(tip), "{}", chart.svg);
        assert_eq!(chart.svg.matches("class=\"s0 hollow\"").count(), 2, "that of then, and the suspect one");
    }

    #[test]
    fn a_year_is_found_in_the_source() {
        for (source, expected) in [("on 12345 cores, 2014", Some("2014")), ("9999", None), ("", None)] {
            assert_eq!(year(source), expected);
        }
    }
}
