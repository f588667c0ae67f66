//! The numbers of a chart as CSV (RFC 4180), with a unit in the name of each column.

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
        let cells: Vec<_> = cells.into_iter().map(|cell| quoted(&cell)).collect();
        debug_assert_eq!(cells.len(), self.columns, "a cell for each column");
        self.text.push_str(&cells.join(","));
        self.text.push_str("\r\n");
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

fn quoted(cell: &str) -> String {
    if cell.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", cell.replace('"', "\"\""))
    } else {
        cell.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_may_hold_anything() {
        let mut table = Table::new(&["subject", "p99_ns"]);
        table.row(["a, \"b\"".to_owned(), cell(Some(1.5))]);
        table.row(["c".to_owned(), cell(None)]);
        assert_eq!(table.finish(), "subject,p99_ns\r\n\"a, \"\"b\"\"\",1.5\r\nc,\r\n");
    }
}
