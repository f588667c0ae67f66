//! Older and new metrics on one axis.

use super::Chart;
use super::data::{Rounds, drawable, float, legend_of_dagger, slug};
use super::frame::{Axis, Frame};
use super::legend::{self, Entry, Key};
use super::mark::{Fill, Look, Shape, look, mark};
use super::sheet::{Anchor, EDGE, Sheet, WIDTH, fitted, width};
use super::table::{Table, cell};
use super::unit::Metric;
use crate::experiment::Experiment;
use crate::plan::{Baseline, Workload};

/// An older or a new value.
#[derive(Debug, PartialEq)]
struct Row {
    name: String,
    look: Look,
    is_baseline: bool,
    /// `None` if all rounds failed.
    value: Option<f64>,
    /// The formatted value, or why it is missing.
    text: String,
    /// Whether it includes a suspect run.
    is_suspect: bool,
    /// An additional remark.
    said: Option<String>,
    /// Whether it belongs to the row above.
    belongs: bool,
}

/// The height of a row.
const ROW: f64 = 22.0;

/// The maximum width of names.
const NAME_MAX: f64 = 110.0;

/// The charts of a workload: one for each older metric.
pub(super) fn charts(experiment: &Experiment, workload: &Workload) -> Vec<Chart> {
    let plan = experiment.plan();
    let mut names: Vec<&String> = plan
        .baselines
        .iter()
        .filter(|baseline| baseline.workload == workload.name)
        .flat_map(|baseline| baseline.metrics.keys())
        .collect();
    names.sort_unstable();
    names.dedup();
    names.into_iter().filter_map(|name| chart(experiment, &workload.name, &Metric::named(name))).collect()
}

/// Each older value above that of its variant of today; new values without an older one come last.
fn rows(experiment: &Experiment, workload: &str, metric: &Metric) -> Vec<Row> {
    let plan = experiment.plan();
    let mut rows = Vec::new();
    let mut left: Vec<usize> = (0..plan.variants.len()).collect();
    for baseline in plan.baselines.iter().filter(|baseline| baseline.workload == workload) {
        let Some(value) =
            baseline.metrics.get(&metric.name).and_then(|value| drawable(value * metric.factor))
        else {
            continue;
        };
        let variant =
            plan.variants.iter().position(|variant| baseline.variant.as_ref() == Some(&variant.name));
        rows.push(baseline_row(baseline, variant, value, metric));
        // Two older results may belong to one variant of today, which is shown below the first of them.
        if let Some(place) = left.iter().position(|index| Some(*index) == variant) {
            left.remove(place);
            rows.extend(variant.and_then(|variant| now_row(experiment, workload, metric, variant, true)));
        }
    }
    if !rows.is_empty() {
        rows.extend(
            left.into_iter().filter_map(|variant| now_row(experiment, workload, metric, variant, false)),
        );
    }
    rows
}

fn baseline_row(baseline: &Baseline, variant: Option<usize>, value: f64, metric: &Metric) -> Row {
    let class = variant.map_or("soft", |variant| look(variant).class);
    Row {
        name: baseline.name.clone(),
        look: Look { class, shape: Shape::Square, is_dashed: false },
        is_baseline: true,
        value: Some(value),
        text: metric.unit.text(value),
        is_suspect: false,
        said: baseline.text.clone(),
        belongs: false,
    }
}

/// The value of a variant; `None` if it did not run or lacks the metric.
fn now_row(
    experiment: &Experiment,
    workload: &str,
    metric: &Metric,
    variant: usize,
    belongs: bool,
) -> Option<Row> {
    let name = &experiment.plan().variants[variant].name;
    let rounds = Rounds::of(experiment, name, workload, metric, false);
    let number = rounds.seen.len();
    let median = (number > 1).then(|| format!("the median of {number} rounds"));
    let said: Vec<String> = median.into_iter().chain(rounds.failures()).collect();
    (number > 0 || rounds.failed > 0).then(|| Row {
        name: name.clone(),
        look: Look { shape: Shape::Circle, ..look(variant) },
        is_baseline: false,
        value: rounds.median().map(|median| median.value),
        text: rounds.text(metric.unit),
        is_suspect: rounds.is_suspect,
        said: (!said.is_empty()).then(|| said.join(", ")),
        belongs,
    })
}

fn chart(experiment: &Experiment, workload: &str, metric: &Metric) -> Option<Chart> {
    let rows = rows(experiment, workload, metric);
    if rows.is_empty() {
        return None;
    }
    let source = &experiment.plan().source;
    let then = year(source).map_or("then".to_owned(), |year| format!("then, {year}"));
    let title = format!("{workload}, then and now: {}", metric.title);
    let mut sheet = Sheet::new(&title);
    let plain = |shape| Look { class: "soft", shape, is_dashed: false };
    let entry = |shape, fill, name: &str| Entry { key: Key::Mark(plain(shape), fill), name: name.to_owned() };
    let is_suspect = rows.iter().any(|row| row.value.is_some() && row.is_suspect);
    let mut entries =
        vec![entry(Shape::Square, Fill::Hollow, &then), entry(Shape::Circle, Fill::Full, "today, median")];
    entries.extend(is_suspect.then(|| entry(Shape::Circle, Fill::Hollow, "suspect")));
    legend::draw(&mut sheet, &entries);
    draw(&mut sheet, &rows, metric, &then);
    let from = if source.is_empty() { String::new() } else { format!(" Then: {source}.") };
    Some(Chart {
        id: format!("then-{}-{}", slug(&metric.name), slug(workload)),
        title,
        caption: format!(
            "What was shown then, and below it what the variant that it belongs to does today.{from}{}",
            legend_of_dagger(is_suspect)
        ),
        svg: sheet.finish(),
        csv: csv(&rows, metric),
    })
}

/// The first number of four digits that can be a year.
fn year(source: &str) -> Option<&str> {
    let numbers = source.split(|character: char| !character.is_ascii_digit());
    numbers.into_iter().find(|number| number.len() == 4 && ("1960".."2100").contains(number))
}

fn draw(sheet: &mut Sheet, rows: &[Row], metric: &Metric, then: &str) {
    let axis = Axis::fitting(&metric.title, metric.unit, rows.iter().filter_map(|row| row.value));
    let widest = |texts: &mut dyn Iterator<Item = String>| texts.map(|text| width(&text)).fold(0.0, f64::max);
    let names = widest(&mut rows.iter().map(|row| fitted(&row.name, NAME_MAX)));
    let values = widest(&mut rows.iter().map(|row| row.text.clone())) + 14.0;
    let frame = Frame::rows(sheet, float(rows.len() as u64) * ROW + 4.0, &axis, names, values);
    let mut y = frame.top + ROW / 2.0 + 2.0;
    for row in rows {
        if !row.belongs && y > frame.top + ROW {
            sheet.line("grid", (EDGE, y - ROW / 2.0), (WIDTH - EDGE, y - ROW / 2.0));
        }
        if let Some(value) = row.value {
            let x = frame.x(axis.share(value));
            let stem = if row.is_baseline { " dots" } else { "" };
            sheet.line(&format!("line thin {}{stem}", row.look.class), (frame.left, y), (x, y));
            let fill = if row.is_baseline || row.is_suspect { Fill::Hollow } else { Fill::Full };
            mark(sheet, row.look, (x, y), 4.5, fill, &tip(row, then, &metric.unit.text(value)));
        }
        let class = if row.is_baseline { "soft" } else { "" };
        sheet.text_in(NAME_MAX, (EDGE, y + 4.0), Anchor::Start, class, &row.name);
        sheet.text((WIDTH - EDGE, y + 4.0), Anchor::End, class, &row.text);
        y += ROW;
    }
}

fn tip(row: &Row, then: &str, value: &str) -> String {
    let when = if row.is_baseline { then } else { "today" };
    let warning = row.is_suspect.then_some("suspect");
    let said: Vec<&str> = row.said.as_deref().into_iter().chain(warning).collect();
    let said = if said.is_empty() { String::new() } else { format!(" ({})", said.join(", ")) };
    format!("{}, {when}: {value}{said}", row.name)
}

fn csv(rows: &[Row], metric: &Metric) -> String {
    let mut table = Table::new(&["when", "variant", &metric.name, "suspect", "said"]);
    for row in rows {
        let when = if row.is_baseline { "then" } else { "today" };
        let value = cell(row.value.map(|value| value / metric.factor));
        let said = row.value.map_or(Some(&row.text), |_| row.said.as_ref());
        table.row([
            when.to_owned(),
            row.name.clone(),
            value,
            row.is_suspect.to_string(),
            said.cloned().unwrap_or_default(),
        ]);
    }
    table.finish()
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
        let experiment = fixtures::experiment(PLAN, |turn| {
            let time = if turn.variant == "new" { 4.0 } else { 5.0 };
            Some(vec![("time_s", time), ("errors", 0.0)])
        });
        charts(&experiment, &experiment.plan().workloads[0])
    }

    #[test]
    fn what_was_then_stands_above_what_it_belongs_to() {
        let charts = of_plan();
        assert_eq!(
            charts.iter().map(|chart| chart.id.as_str()).collect::<Vec<_>>(),
            ["then-errors-l", "then-time-s-l"]
        );
        assert_eq!(
            charts[0].csv,
            "when,variant,errors,suspect,said\r\nthen,Old,35,false,slow\r\n\
             today,new,0,false,the median of 3 rounds\r\nthen,Gone,9,false,\r\n\
             today,other,0,false,the median of 3 rounds\r\n"
        );
        assert!(charts[1].svg.contains("data-tip=\"Old, then, 2014: 106 s (slow)\""), "{}", charts[1].svg);
        assert!(charts[1].svg.contains("logarithmic") && !charts[0].svg.contains("logarithmic"));
    }

    #[test]
    fn what_failed_or_is_doubted_today_is_shown_as_that() {
        let mut experiment = fixtures::experiment(PLAN, |turn| {
            (turn.variant == "new" && turn.round < 2).then(|| vec![("time_s", 4.0)])
        });
        let warning = Warning { sentence: "errors".to_owned(), concerns: vec!["time_s".to_owned()] };
        experiment.runs[0].warnings = vec![warning];
        let chart = charts(&experiment, &experiment.plan().workloads[0]).pop().unwrap();
        assert_eq!(
            chart.csv,
            "when,variant,time_s,suspect,said\r\nthen,Old,106,false,slow\r\n\
             today,new,4,true,\"the median of 2 rounds, 1 of 3 rounds failed\"\r\ntoday,other,,false,failed\r\n"
        );
        assert!(chart.svg.contains(">4 s†</text>") && chart.svg.contains(">failed</text>"), "{}", chart.svg);
        let tip = "data-tip=\"new, today: 4 s (the median of 2 rounds, 1 of 3 rounds failed, suspect)\"";
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
