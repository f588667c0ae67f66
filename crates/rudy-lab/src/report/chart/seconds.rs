//! A workload over time: the rate and the p99 by second. Shows pauses and slowdowns, which medians hide.

use super::Chart;
use super::data::{drawable, failures, is_suspect, slug};
use super::frame::{Axis, Frame};
use super::legend::{self, Entry, Key};
use super::mark::{Fill, Look, look, mark};
use super::sheet::Sheet;
use super::table::{Table, cell};
use super::unit::Unit;
use crate::experiment::Experiment;
use crate::plan::{Kind, Workload};
use crate::record::Interval;

/// A variant in the first measured round.
struct Course {
    variant: String,
    look: Look,
    /// From 1.
    round: usize,
    /// Whether its data is suspect.
    is_suspect: bool,
    seconds: Vec<Second>,
}

#[expect(clippy::struct_field_names, reason = "the end of a name is its unit")]
struct Second {
    /// Its end, since the start of the workload.
    t_s: f64,
    requests_per_s: Option<f64>,
    /// `None` without a response.
    p99_s: Option<f64>,
}

/// The values over time.
struct Quantity {
    title: &'static str,
    unit: Unit,
    of: fn(&Second) -> Option<f64>,
}

const QUANTITIES: [Quantity; 2] = [
    Quantity { title: "answers", unit: Unit::Rate, of: |second| second.requests_per_s },
    Quantity { title: "latency, p99", unit: Unit::Time, of: |second| second.p99_s },
];

/// The metrics whose warnings affect the values over time.
const METRICS: [&str; 2] = ["requests_per_s", "p99_ns"];

/// Minimum number of seconds for a chart.
const SECONDS_MIN: usize = 3;

const HEIGHT: f64 = 110.0;

/// The approximate number of marks of a line, so that lines are distinguishable without colour.
const MARKS: usize = 6;

/// The minimum distance of points with tips.
const APART: f64 = 3.0;

/// The chart of a workload whose generator reports every second.
pub(super) fn charts(experiment: &Experiment, workload: &Workload) -> Vec<Chart> {
    if !matches!(workload.kind, Kind::Bench { .. }) {
        return Vec::new();
    }
    let variants = experiment.plan().variants.iter().enumerate();
    let courses: Vec<Course> = variants
        .filter_map(|(index, variant)| course(experiment, index, &variant.name, &workload.name))
        .collect();
    if courses.is_empty() {
        return Vec::new();
    }
    let title = format!("{}: requests and latency by the second", workload.name);
    let mut sheet = Sheet::new(&title);
    draw(&mut sheet, &courses);
    vec![Chart {
        id: format!("seconds-{}", slug(&workload.name)),
        title,
        caption: format!(
            "The first round of each variant that was measured, second by second.{}",
            failures(experiment, &workload.name)
        ),
        svg: sheet.finish(),
        csv: csv(&courses),
    }]
}

fn course(experiment: &Experiment, index: usize, variant: &str, workload: &str) -> Option<Course> {
    let run = experiment.measured(variant, workload).next()?;
    let second = |interval: &Interval| {
        Some(Second {
            t_s: drawable(interval.t_s)?,
            requests_per_s: drawable(interval.requests_per_s),
            p99_s: interval.p99_ns.and_then(|ns| drawable(ns * 1e-9)),
        })
    };
    let seconds: Vec<Second> = run.intervals.iter().filter_map(second).collect();
    (seconds.len() >= SECONDS_MIN).then(|| Course {
        variant: variant.to_owned(),
        look: look(index),
        round: run.round + 1,
        is_suspect: METRICS.iter().any(|metric| is_suspect(run, metric)),
        seconds,
    })
}

fn draw(sheet: &mut Sheet, courses: &[Course]) {
    let entry = |course: &Course| Entry {
        key: Key::Curve(course.look),
        name: format!("{}, round {}", course.variant, course.round),
    };
    legend::draw(sheet, &courses.iter().map(entry).collect::<Vec<_>>());
    let seconds = || courses.iter().flat_map(|course| &course.seconds);
    let x = Axis::linear("time", Unit::Time, seconds().map(|second| second.t_s).fold(0.0, f64::max));
    for quantity in &QUANTITIES {
        let y = Axis::fitting(quantity.title, quantity.unit, seconds().filter_map(quantity.of));
        let frame = Frame::draw(sheet, HEIGHT, &x, &y, None);
        for course in courses {
            line(sheet, &frame, (&x, &y), course, quantity);
        }
        // Above all lines, so that none of them covers the points with tips.
        for course in courses {
            tips(sheet, &frame, (&x, &y), course, quantity);
        }
    }
}

/// Broken if a second has no value.
fn line(sheet: &mut Sheet, frame: &Frame, (x, y): (&Axis, &Axis), course: &Course, quantity: &Quantity) {
    let at = |second: &Second| Some(frame.at(x.share(second.t_s), y.share((quantity.of)(second)?)));
    for stretch in course.seconds.split(|second| (quantity.of)(second).is_none()) {
        sheet.path(&course.look.line(), &stretch.iter().filter_map(at).collect::<Vec<_>>());
    }
    let fill = if course.is_suspect { Fill::Hollow } else { Fill::Full };
    let step = (course.seconds.len() / MARKS).max(1);
    for place in course.seconds.iter().step_by(step).filter_map(at) {
        mark(sheet, course.look, place, 3.5, fill, "");
    }
}

fn tips(sheet: &mut Sheet, frame: &Frame, (x, y): (&Axis, &Axis), course: &Course, quantity: &Quantity) {
    let warning = if course.is_suspect { ", suspect" } else { "" };
    let mut last = f64::NEG_INFINITY;
    for second in &course.seconds {
        let Some(value) = (quantity.of)(second) else { continue };
        let place = frame.at(x.share(second.t_s), y.share(value));
        if place.0 - last < APART {
            continue;
        }
        last = place.0;
        let (time, value) = (Unit::Time.text(second.t_s.round()), quantity.unit.text(value));
        sheet.hit(place, &format!("{}, {time}: {value}{warning}", course.variant));
    }
}

fn csv(courses: &[Course]) -> String {
    let mut table = Table::new(&["variant", "round", "t_s", "requests_per_s", "p99_s", "suspect"]);
    for Course { variant, round, is_suspect, seconds, .. } in courses {
        for second in seconds {
            table.row([
                variant.clone(),
                round.to_string(),
                second.t_s.to_string(),
                cell(second.requests_per_s),
                cell(second.p99_s),
                is_suspect.to_string(),
            ]);
        }
    }
    table.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixtures;

    const PLAN: &str = "rounds = 2\n[[variant]]\nname = \"a\"\ncommand = [\"a\"]\n\
        [[workload]]\nname = \"l\"\nkind = \"bench\"\n";

    fn with_seconds(seconds: u32) -> Experiment {
        let mut experiment = fixtures::experiment(PLAN, |turn| (turn.round > 0).then(Vec::new));
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
    fn each_second_is_drawn_and_one_without_an_answer_breaks_the_line() {
        let experiment = with_seconds(5);
        let chart = charts(&experiment, &experiment.plan().workloads[0]).remove(0);
        assert_eq!(
            chart.svg.matches("<polyline class=\"line s0\"").count(),
            1 + 1 + 2,
            "legend, rate, latency"
        );
        assert!(
            chart.svg.contains("data-tip=\"a, 4 s: 4,000/s\"")
                && chart.svg.contains("data-tip=\"a, 4 s: 2 ms\"")
        );
        assert!(chart.svg.contains(">a, round 2</text>"), "the first one failed: {}", chart.svg);
        assert!(chart.csv.contains("\r\na,2,3,3000,,false\r\n"), "{}", chart.csv);
    }

    #[test]
    fn two_seconds_are_no_development() {
        for (seconds, number) in [(0, 0), (2, 0), (3, 1)] {
            let experiment = with_seconds(seconds);
            assert_eq!(charts(&experiment, &experiment.plan().workloads[0]).len(), number, "{seconds}");
        }
    }
}
