//! The data of a chart as CSV (RFC 4180), with units in the column names.

use crate::report::cells::{csv_line, text};

/// A table that is being filled.
pub(super) struct Table {
    columns: usize,
    text: String,
}

impl Table {
    /// With these columns.
    pub(super) fn new(columns: &[&str]) -> Self {
        let mut table = Self { columns: columns.len(), text: String::new() };
        table.row(columns.iter().map(|column| (*column).to_owned()));
        table
    }

    /// Adds a row.
    pub(super) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let cells: Vec<String> = cells.into_iter().map(|cell| text(&cell)).collect();
        debug_assert_eq!(cells.len(), self.columns, "a cell for each column");
        self.text.push_str(&csv_line(&cells));
    }

    /// All of it.
    pub(super) fn finish(self) -> String {
        self.text
    }
}

/// A number that may be missing.
pub(super) fn cell(value: Option<f64>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_may_hold_anything() {
        let mut table = Table::new(&["variant", "p99_ns"]);
        table.row(["a, \"b\"".to_owned(), cell(Some(1.5))]);
        table.row(["c".to_owned(), cell(None)]);
        assert_eq!(table.finish(), "variant,p99_ns\r\n\"a, \"\"b\"\"\",1.5\r\nc,\r\n");
    }

    #[test]
    fn a_name_is_no_formula_and_a_number_stays_one() {
        let mut table = Table::new(&["variant", "change"]);
        table.row(["=1+1".to_owned(), "-1.5".to_owned()]);
        assert_eq!(table.finish(), "variant,change\r\n'=1+1,-1.5\r\n");
    }
}
