//! Latency by rate: the steps of an SLO search, and workloads at several rates.

use rudy_units::Time;

use super::Chart;
use super::data::{Median, Rounds, drawable, failures, legend_of_dagger, slug};
use super::frame::{Axis, Frame};
use super::legend::{self, Entry, Key};
use super::lines::{self, Line, Point};
use super::mark::look;
use super::sheet::{Anchor, Sheet};
use super::table::{Table, cell};
use super::unit::{Metric, Unit};
use crate::experiment::Experiment;
use crate::plan::{Kind, Workload};
use crate::record::Run;

/// The data of such a chart.
struct Picture {
    id: String,
    title: String,
    caption: String,
    lines: Vec<Line>,
    /// The result of each search.
    max_rates: Vec<Option<Median>>,
    /// The objective, and its limit of the p99 if it has one.
    slo: Option<(String, Option<f64>)>,
}

/// The chart of a search, or of workloads at several rates if this workload is the first of them.
pub(super) fn charts(experiment: &Experiment, workload: &Workload) -> Vec<Chart> {
    let picture = match &workload.kind {
        Kind::MaxRate { slo, .. } => Some(search(experiment, workload, slo)),
        Kind::Bench { .. } => sweep(experiment, workload),
        _ => None,
    };
    picture.as_ref().and_then(draw).into_iter().collect()
}

fn search(experiment: &Experiment, workload: &Workload, slo: &str) -> Picture {
    let metric = Metric::named("max_rate_per_s");
    let variants = experiment.plan().variants.iter().enumerate();
    let line = |(index, variant): (usize, &crate::plan::Variant)| {
        let run = middle(experiment.measured(&variant.name, &workload.name).collect())?;
        let line = Line { variant: variant.name.clone(), look: look(index), points: steps(run) };
        let max_rates = Rounds::of(experiment, &variant.name, &workload.name, &metric, false);
        Some((line, max_rates.median()))
    };
    let (lines, max_rates): (Vec<Line>, Vec<Option<Median>>) = variants.filter_map(line).unzip();
    let is_marked = max_rates.iter().flatten().any(|max_rate| max_rate.is_suspect);
    Picture {
        id: format!("rates-{}", slug(&workload.name)),
        title: format!("{}: latency over rate, and the max_rate", workload.name),
        caption: format!(
            "The round with the median max_rate of each variant. Filled points met {slo}; hollow ones did not, and those on top \
             had no answer. The dashed line is the median max_rate.{}{}",
            legend_of_dagger(is_marked),
            failures(experiment, &workload.name)
        ),
        lines,
        max_rates,
        slo: Some((slo.to_owned(), p99_of(slo))),
    }
}

/// The round with the median result; a search without a result is below all others.
fn middle(mut runs: Vec<&Run>) -> Option<&Run> {
    let max_rate = |run: &Run| run.metrics.get("max_rate_per_s").copied().unwrap_or(0.0);
    runs.retain(|run| !run.steps.is_empty());
    runs.sort_by(|a, b| max_rate(a).total_cmp(&max_rate(b)));
    runs.get(runs.len().checked_sub(1)? / 2).copied()
}

/// The steps of a search by rate. A rate may occur more than once.
fn steps(run: &Run) -> Vec<Point> {
    let mut points: Vec<Point> = Vec::new();
    let mut steps: Vec<_> = run.steps.iter().filter(|step| drawable(step.rate_per_s).is_some()).collect();
    steps.sort_by(|a, b| a.rate_per_s.total_cmp(&b.rate_per_s));
    for step in steps {
        let value = step.p99_ns.and_then(|ns| drawable(ns * 1e-9));
        match points.last_mut().filter(|last| last.x >= step.rate_per_s) {
            Some(last) => {
                last.values.extend(value);
                last.is_suspect |= !step.passed;
                last.said.clone_from(&step.reason);
            }
            None => points.push(Point {
                x: step.rate_per_s,
                values: value.into_iter().collect(),
                failed: 0,
                is_suspect: !step.passed,
                said: step.reason.clone(),
            }),
        }
    }
    points
}

/// The limit of the p99.
fn p99_of(slo: &str) -> Option<f64> {
    let bound = slo.split(',').find_map(|term| term.trim().strip_prefix("p99<"))?;
    let time: Time = bound.trim_start_matches('=').trim().parse().ok()?;
    drawable(time.0.as_secs_f64())
}

/// Workloads of one path that differ in their rate.
fn sweep(experiment: &Experiment, workload: &Workload) -> Option<Picture> {
    let rate = |other: &Workload| match other.kind {
        Kind::Bench { rate, .. } if other.path == workload.path && other.headers == workload.headers => {
            rate.and_then(drawable)
        }
        _ => None,
    };
    let mut rates: Vec<(f64, &Workload)> =
        experiment.plan().workloads.iter().filter_map(|other| Some((rate(other)?, other))).collect();
    let is_first = rates.first().is_some_and(|(_, first)| first.name == workload.name);
    rates.sort_by(|a, b| a.0.total_cmp(&b.0));
    if !is_first || rates.len() < 2 {
        return None;
    }
    let metric = Metric::named("p99_ns");
    let line = |(index, variant): (usize, &crate::plan::Variant)| {
        let point = |(rate, workload): &(f64, &Workload)| {
            Point::of(experiment, &variant.name, &workload.name, &metric, *rate)
        };
        Line {
            variant: variant.name.clone(),
            look: look(index),
            points: rates.iter().filter_map(point).collect(),
        }
    };
    let lines: Vec<_> = experiment.plan().variants.iter().enumerate().map(line).collect();
    Some(Picture {
        id: format!("rates-of-{}", slug(&workload.path)),
        title: format!("{}: latency over rate", workload.path),
        caption:
            "The median of the rounds at each rate, and each round as a dot; hollow where one of them is suspect, and on \
             top where all of them failed or had no answer."
                .to_owned(),
        max_rates: vec![None; lines.len()],
        lines,
        slo: None,
    })
}

fn draw(picture: &Picture) -> Option<Chart> {
    let Picture { lines, max_rates, .. } = picture;
    let points = || lines.iter().flat_map(|line| &line.points);
    let latencies = || points().flat_map(|point| &point.values).copied();
    latencies().next()?;
    let mut sheet = Sheet::new(&picture.title);
    let entry = |(line, max_rate): (&Line, &Option<Median>)| {
        let max_rate = match max_rate {
            Some(max_rate) => format!(", maximum {}", max_rate.text(Unit::Rate)),
            None if picture.slo.is_some() => ", no rate passed".to_owned(),
            None => String::new(),
        };
        Entry { key: Key::Curve(line.look), name: format!("{}{max_rate}", line.variant) }
    };
    legend::draw(&mut sheet, &lines.iter().zip(max_rates).map(entry).collect::<Vec<_>>());
    let bound = picture.slo.as_ref().and_then(|(_, bound)| *bound);
    let max_rates = max_rates.iter().flatten().map(|max_rate| max_rate.value);
    let rates: Vec<f64> = points().map(|point| point.x).chain(max_rates).collect();
    let x = Axis::fitting("requests asked", Unit::Rate, rates.iter().copied());
    let y = Axis::log("latency, p99", Unit::Time, latencies().chain(bound));
    let frame = Frame::draw(&mut sheet, 230.0, &x, &y, None);
    bounds(&mut sheet, &frame, (&x, &y), picture);
    lines::draw(&mut sheet, &frame, (&x, &y), lines, tip);
    let (id, title, caption) = (picture.id.clone(), picture.title.clone(), picture.caption.clone());
    Some(Chart { id, title, caption, svg: sheet.finish(), csv: csv(picture) })
}

/// Draws the results, and the limit of the latency.
fn bounds(sheet: &mut Sheet, frame: &Frame, (x, y): (&Axis, &Axis), picture: &Picture) {
    for (line, max_rate) in picture.lines.iter().zip(&picture.max_rates) {
        if let Some(max_rate) = max_rate {
            let x = frame.x(x.share(max_rate.value));
            sheet.line(&format!("line thin dash {}", line.look.class), (x, frame.top), (x, frame.bottom));
        }
    }
    if let Some((slo, Some(bound))) = &picture.slo {
        let y = frame.y(y.share(*bound));
        sheet.line("line thin dash", (frame.left, y), (frame.right, y));
        sheet.text_in(frame.right - frame.left, (frame.left + 6.0, y - 5.0), Anchor::Start, "halo", slo);
    }
}

fn tip(line: &Line, point: &Point) -> String {
    let value = match point.median() {
        Some(median) => format!("p99 {}", Unit::Time.text(median)),
        None if point.failed > 0 => "failed".to_owned(),
        None => "p99 no answer".to_owned(),
    };
    let said = if point.said.is_empty() { String::new() } else { format!("; {}", point.said) };
    format!("{}, {}: {value}{said}", line.variant, Unit::Rate.text(point.x))
}

fn csv(picture: &Picture) -> String {
    let columns = ["variant", "rate_per_s", "p99_s", "passed", "max_rate_per_s", "suspect", "failed_rounds"];
    let mut table = Table::new(&columns);
    for (line, max_rate) in picture.lines.iter().zip(&picture.max_rates) {
        for point in &line.points {
            // A sweep has no objective; the result of a search may be suspect.
            let (held, is_suspect) = match picture.slo {
                Some(_) => {
                    ((!point.is_suspect).to_string(), max_rate.is_some_and(|max_rate| max_rate.is_suspect))
                }
                None => (String::new(), point.is_suspect),
            };
            let row = |value: Option<f64>| {
                [
                    line.variant.clone(),
                    point.x.to_string(),
                    cell(value),
                    held.clone(),
                    cell(max_rate.map(|max_rate| max_rate.value)),
                    is_suspect.to_string(),
                    point.failed.to_string(),
                ]
            };
            if point.values.is_empty() {
                table.row(row(None));
            }
            for value in &point.values {
                table.row(row(Some(*value)));
            }
        }
    }
    table.finish()
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
        let mut experiment = fixtures::experiment(PLAN, |turn| match turn.workload {
            "k" => (turn.variant == "a").then(|| vec![("max_rate_per_s", [300.0, 100.0, 200.0][turn.round])]),
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
        assert_eq!(
            chart.csv,
            "variant,rate_per_s,p99_s,passed,max_rate_per_s,suspect,failed_rounds\r\na,100,0.001,true,200,false,0\r\n\
             a,200,0.002,true,200,false,0\r\na,200,0.004,true,200,false,0\r\na,400,,false,200,false,0\r\n"
        );
        assert!(chart.svg.contains(">a, maximum 200/s</text>"), "{}", chart.svg);
        assert!(chart.svg.contains("data-tip=\"a, 400/s: p99 no answer; at 400\""));
        assert!(chart.svg.contains(">errors&lt;1%, p99&lt;20ms</text>"));
    }

    #[test]
    fn workloads_of_one_path_at_several_rates_are_one_chart() {
        assert_eq!([charts_of(0).len(), charts_of(1).len(), charts_of(2).len()], [1, 0, 0]);
        let rows = "a,100,0.001,,,false,0\r\n".repeat(3) + &"a,900,0.001,,,false,0\r\n".repeat(3);
        assert!(charts_of(0)[0].csv.contains(&rows), "{}", charts_of(0)[0].csv);
    }

    #[test]
    fn a_max_rate_that_is_doubted_and_one_that_was_not_found_are_said() {
        let mut experiment = measured();
        let is_of_max_rate = |run: &&mut Run| run.workload == "k" && run.variant == "a";
        let concerns = vec!["max_rate_per_s".to_owned()];
        for run in experiment.runs.iter_mut().filter(is_of_max_rate).take(1) {
            run.warnings = vec![Warning { sentence: "errors".to_owned(), concerns: concerns.clone() }];
        }
        let chart = charts(&experiment, &experiment.plan().workloads[3]).remove(0);
        assert!(chart.svg.contains(">a, maximum 200/s†</text>"), "{}", chart.svg);
        assert!(chart.caption.contains('†') && chart.caption.ends_with(" Failed: b in 3 of 3 rounds."));
        assert!(chart.csv.contains("a,400,,false,200,true,0\r\n"), "{}", chart.csv);
        for run in experiment.runs.iter_mut().filter(is_of_max_rate) {
            run.metrics.clear();
        }
        let chart = charts(&experiment, &experiment.plan().workloads[3]).remove(0);
        assert!(chart.svg.contains(">a, no rate passed</text>"), "{}", chart.svg);
    }

    #[test]
    fn a_rate_at_which_a_variant_failed_is_shown_as_that() {
        let experiment = fixtures::experiment(PLAN, |turn| {
            (turn.variant == "a" || turn.workload != "fast").then(|| vec![("p99_ns", 1e6)])
        });
        let chart = charts(&experiment, &experiment.plan().workloads[0]).remove(0);
        assert!(chart.svg.contains("data-tip=\"b, 900/s: failed\""), "{}", chart.svg);
        assert!(chart.csv.contains("b,900,,,,false,3\r\n"), "{}", chart.csv);
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
