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
        let cells: Vec<_> = cells.into_iter().map(|cell| field(&cell)).collect();
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

/// As a field. A spreadsheet would compute text that begins like a formula (CWE-1236): an apostrophe before it says that it is
/// text. What is a number stays one.
fn field(cell: &str) -> String {
    let is_formula = cell.starts_with(['=', '+', '-', '@', '\t', '\r']) && cell.parse::<f64>().is_err();
    let cell = format!("{}{cell}", if is_formula { "'" } else { "" });
    if cell.contains([',', '"', '\n', '\r']) { format!("\"{}\"", cell.replace('"', "\"\"")) } else { cell }
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

    #[test]
    fn no_text_is_a_formula_and_a_number_stays_one() {
        for (cell, in_csv) in [
            ("=HYPERLINK(\"http://x\",\"y\")", "\"'=HYPERLINK(\"\"http://x\"\",\"\"y\"\")\""),
            ("+1+1", "'+1+1"),
            ("-x", "'-x"),
            ("@SUM(A1)", "'@SUM(A1)"),
            ("-1.5", "-1.5"),
            ("1e-9", "1e-9"),
            ("a=b", "a=b"),
            ("", ""),
        ] {
            assert_eq!(field(cell), in_csv);
        }
    }
}
