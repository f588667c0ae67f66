//! A line for each subject over something that was varied: shared by the charts of a rate and of a size.

use super::data::{median, seen};
use super::frame::{Axis, Frame};
use super::legend::{Entry, Key};
use super::mark::{Fill, Look, mark};
use super::sheet::Sheet;
use super::unit::Figure;
use crate::experiment::Experiment;

/// What a subject showed.
#[derive(Debug, PartialEq)]
pub(super) struct Line {
    pub(super) subject: String,
    pub(super) look: Look,
    /// In ascending order of what was varied.
    pub(super) points: Vec<Point>,
}

/// What a subject showed at one value of what was varied.
#[derive(Debug, PartialEq)]
pub(super) struct Point {
    pub(super) x: f64,
    /// A value for each time that it was measured. Where there is none, the line goes on to the next point.
    pub(super) values: Vec<f64>,
    /// There is a doubt about it, or it is not what was asked for.
    pub(super) is_doubtful: bool,
    /// What else is to be said of it.
    pub(super) said: String,
}

impl Point {
    /// The rounds of a subject under a load that stands for this value; nothing where it has none.
    pub(super) fn of(
        experiment: &Experiment,
        subject: &str,
        load: &str,
        figure: &Figure,
        x: f64,
    ) -> Option<Self> {
        let rounds: Vec<_> =
            seen(experiment, subject, load, figure).into_iter().filter(|seen| !seen.is_control).collect();
        let is_doubtful = rounds.iter().filter(|seen| seen.is_doubtful).count() * 2 > rounds.len();
        let said = if is_doubtful { "doubtful".to_owned() } else { String::new() };
        let values: Vec<f64> = rounds.iter().map(|seen| seen.value).collect();
        (!values.is_empty()).then_some(Self { x, values, is_doubtful, said })
    }

    pub(super) fn median(&self) -> Option<f64> {
        median(self.values.clone())
    }
}

/// Each line with its name.
pub(super) fn keys(lines: &[Line]) -> Vec<Entry> {
    let entry = |line: &Line| Entry { key: Key::Curve(line.look), name: line.subject.clone() };
    lines.iter().map(entry).collect()
}

/// Draws the medians as a line, and each single value faintly; `tip` says what is at a point.
pub(super) fn draw(
    sheet: &mut Sheet,
    frame: &Frame,
    (x, y): (&Axis, &Axis),
    lines: &[Line],
    tip: impl Fn(&Line, &Point) -> String,
) {
    for line in lines {
        let medians: Vec<_> = medians(frame, (x, y), line).collect();
        sheet.path(&line.look.line(), &medians.iter().map(|(_, place)| *place).collect::<Vec<_>>());
        for (point, place) in medians {
            for value in point.values.iter().filter(|_| point.values.len() > 1) {
                sheet.dot(line.look.class, frame.at(x.share(point.x), y.share(*value)));
            }
            let fill = if point.is_doubtful { Fill::Hollow } else { Fill::Full };
            mark(sheet, line.look, place, 4.0, fill, "");
        }
    }
    // Above all lines, so that none of them hides what is to be pointed at.
    for line in lines {
        for (point, place) in medians(frame, (x, y), line) {
            sheet.hit(place, &tip(line, point));
        }
    }
}

fn medians<'a>(
    frame: &'a Frame,
    (x, y): (&'a Axis, &'a Axis),
    line: &'a Line,
) -> impl Iterator<Item = (&'a Point, (f64, f64))> {
    line.points
        .iter()
        .filter_map(move |point| Some((point, frame.at(x.share(point.x), y.share(point.median()?)))))
}
