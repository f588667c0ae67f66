//! Areas with axes, and what is drawn in them.

use crate::frame::{Axis, Frame};
use crate::legend::{self, Entry, Key};
use crate::series::{self, Series};
use crate::sheet::{Anchor, EDGE, Sheet, WIDTH};
use crate::stack::Stack;

/// A chart of one or more areas below each other.
#[derive(Debug, Clone, PartialEq)]
pub struct Plot {
    /// The title.
    pub title: String,
    /// The explanation of colours and marks that all areas share.
    pub legend: Vec<Entry>,
    /// The areas.
    pub panels: Vec<Panel>,
}

/// An area with axes.
#[derive(Debug, Clone, PartialEq)]
pub struct Panel {
    /// The heading; may be empty.
    pub name: String,
    /// The explanation of its own colours.
    pub legend: Vec<Entry>,
    /// The height of the area.
    pub height: f64,
    /// The axis below.
    pub x: Axis,
    /// The axis on the left.
    pub y: Axis,
    /// An axis on the right and the class of its colour. Only lines that name it belong to it.
    pub right: Option<(Axis, &'static str)>,
    /// Areas, behind everything else.
    pub stack: Option<Stack>,
    /// Lines without points.
    pub lines: Vec<Line>,
    /// Lines with points.
    pub series: Vec<Series>,
    /// Straight lines at a value.
    pub rules: Vec<Rule>,
    /// Tips over the whole height.
    pub columns: Vec<Column>,
}

/// A line without points.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// The classes of its style.
    pub class: String,
    /// Its own scale instead of that on the left.
    pub axis: Option<Axis>,
    /// Its places.
    pub points: Vec<(f64, f64)>,
}

/// A straight line across the area.
#[derive(Debug, Clone, PartialEq)]
pub struct Rule {
    /// Its place.
    pub at: At,
    /// The classes of its style.
    pub class: String,
    /// The text at a horizontal line; may be empty.
    pub label: String,
}

/// The place of a straight line.
#[derive(Debug, Clone, PartialEq)]
pub enum At {
    /// Vertical, at a value of the axis below.
    X(f64),
    /// Horizontal, at a value of the axis on the left or of another one.
    Y(f64, Option<Axis>),
}

/// A tip over the whole height, from the end of the previous column.
#[derive(Debug, Clone, PartialEq)]
pub struct Column {
    /// Its end on the axis below.
    pub end: f64,
    /// The text.
    pub tip: String,
}

impl Plot {
    /// The document.
    #[must_use]
    pub fn svg(&self) -> String {
        self.sheet().finish(true)
    }

    /// The element for a page that has [`STYLE`](crate::STYLE), whose policy may forbid styles in elements.
    #[must_use]
    pub fn element(&self) -> String {
        self.sheet().finish(false)
    }

    fn sheet(&self) -> Sheet {
        let mut sheet = Sheet::new(&self.title);
        legend::draw(&mut sheet, &self.legend);
        for panel in &self.panels {
            panel.draw(&mut sheet);
        }
        sheet
    }
}

impl Panel {
    /// An empty area.
    #[must_use]
    pub fn new(height: f64, x: Axis, y: Axis) -> Self {
        Self {
            name: String::new(),
            legend: Vec::new(),
            height,
            x,
            y,
            right: None,
            stack: None,
            lines: Vec::new(),
            series: Vec::new(),
            rules: Vec::new(),
            columns: Vec::new(),
        }
    }

    /// An area with series, each of which is in the legend of the plot.
    #[must_use]
    pub fn of_series(height: f64, x: Axis, y: Axis, series: Vec<Series>) -> Self {
        Self { series, ..Self::new(height, x, y) }
    }

    fn draw(&self, sheet: &mut Sheet) {
        if !self.name.is_empty() {
            sheet.bottom += 18.0;
            sheet.text_in(WIDTH - 2.0 * EDGE, (EDGE, sheet.bottom - 4.0), Anchor::Start, "name", &self.name);
        }
        legend::draw(sheet, &self.legend);
        let (x, y) = (&self.x, &self.y);
        let right = self.right.as_ref().map(|(axis, class)| (axis, *class));
        let frame = Frame::draw(sheet, self.height, x, y, right);
        if let Some(stack) = &self.stack {
            stack.draw(sheet, &frame, (x, y));
        }
        for line in &self.lines {
            let y = line.axis.as_ref().unwrap_or(y);
            let at = |(of_x, of_y): &(f64, f64)| frame.at(x.share(*of_x), y.share(*of_y));
            sheet.path(&line.class, &line.points.iter().map(at).collect::<Vec<_>>());
        }
        for rule in &self.rules {
            rule.draw(sheet, &frame, (x, y));
        }
        series::draw(sheet, &frame, (x, y), &self.series);
        self.tips(sheet, &frame);
    }

    fn tips(&self, sheet: &mut Sheet, frame: &Frame) {
        let mut left = frame.left;
        for (index, Column { end, tip }) in self.columns.iter().enumerate() {
            let right = frame.x(self.x.share(*end));
            // Columns at the same position cannot have separate tips.
            if right - left < 1.0 && index > 0 {
                continue;
            }
            let size = ((right - left).max(2.0), frame.bottom - frame.top);
            sheet.rectangle("class=\"hit\"", (left, frame.top), size, tip);
            left = right;
        }
    }
}

impl Rule {
    fn draw(&self, sheet: &mut Sheet, frame: &Frame, (x, y): (&Axis, &Axis)) {
        match &self.at {
            At::X(value) => {
                let x = frame.x(x.share(*value));
                sheet.line(&self.class, (x, frame.top), (x, frame.bottom));
            }
            At::Y(value, axis) => {
                let y = frame.y(axis.as_ref().unwrap_or(y).share(*value));
                sheet.line(&self.class, (frame.left, y), (frame.right, y));
                let room = frame.right - frame.left - 12.0;
                sheet.text_in(room, (frame.right - 6.0, y - 5.0), Anchor::End, "halo", &self.label);
            }
        }
    }
}

/// Each series with its name.
#[must_use]
pub(crate) fn legend_of(series: &[Series]) -> Vec<Entry> {
    series.iter().map(|one| Entry { key: Key::Curve(one.style), name: one.name.clone() }).collect()
}

impl Plot {
    /// A plot whose legend has the series of the first area.
    #[must_use]
    pub fn new(title: impl Into<String>, panels: Vec<Panel>) -> Self {
        let legend = panels.first().map(|panel| legend_of(&panel.series)).unwrap_or_default();
        Self { title: title.into(), legend, panels }
    }
}
