//! A row for each name, with its values as dots on a common axis.

use crate::frame::{Axis, Frame};
use crate::legend::{self, Entry};
use crate::mark::{Fill, Style, mark};
use crate::sheet::{Anchor, EDGE, Sheet, WIDTH, truncated_to, width};

/// A chart of rows.
#[derive(Debug, Clone, PartialEq)]
pub struct Rows {
    /// The title.
    pub title: String,
    /// The explanation of the marks.
    pub legend: Vec<Entry>,
    /// The common axis.
    pub x: Axis,
    /// From the top.
    pub rows: Vec<Row>,
}

/// A name, its dots and its value as text.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// The name on the left.
    pub name: String,
    /// The value on the right.
    pub text: String,
    /// A remark below the value; may be empty.
    pub note: String,
    /// The colour, and the shape of the dots.
    pub style: Style,
    /// Whether it is less important than the others.
    pub is_soft: bool,
    /// Whether it belongs to the row above.
    pub is_child: bool,
    /// The place of a line over the height of the row.
    pub line: Option<f64>,
    /// From the top of the row to its bottom, so that equal values do not overlap and drift is visible.
    pub dots: Vec<Dot>,
}

/// A value.
#[derive(Debug, Clone, PartialEq)]
pub struct Dot {
    /// On the common axis.
    pub value: f64,
    /// Its place between the top of the row and its bottom, from 0 to 1.
    pub place: f64,
    /// Its fill.
    pub fill: Fill,
    /// The text on hover and for the keyboard.
    pub tip: String,
}

/// The height of a row with several dots, and of one with one dot or none.
const HIGH: f64 = 34.0;
const LOW: f64 = 22.0;

/// The maximum width of names.
const NAME_MAX: f64 = 100.0;

impl Rows {
    /// The document.
    #[must_use]
    pub fn svg(&self) -> String {
        let mut sheet = Sheet::new(&self.title);
        legend::draw(&mut sheet, &self.legend);
        let widest =
            |texts: &mut dyn Iterator<Item = String>| texts.map(|text| width(&text)).fold(0.0, f64::max);
        let names = widest(&mut self.rows.iter().map(|row| truncated_to(&row.name, NAME_MAX)));
        let values =
            widest(&mut self.rows.iter().flat_map(|row| [row.text.clone(), row.note.clone()])) + 14.0;
        let room = self.rows.iter().map(Row::height).sum::<f64>() + 4.0;
        let frame = Frame::rows(&mut sheet, room, &self.x, names, values);
        let mut top = frame.top;
        for row in &self.rows {
            if !row.is_child && top > frame.top {
                sheet.line("grid", (EDGE, top), (WIDTH - EDGE, top));
            }
            row.draw(&mut sheet, &frame, &self.x, top);
            top += row.height();
        }
        sheet.finish(true)
    }
}

impl Row {
    fn height(&self) -> f64 {
        if self.dots.len() > 1 || !self.note.is_empty() { HIGH } else { LOW }
    }

    fn draw(&self, sheet: &mut Sheet, frame: &Frame, axis: &Axis, top: f64) {
        let (middle, reach) = (top + self.height() / 2.0, self.height() / 2.0 - 6.0);
        if let Some(value) = self.line {
            let x = frame.x(axis.share(value));
            sheet.line(
                &format!("line {}", self.style.class),
                (x, middle - reach - 4.0),
                (x, middle + reach + 4.0),
            );
        }
        for Dot { value, place, fill, tip } in &self.dots {
            let place = (frame.x(axis.share(*value)), middle + (2.0 * place.clamp(0.0, 1.0) - 1.0) * reach);
            mark(sheet, self.style, place, 3.5, *fill, tip);
        }
        let class = if self.is_soft { "soft" } else { "" };
        sheet.text_in(NAME_MAX, (EDGE, middle + 4.0), Anchor::Start, class, &self.name);
        let below = if self.note.is_empty() { 0.0 } else { 7.0 };
        sheet.text((WIDTH - EDGE, middle + 4.0 - below), Anchor::End, class, &self.text);
        if !self.note.is_empty() {
            sheet.text((WIDTH - EDGE, middle + 4.0 + below), Anchor::End, "soft", &self.note);
        }
    }
}
