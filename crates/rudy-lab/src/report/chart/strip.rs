//! A metric of all variants under a workload: a row for each, with a point per round.

use super::Chart;
use super::data::{Median, Rounds, legend_of_dagger, slug};
use super::frame::{Axis, Frame};
use super::legend::{self, Entry, Key};
use super::mark::{Fill, Look, Shape, look, mark};
use super::sheet::{Anchor, EDGE, Sheet, WIDTH, fitted, width};
use super::table::{Table, cell};
use super::unit::Metric;
use crate::experiment::Experiment;
use crate::plan::{Kind, Workload};

/// The rounds of a variant, or of its control.
#[derive(Debug)]
struct Row {
    name: String,
    look: Look,
    is_control: bool,
    rounds: Rounds,
    median: Option<Median>,
}

/// The success rate of a workload at a rate.
const NINES: &str = "nines";

/// The height of a row, and of a control's row.
const ROW: f64 = 34.0;
const CONTROL: f64 = 22.0;

/// The maximum width of names.
const NAME_MAX: f64 = 90.0;

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
    let rows = rows(experiment, workload, metric);
    // A chart without any error is useless.
    let is_of_errors = metric.name == "errors";
    if !rows.iter().flat_map(|row| &row.rounds.seen).any(|seen| !is_of_errors || seen.value > 0.0) {
        return None;
    }
    let title = format!("{workload}: {}", metric.title);
    let mut sheet = Sheet::new(&title);
    legend::draw(&mut sheet, &keys(&rows));
    draw(&mut sheet, &rows, metric);
    Some(Chart {
        id: format!("{}-{}", slug(&metric.name), slug(workload)),
        title,
        caption: format!(
            "A point for each round, the first on top in its row; the line is their median.{}{}",
            // Without a failure, the proven nines depend only on the number of requests.
            if metric.name == NINES {
                " Nines are as many as the answers prove: more requests prove more."
            } else {
                ""
            },
            legend_of_dagger(rows.iter().any(|row| row.median.is_some_and(|median| median.is_suspect))),
        ),
        svg: sheet.finish(),
        csv: csv(&rows, metric),
    })
}

/// A row for each variant, followed by its control.
fn rows(experiment: &Experiment, workload: &str, metric: &Metric) -> Vec<Row> {
    let mut rows = Vec::new();
    for (index, variant) in experiment.plan().variants.iter().enumerate() {
        let of = |is_control| Rounds::of(experiment, &variant.name, workload, metric, is_control);
        let (own, control) = (of(false), of(true));
        let has_any = |rounds: &Rounds| !rounds.seen.is_empty() || rounds.failed > 0;
        // A control is shown below its variant, even if that has no value.
        let is_own_shown = has_any(&own) || !control.seen.is_empty();
        let is_control_shown = has_any(&control);
        for (is_control, is_shown, rounds) in [(false, is_own_shown, own), (true, is_control_shown, control)]
        {
            if !is_shown {
                continue;
            }
            let shape = if is_control { Shape::Diamond } else { Shape::Circle };
            rows.push(Row {
                name: variant.name.clone(),
                look: Look { shape, ..look(index) },
                is_control,
                median: rounds.median(),
                rounds,
            });
        }
    }
    rows
}

/// The explanation of the marks.
fn keys(rows: &[Row]) -> Vec<Entry> {
    let plain = |shape| Look { class: "soft", shape, is_dashed: false };
    let is_suspect = rows.iter().flat_map(|row| &row.rounds.seen).any(|seen| seen.is_suspect);
    let is_controlled = rows.iter().any(|row| row.is_control && !row.rounds.seen.is_empty());
    let keys = [
        (true, Shape::Circle, Fill::Full, "a round"),
        (is_controlled, Shape::Diamond, Fill::Full, "control: the same again"),
        (is_suspect, Shape::Circle, Fill::Hollow, "suspect"),
    ];
    let shown = keys.into_iter().filter(|(is_there, ..)| *is_there);
    shown
        .map(|(_, shape, fill, name)| Entry { key: Key::Mark(plain(shape), fill), name: name.to_owned() })
        .collect()
}

fn draw(sheet: &mut Sheet, rows: &[Row], metric: &Metric) {
    let values = rows.iter().flat_map(|row| &row.rounds.seen).map(|seen| seen.value);
    let axis = Axis::fitting(&metric.title, metric.unit, values);
    let value = |row: &Row| row.rounds.text(metric.unit);
    let widest = |texts: &mut dyn Iterator<Item = String>| texts.map(|text| width(&text)).fold(0.0, f64::max);
    let names = widest(&mut rows.iter().map(|row| fitted(&row.name, NAME_MAX)));
    let values = widest(&mut rows.iter().map(value)) + 14.0;
    let room = rows.iter().map(height).sum::<f64>() + 4.0;
    let frame = Frame::rows(sheet, room, &axis, names, values);
    let mut top = frame.top;
    for row in rows {
        let middle = top + height_of_half(row);
        if !row.is_control && top > frame.top {
            sheet.line("grid", (EDGE, top), (WIDTH - EDGE, top));
        }
        points(sheet, &frame, &axis, row, metric, middle);
        let (name, class) = if row.is_control { ("control", "soft") } else { (row.name.as_str(), "") };
        sheet.text_in(NAME_MAX, (EDGE, middle + 4.0), Anchor::Start, class, name);
        let failed = row.rounds.failed;
        let below = if failed > 0 && row.median.is_some() { 7.0 } else { 0.0 };
        sheet.text((WIDTH - EDGE, middle + 4.0 - below), Anchor::End, class, &value(row));
        if below > 0.0 {
            sheet.text(
                (WIDTH - EDGE, middle + 4.0 + below),
                Anchor::End,
                "soft",
                &format!("{failed} failed"),
            );
        }
        top += height(row);
    }
}

fn height(row: &Row) -> f64 {
    if row.is_control { CONTROL } else { ROW }
}

fn height_of_half(row: &Row) -> f64 {
    height(row) / 2.0
}

/// Rounds from top to bottom, so that equal values do not overlap and drift is visible.
fn points(sheet: &mut Sheet, frame: &Frame, axis: &Axis, row: &Row, metric: &Metric, middle: f64) {
    let reach = height_of_half(row) - 6.0;
    if let Some(median) = row.median {
        let x = frame.x(axis.share(median.value));
        let from = (x, middle - reach - 4.0);
        sheet.line(&format!("line {}", row.look.class), from, (x, middle + reach + 4.0));
    }
    let last = row.rounds.seen.iter().map(|seen| seen.round).max().unwrap_or(0);
    for seen in &row.rounds.seen {
        #[expect(clippy::cast_precision_loss, reason = "rounds of an experiment")]
        let below = if last == 0 { 0.5 } else { seen.round as f64 / last as f64 };
        let place = (frame.x(axis.share(seen.value)), middle + (2.0 * below - 1.0) * reach);
        let fill = if seen.is_suspect { Fill::Hollow } else { Fill::Full };
        let again = if row.is_control { ", control" } else { "" };
        let warning = if seen.is_suspect { ", suspect" } else { "" };
        let value = metric.unit.text(seen.value);
        let tip = format!("{}{again}, round {}: {value}{warning}", row.name, seen.round + 1);
        mark(sheet, row.look, place, 3.5, fill, &tip);
    }
}

fn csv(rows: &[Row], metric: &Metric) -> String {
    let mut table = Table::new(&["variant", "control", "round", &metric.name, "suspect"]);
    for (row, seen) in rows.iter().flat_map(|row| row.rounds.seen.iter().map(move |seen| (row, seen))) {
        table.row([
            row.name.clone(),
            row.is_control.to_string(),
            (seen.round + 1).to_string(),
            cell(Some(seen.value / metric.factor)),
            seen.is_suspect.to_string(),
        ]);
    }
    table.finish()
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
        fixtures::experiment(PLAN, |turn| match turn.variant {
            "dead" => None,
            "b" => (turn.round > 0).then(|| vec![("requests_per_s", of_b)]),
            _ => Some(vec![("requests_per_s", if turn.is_control { 1010.0 } else { 1000.0 })]),
        })
    }

    fn of(experiment: &Experiment) -> Vec<Chart> {
        charts(experiment, &experiment.plan().workloads[0])
    }

    #[test]
    fn every_round_has_a_point_and_failures_are_said() {
        let charts = of(&experiment(800.0));
        assert_eq!(charts.iter().map(|chart| chart.id.as_str()).collect::<Vec<_>>(), ["requests-per-s-l"]);
        let svg = &charts[0].svg;
        assert_eq!(svg.matches("<path class=\"s0 full\"").count(), 6, "three rounds and their controls");
        assert_eq!(svg.matches("<path class=\"s1 full\"").count(), 2);
        assert!(svg.contains("data-tip=\"a, control, round 3: 1,010/s\""), "{svg}");
        assert!(svg.contains(">1 failed</text>") && svg.contains(">failed</text>"));
        assert_eq!(charts[0].csv.lines().count(), 1 + 6 + 2);
        assert!(charts[0].csv.contains("a,true,3,1010,false"));
    }

    #[test]
    fn errors_are_drawn_where_there_are_any() {
        let plan = PLAN.replace("\"bench\"", "\"burst\"\nrequests = 9");
        for (errors, charts) in [(0.0, 0), (1.0, 1)] {
            let experiment = fixtures::experiment(&plan, |turn| {
                Some(vec![("errors", errors * f64::from(turn.round > 1))])
            });
            assert_eq!(of(&experiment).len(), charts);
        }
    }

    #[test]
    fn a_workload_at_a_rate_shows_how_many_answers_are_right() {
        let plan = PLAN.replace("\"bench\"", "\"bench\"\nrate = 100");
        let experiment = fixtures::experiment(&plan, |turn| {
            Some(vec![("nines", 3.5), ("errors", f64::from(turn.variant == "b")), ("p99_ns", 1e6)])
        });
        let charts = of(&experiment);
        let ids: Vec<_> = charts.iter().map(|chart| chart.id.as_str()).collect();
        assert_eq!(ids, ["nines-l", "errors-l", "p99-ns-l"]);
        assert!(charts[0].svg.contains(">3.50</text>") && charts[0].caption.contains("prove"));
    }

    #[test]
    fn a_median_of_doubted_rounds_is_marked() {
        let mut experiment = experiment(800.0);
        let concerns = vec!["requests_per_s".to_owned()];
        experiment.runs[0].warnings = vec![Warning { sentence: "errors".to_owned(), concerns }];
        let chart = of(&experiment).remove(0);
        assert!(
            chart.svg.contains(">1,000/s†</text>") && chart.svg.contains(">800/s</text>"),
            "{}",
            chart.svg
        );
        assert!(chart.caption.ends_with("† rests on rounds that are suspect."), "{}", chart.caption);
    }

    #[test]
    fn an_axis_from_zero_gives_way_where_it_would_hide_the_lower_ones() {
        let svg = |of_b| of(&experiment(of_b))[0].svg.clone();
        assert!(!svg(60.0).contains("logarithmic") && svg(40.0).contains("logarithmic"));
    }
}
