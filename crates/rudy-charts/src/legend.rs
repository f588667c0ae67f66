//! The legend: names with their marks, in as many lines as needed.

use crate::mark::{Fill, Style, mark};
use crate::sheet::{Anchor, EDGE, Sheet, WIDTH, truncated_to, width};

/// A name and what stands before it.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// The mark.
    pub key: Key,
    /// The name.
    pub name: String,
}

/// The symbol before a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    /// A line with points.
    Curve(Style),
    /// A point.
    Mark(Style, Fill),
    /// A line of these classes.
    Line(&'static str),
    /// An area of this class.
    Area(&'static str),
}

/// The width of a key, and the gap after a name.
const KEY: f64 = 26.0;
const AFTER: f64 = 14.0;

/// No name takes more.
const NAME_MAX: f64 = 190.0;

const LINE: f64 = 18.0;

/// Draws it below what is on the sheet.
pub(crate) fn draw(sheet: &mut Sheet, entries: &[Entry]) {
    let mut x = EDGE;
    if !entries.is_empty() {
        sheet.bottom += LINE;
    }
    for entry in entries {
        let wide = KEY + width(&truncated_to(&entry.name, NAME_MAX));
        if x > EDGE && x + wide > WIDTH - EDGE {
            x = EDGE;
            sheet.bottom += LINE;
        }
        let y = sheet.bottom - 8.0;
        key(sheet, entry.key, x, y);
        sheet.text_in(NAME_MAX, (x + KEY, y + 4.0), Anchor::Start, "", &entry.name);
        x += wide + AFTER;
    }
}

fn key(sheet: &mut Sheet, key: Key, x: f64, y: f64) {
    let mut line = |class: &str| sheet.line(class, (x, y), (x + KEY - 6.0, y));
    let middle = (x + KEY / 2.0 - 3.0, y);
    match key {
        Key::Curve(style) => {
            line(&style.line());
            mark(sheet, style, middle, 4.0, Fill::Full, "");
        }
        Key::Mark(style, fill) => mark(sheet, style, middle, 4.0, fill, ""),
        Key::Line(class) => line(class),
        Key::Area(class) => {
            sheet.rectangle(&format!("class=\"{class} area\""), (x + 2.0, y - 6.0), (KEY - 10.0, 12.0), "");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mark::style;

    #[test]
    fn a_legend_takes_as_many_lines_as_it_needs() {
        let lines = |names: usize| {
            let mut sheet = Sheet::new("x");
            let before = sheet.bottom;
            let entry = |index| Entry { key: Key::Curve(style(index)), name: format!("a long name {index}") };
            draw(&mut sheet, &(0..names).map(entry).collect::<Vec<_>>());
            ((sheet.bottom - before) / LINE).round()
        };
        assert_eq!([0, 1, 8].map(|names| format!("{}", lines(names))), ["0", "1", "4"]);
    }
}
