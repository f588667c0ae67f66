//! A table whose cells are shaded.

use rudy_units::float;

use crate::sheet::{Anchor, EDGE, Sheet, WIDTH, truncated_to, width};

/// A table whose cells are shaded.
#[derive(Debug, Clone, PartialEq)]
pub struct Heat {
    /// The title.
    pub title: String,
    /// The name of the parameter of the columns.
    pub of: String,
    /// The labels of the columns.
    pub columns: Vec<String>,
    /// A name, and a cell for each column.
    pub rows: Vec<(String, Vec<Cell>)>,
}

/// A cell.
#[derive(Debug, Clone, PartialEq)]
pub struct Cell {
    /// The first of these texts that fits is shown.
    pub texts: Vec<String>,
    /// From 0 to 1; `None` without a value.
    pub shade: Option<f64>,
    /// The text on hover and for the keyboard.
    pub tip: String,
}

const ROW: f64 = 26.0;

/// The maximum width of names.
const NAME_MAX: f64 = 90.0;

impl Heat {
    /// The document.
    #[must_use]
    pub fn svg(&self) -> String {
        let mut sheet = Sheet::new(&self.title);
        let names =
            self.rows.iter().map(|(name, _)| width(&truncated_to(name, NAME_MAX))).fold(0.0, f64::max);
        let left = EDGE + names + 8.0;
        let wide = (WIDTH - EDGE - left) / float(self.columns.len().max(1) as u64);
        let mut top = sheet.bottom + 4.0;
        for (name, cells) in &self.rows {
            sheet.text_in(NAME_MAX, (left - 8.0, top + ROW / 2.0 + 4.0), Anchor::End, "", name);
            for (index, cell) in cells.iter().enumerate() {
                cell.draw(&mut sheet, (left + float(index as u64) * wide, top), wide);
            }
            top += ROW;
        }
        for (index, label) in self.columns.iter().enumerate() {
            if width(label) < wide {
                let middle = left + (float(index as u64) + 0.5) * wide;
                sheet.text((middle, top + 16.0), Anchor::Middle, "soft", label);
            }
        }
        sheet.text((WIDTH - EDGE, top + 34.0), Anchor::End, "soft", &self.of);
        sheet.bottom = top + 36.0;
        sheet.finish(true)
    }
}

impl Cell {
    fn draw(&self, sheet: &mut Sheet, (x, top): (f64, f64), wide: f64) {
        let opacity = self.shade.map_or(0.0, opacity);
        let attributes = format!("class=\"s0 cell\" fill-opacity=\"{opacity:.2}\"");
        sheet.rectangle(&attributes, (x, top), (wide, ROW), &self.tip);
        if let Some(text) = self.texts.iter().find(|text| width(text) < wide) {
            sheet.text((x + wide / 2.0, top + ROW / 2.0 + 4.0), Anchor::Middle, "", text);
        }
    }
}

/// The intensity of the colour. Above two thirds, text on it would be unreadable.
pub(crate) fn opacity(shade: f64) -> f64 {
    0.06 + 0.6 * if shade.is_finite() { shade.clamp(0.0, 1.0) } else { 0.0 }
}
