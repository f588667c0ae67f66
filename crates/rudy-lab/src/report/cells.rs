//! CSV cells and lines (RFC 4180), for the rows of a report and the data of its charts.

/// Characters that a spreadsheet reads as the start of a formula.
const FORMULA: [char; 6] = ['=', '+', '-', '@', '\t', '\r'];

/// A line of cells, which must be escaped already: [`text`] escapes text.
pub(crate) fn csv_line(cells: &[String]) -> String {
    cells.join(",") + "\r\n"
}

/// A text cell, quoted if necessary. Names and program output are untrusted, and spreadsheets compute text
/// that looks like a formula, so such text is prefixed with an apostrophe. Numbers stay unchanged, also
/// negative ones.
pub(crate) fn text(cell: &str) -> String {
    let is_number = cell.parse::<f64>().is_ok();
    let cell = if cell.starts_with(FORMULA) && !is_number { format!("'{cell}") } else { cell.to_owned() };
    if cell.contains(['"', ',', '\n', '\r']) { format!("\"{}\"", cell.replace('"', "\"\"")) } else { cell }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_may_hold_anything_and_is_no_formula() {
        for (cell, expected) in [
            ("", ""),
            ("plain", "plain"),
            ("a, \"b\"", "\"a, \"\"b\"\"\""),
            ("two\nlines", "\"two\nlines\""),
            ("=1+1", "'=1+1"),
            ("@sum(a1)", "'@sum(a1)"),
            ("+a", "'+a"),
            ("-a", "'-a"),
            ("\ta", "'\ta"),
            ("=a(1,2)", "\"'=a(1,2)\""),
            ("-1.5", "-1.5"),
            ("1e-7", "1e-7"),
        ] {
            assert_eq!(text(cell), expected);
        }
    }

    #[test]
    fn a_line_has_its_end() {
        assert_eq!(csv_line(&[text("a,b"), 1.5.to_string(), String::new()]), "\"a,b\",1.5,\r\n");
    }
}
