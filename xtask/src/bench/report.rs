//! The table, and the same as JSON.

use serde_json::{Value, json};

/// Everything that was measured, and on what.
pub(super) struct Report {
    machine: Vec<(&'static str, String)>,
    names: [&'static str; 2],
    pub(super) rows: Vec<Measured>,
}

/// One row's result.
pub(super) struct Measured {
    pub(super) name: &'static str,
    pub(super) what: String,
    pub(super) unit: Unit,
    /// What it came to for the first and the second server: the median over the rounds.
    pub(super) sides: [f64; 2],
    pub(super) requests_per_second: Option<[f64; 2]>,
    /// What is held against the target: the rounds' ratios, or the first server's memory.
    pub(super) judged: Spread,
    /// `None` where nginx is measured against itself.
    pub(super) at_most: Option<f64>,
    pub(super) command: String,
}

/// What a row's figures are.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    CpuMicrosecondsPerRequest,
    BytesPerConnection,
}

/// The middle of several figures, and how far they lie apart.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

impl Spread {
    /// Of at least one figure.
    pub(crate) fn of(figures: impl IntoIterator<Item = f64>) -> Self {
        let mut sorted: Vec<f64> = figures.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        let (lower, upper) = (sorted[(sorted.len() - 1) / 2], sorted[sorted.len() / 2]);
        Self { median: f64::midpoint(lower, upper), min: sorted[0], max: sorted[sorted.len() - 1] }
    }
}

impl Measured {
    /// A figure that is no number is never within its target.
    fn is_met(&self) -> bool {
        self.at_most.is_none_or(|at_most| self.judged.median <= at_most)
    }

    fn cells(&self) -> [String; 6] {
        let verdict = match self.at_most {
            None => "",
            Some(_) if self.is_met() => "met",
            Some(_) => "missed",
        };
        let [first, second] = self.sides;
        let Spread { median, min, max } = self.judged;
        match self.unit {
            Unit::CpuMicrosecondsPerRequest => [
                self.what.clone(),
                format!("{first:.2} µs"),
                format!("{second:.2} µs"),
                format!("{median:.3} ({min:.3} to {max:.3})"),
                self.at_most.map_or(String::new(), |at_most| format!("{at_most:.2}")),
                verdict.into(),
            ],
            Unit::BytesPerConnection => [
                self.what.clone(),
                format!("{first:.0} B"),
                format!("{second:.0} B"),
                format!("{median:.0} B"),
                self.at_most.map_or(String::new(), |at_most| format!("{at_most:.0} B")),
                verdict.into(),
            ],
        }
    }

    fn json(&self, names: [&str; 2]) -> Value {
        let unit = match self.unit {
            Unit::CpuMicrosecondsPerRequest => "cpu_us_per_request",
            Unit::BytesPerConnection => "bytes_per_connection",
        };
        let side = |index: usize| {
            let rate = self.requests_per_second.map(|rates| rates[index]);
            json!({"server": names[index], unit: self.sides[index], "requests_per_second": rate})
        };
        json!({
            "row": self.name,
            "what": self.what,
            "command": self.command,
            "servers": [side(0), side(1)],
            "measured": {"median": self.judged.median, "min": self.judged.min, "max": self.judged.max},
            "at_most": self.at_most,
            "met": self.is_met(),
        })
    }
}

impl Report {
    pub(super) fn new(machine: Vec<(&'static str, String)>, names: [&'static str; 2]) -> Self {
        Self { machine, names, rows: Vec::new() }
    }

    pub(super) fn missed(&self) -> bool {
        self.rows.iter().any(|row| !row.is_met())
    }

    /// Prints it on stdout.
    pub(super) fn print(&self, as_json: bool) {
        if as_json {
            println!("{:#}", self.json());
        } else {
            println!("{}", self.text());
        }
    }

    fn text(&self) -> String {
        let [first, second] = self.names;
        let heads =
            ["CPU per request, and memory", first, second, "measured", "at most", ""].map(String::from);
        let rows: Vec<_> = std::iter::once(heads).chain(self.rows.iter().map(Measured::cells)).collect();
        let mut lines: Vec<String> =
            self.machine.iter().map(|(name, value)| format!("{name}: {value}")).collect();
        lines.push(String::new());
        lines.extend(table(&rows));
        lines.push(String::new());
        lines.push(format!(
            "measured: {first} over {second}, median of the rounds (smallest to largest); memory: {first}"
        ));
        lines.extend(self.rows.iter().map(|row| format!("{}: {}", row.name, row.command)));
        lines.join("\n")
    }

    fn json(&self) -> Value {
        let machine: serde_json::Map<String, Value> =
            self.machine.iter().map(|(name, value)| ((*name).to_string(), json!(value))).collect();
        let rows: Vec<Value> = self.rows.iter().map(|row| row.json(self.names)).collect();
        json!({"machine": machine, "rows": rows})
    }
}

/// The lines of a Markdown table with its columns aligned; the first row is the head.
pub(crate) fn table(rows: &[[String; 6]]) -> Vec<String> {
    let widths: [usize; 6] =
        std::array::from_fn(|column| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0));
    let line = |row: &[String; 6]| {
        let cells: Vec<String> =
            row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        format!("| {} |", cells.join(" | "))
    };
    let mut lines: Vec<String> = rows.iter().map(line).collect();
    lines.insert(1, format!("|{}|", widths.map(|width| "-".repeat(width + 2)).join("|")));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(median: f64) -> Measured {
        Measured {
            name: "1k-64",
            what: "1 KiB file".into(),
            unit: Unit::CpuMicrosecondsPerRequest,
            sides: [7.5, 12.0],
            requests_per_second: Some([60_000.0, 50_000.0]),
            judged: Spread { median, min: median - 0.01, max: median + 0.01 },
            at_most: Some(0.70),
            command: "wrk -t1 -c64 -d3s URL".into(),
        }
    }

    #[test]
    fn the_median_of_an_even_number_lies_between_the_two_in_the_middle() {
        assert_eq!(Spread::of([4.0, 1.0, 3.0, 2.0]), Spread { median: 2.5, min: 1.0, max: 4.0 });
        assert_eq!(Spread::of([3.0, 1.0, 2.0]), Spread { median: 2.0, min: 1.0, max: 3.0 });
    }

    #[test]
    fn a_target_is_met_at_its_very_value_and_missed_above_it() {
        assert!(Measured { at_most: None, ..row(0.9) }.is_met());
        assert!(row(0.70).is_met());
        assert!(!row(0.71).is_met());
        assert!(!row(f64::NAN).is_met());
    }

    #[test]
    fn every_line_of_the_table_is_as_wide_as_the_others() {
        let mut report = Report::new(vec![("kernel", "6".into())], ["rudy", "nginx"]);
        report.rows = vec![row(0.65), row(0.9)];
        let text = report.text();
        let widths: Vec<usize> =
            text.lines().filter(|l| l.starts_with('|')).map(|l| l.chars().count()).collect();
        assert_eq!(widths.len(), 4);
        assert!(widths.iter().all(|width| *width == widths[0]), "{text}");
        assert!(text.contains("met") && text.contains("missed"), "{text}");
        assert!(report.missed());
    }

    #[test]
    fn json_says_the_same() {
        let mut report = Report::new(vec![("kernel", "6".into())], ["rudy", "nginx"]);
        report.rows = vec![row(0.65)];
        let json = report.json();
        assert_eq!(json["machine"]["kernel"], "6");
        assert_eq!(json["rows"][0]["met"], true);
        assert_eq!(json["rows"][0]["servers"][1]["cpu_us_per_request"], 12.0);
    }
}
