//! A series of points, such as the values of a server over a parameter.

use rudy_units::float;

use crate::frame::{Axis, Frame};
use crate::mark::{Fill, Shape, Style, mark};
use crate::sheet::{Sheet, WIDTH};

/// A named series. Its points are in ascending order of x.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// The name in the legend.
    pub name: String,
    /// Its colour and the shape of its points.
    pub style: Style,
    /// The line.
    pub points: Vec<Point>,
    /// Further lines, faint behind the others, such as single measurements.
    pub faint: Vec<Vec<(f64, f64)>>,
}

/// A point of a series.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Point {
    /// The parameter.
    pub x: f64,
    /// The value; `None` breaks the line, and with a tip draws a cross at the top.
    pub y: Option<f64>,
    /// Single values behind this one, drawn as faint dots.
    pub each: Vec<f64>,
    /// Whether the point is drawn hollow, because its value is suspect.
    pub is_hollow: bool,
    /// The text on hover and for the keyboard. A point without it is only part of the line.
    pub tip: String,
}

/// The distance between crosses, if several series lack a value at the same place.
const CROSS: f64 = 11.0;

/// Up to this number of points, each has a mark; a longer line has some, so that lines differ without colour.
const MARKS_MAX: usize = 12;
const MARK_APART: f64 = WIDTH / 7.0;

/// The minimum distance of points with tips.
const TIP_APART: f64 = 3.0;

impl Series {
    /// A series without faint lines.
    #[must_use]
    pub fn new(name: impl Into<String>, style: Style, points: Vec<Point>) -> Self {
        Self { name: name.into(), style, points, faint: Vec::new() }
    }

    /// Its points that have a value, for axes.
    pub fn places(&self) -> impl Iterator<Item = (f64, f64)> {
        self.points.iter().filter_map(|point| Some((point.x, point.y?)))
    }

    /// All values, for an axis.
    pub fn values(&self) -> impl Iterator<Item = f64> {
        let points =
            self.points.iter().flat_map(|point| point.y.into_iter().chain(point.each.iter().copied()));
        points.chain(self.faint.iter().flatten().map(|(_, y)| *y))
    }
}

/// Draws the lines and marks of all series, and then the tips, so that no line covers them.
pub(crate) fn draw(sheet: &mut Sheet, frame: &Frame, (x, y): (&Axis, &Axis), series: &[Series]) {
    let at = |(of_x, of_y): (f64, f64)| frame.at(x.share(of_x), y.share(of_y));
    for one in series {
        for line in &one.faint {
            let places: Vec<_> = line.iter().copied().map(at).collect();
            sheet.path(&format!("{} faint", one.style.line()), &places);
        }
    }
    for one in series {
        lines_and_marks(sheet, at, one);
    }
    for (index, one) in series.iter().enumerate() {
        let mut last = None;
        for point in one.points.iter().filter(|point| !point.tip.is_empty()) {
            let Some(value) = point.y else {
                let above = float(missing_at(&series[..index], point.x) as u64);
                let place = (frame.x(x.share(point.x)), frame.top + above * CROSS);
                mark(sheet, Style { shape: Shape::Cross, ..one.style }, place, 4.0, Fill::Hollow, &point.tip);
                continue;
            };
            let place = at((point.x, value));
            if last.is_none_or(|last| apart(last, place) >= TIP_APART) {
                last = Some(place);
                sheet.tip_target(place, &point.tip);
            }
        }
    }
}

fn lines_and_marks(sheet: &mut Sheet, at: impl Fn((f64, f64)) -> (f64, f64), series: &Series) {
    let place = |point: &Point| Some(at((point.x, point.y?)));
    for stretch in series.points.split(|point| point.y.is_none()) {
        sheet.path(&series.style.line(), &stretch.iter().filter_map(place).collect::<Vec<_>>());
    }
    let marked: Vec<_> = series.points.iter().filter(|point| !point.tip.is_empty()).collect();
    let mut last = None;
    for point in &marked {
        let Some(place) = place(point) else { continue };
        for value in &point.each {
            sheet.dot(series.style.class, at((point.x, *value)));
        }
        if marked.len() > MARKS_MAX && last.is_some_and(|last| apart(last, place) < MARK_APART) {
            continue;
        }
        last = Some(place);
        let fill = if point.is_hollow { Fill::Hollow } else { Fill::Full };
        mark(sheet, series.style, place, 4.0, fill, "");
    }
}

fn apart(a: (f64, f64), b: (f64, f64)) -> f64 {
    (a.0 - b.0).hypot(a.1 - b.1)
}

/// The number of series without a value at this position.
fn missing_at(series: &[Series], x: f64) -> usize {
    let points = series.iter().flat_map(|one| &one.points);
    points.filter(|point| point.y.is_none() && point.x.total_cmp(&x).is_eq()).count()
}
