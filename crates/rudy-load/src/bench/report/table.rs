//! Formats figures in columns.

use std::fmt::Write;

use rudy_stats::Histogram;

use crate::units;

/// The usual quantiles, as wrk2 prints them.
pub(super) const QUANTILES: [(&str, f64); 6] =
    [("50 %", 0.5), ("75 %", 0.75), ("90 %", 0.9), ("99 %", 0.99), ("99.9 %", 0.999), ("99.99 %", 0.9999)];

/// A column per non-empty histogram: mean, standard deviation, quantiles, maximum.
pub(super) fn of(columns: &[(&str, &Histogram)]) -> String {
    let columns: Vec<_> = columns.iter().filter(|(_, histogram)| !histogram.is_empty()).collect();
    let mut text = String::new();
    if columns.is_empty() {
        return text;
    }
    let mut row = |name: &str, cells: Vec<String>| {
        let cells = cells.iter().fold(String::new(), |line, cell| format!("{line}{cell:>11}"));
        // Writing to a `String` does not fail.
        let _ = writeln!(text, "  {name:<9}{cells}");
    };
    let each = |figure: &dyn Fn(&Histogram) -> std::time::Duration| {
        columns.iter().map(|(_, histogram)| units::duration(figure(histogram))).collect()
    };
    row("", columns.iter().map(|(name, _)| (*name).to_owned()).collect());
    row("mean", each(&Histogram::mean));
    row("stdev", each(&Histogram::stdev));
    for (name, quantile) in QUANTILES {
        row(name, each(&|histogram| histogram.quantile(quantile)));
    }
    row("max", each(&Histogram::max));
    text
}
