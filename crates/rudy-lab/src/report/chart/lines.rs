//! A line for each variant over a varied parameter: shared by the charts of rates and of sizes.

use super::data::{Rounds, float, median};
use super::frame::{Axis, Frame};
use super::legend::{Entry, Key};
use super::mark::{Fill, Look, Shape, mark};
use super::sheet::Sheet;
use super::unit::{Metric, Unit};
use crate::experiment::Experiment;

/// The line of a variant.
#[derive(Debug, PartialEq)]
pub(super) struct Line {
    pub(super) variant: String,
    pub(super) look: Look,
    /// In ascending order of the parameter.
    pub(super) points: Vec<Point>,
}

/// The values of a variant for one parameter.
#[derive(Debug, PartialEq)]
pub(super) struct Point {
    pub(super) x: f64,
    /// A value for each measurement. Without a value, the line is broken.
    pub(super) values: Vec<f64>,
    /// The number of failed measurements.
    pub(super) failed: usize,
    /// Whether it includes a suspect run.
    pub(super) is_suspect: bool,
    /// An additional remark.
    pub(super) said: String,
}

/// The distance between crosses, if several lines lack a value at the same place.
const CROSS: f64 = 11.0;

impl Point {
    /// The rounds of a variant under the workload of this parameter; `None` if it did not run.
    pub(super) fn of(
        experiment: &Experiment,
        variant: &str,
        workload: &str,
        metric: &Metric,
        x: f64,
    ) -> Option<Self> {
        let rounds = Rounds::of(experiment, variant, workload, metric, false);
        let Rounds { failed, is_suspect, .. } = rounds;
        let warning = is_suspect.then(|| "suspect".to_owned());
        let said: Vec<String> = warning.into_iter().chain(rounds.failures()).collect();
        let values = rounds.seen.iter().map(|seen| seen.value).collect();
        (rounds.run > 0).then(|| Self { x, values, failed, is_suspect, said: said.join(", ") })
    }

    pub(super) fn median(&self) -> Option<f64> {
        median(&self.values)
    }

    /// The median with its unit, or why there is none.
    pub(super) fn text(&self, unit: Unit) -> String {
        match self.median() {
            Some(median) => unit.text(median),
            None if self.failed > 0 => "failed".to_owned(),
            None => "no metric".to_owned(),
        }
    }
}

/// Each line with its name.
pub(super) fn keys(lines: &[Line]) -> Vec<Entry> {
    let entry = |line: &Line| Entry { key: Key::Curve(line.look), name: line.variant.clone() };
    lines.iter().map(entry).collect()
}

/// Draws the medians as a line, and each single value faintly. `tip` is the text of a point. Missing values
/// are drawn on top, so that a line through their neighbours does not suggest a value.
pub(super) fn draw(
    sheet: &mut Sheet,
    frame: &Frame,
    (x, y): (&Axis, &Axis),
    lines: &[Line],
    tip: impl Fn(&Line, &Point) -> String,
) {
    let at = |point: &Point| Some(frame.at(x.share(point.x), y.share(point.median()?)));
    for line in lines {
        for stretch in line.points.split(|point| point.values.is_empty()) {
            sheet.path(&line.look.line(), &stretch.iter().filter_map(at).collect::<Vec<_>>());
        }
        for point in &line.points {
            let Some(place) = at(point) else { continue };
            for value in point.values.iter().filter(|_| point.values.len() > 1) {
                sheet.dot(line.look.class, frame.at(x.share(point.x), y.share(*value)));
            }
            let fill = if point.is_suspect { Fill::Hollow } else { Fill::Full };
            mark(sheet, line.look, place, 4.0, fill, "");
        }
    }
    // Above all lines, so that none of them covers the points with tips.
    for (index, line) in lines.iter().enumerate() {
        for point in &line.points {
            let tip = tip(line, point);
            if let Some(place) = at(point) {
                sheet.hit(place, &tip);
            } else {
                let above = nothing_at(&lines[..index], point.x);
                let place = (frame.x(x.share(point.x)), frame.top + float(above as u64) * CROSS);
                mark(sheet, Look { shape: Shape::Cross, ..line.look }, place, 4.0, Fill::Hollow, &tip);
            }
        }
    }
}

/// How many of the lines lack a value at this place.
fn nothing_at(lines: &[Line], x: f64) -> usize {
    let points = lines.iter().flat_map(|line| &line.points);
    points.filter(|point| point.values.is_empty() && point.x.total_cmp(&x).is_eq()).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::chart::mark::look;

    #[test]
    fn a_line_is_broken_where_nothing_was_measured() {
        let points = |values: [f64; 5]| -> Vec<Point> {
            let point = |(x, value): (f64, f64)| Point {
                x,
                values: Some(value).into_iter().filter(|value| *value > 0.0).collect(),
                failed: usize::from(value <= 0.0),
                is_suspect: false,
                said: String::new(),
            };
            [1.0, 2.0, 3.0, 4.0, 5.0].into_iter().zip(values).map(point).collect()
        };
        let line = |index, values| Line {
            variant: format!("variant {index}"),
            look: look(index),
            points: points(values),
        };
        let mut sheet = Sheet::new("t");
        let (x, y) = (Axis::linear("n", Unit::Count, 5.0), Axis::linear("t", Unit::Time, 9.0));
        let frame = Frame::draw(&mut sheet, 100.0, &x, &y, None);
        let lines = [line(0, [1.0, 2.0, 0.0, 4.0, 5.0]), line(1, [1.0, 2.0, 0.0, 0.0, 5.0])];
        draw(&mut sheet, &frame, (&x, &y), &lines, |line, point| {
            format!("{}: {}", line.variant, point.text(Unit::Time))
        });
        let svg = sheet.finish();
        assert_eq!(svg.matches("<polyline class=\"line s0\"").count(), 2, "before and after");
        assert_eq!(svg.matches("<polyline class=\"line s1\"").count(), 1, "a point alone is no line");
        assert_eq!(svg.matches("data-tip=\"variant 1: failed\"").count(), 2);
        assert_eq!([3.0, 4.0, 5.0].map(|x| nothing_at(&lines, x)), [2, 1, 0]);
    }
}
