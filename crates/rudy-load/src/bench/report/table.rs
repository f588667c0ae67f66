//! A table of latency distributions.

use std::fmt::Write;

use super::latencies::{Latencies, format_bounded};
use crate::units;

/// The quantiles in the order of wrk2.
pub(super) const QUANTILES: [(&str, f64); 6] =
    [("50 %", 0.5), ("75 %", 0.75), ("90 %", 0.9), ("99 %", 0.99), ("99.9 %", 0.999), ("99.99 %", 0.9999)];

/// Formats a table with a column per non-empty distribution: mean, standard deviation, quantiles, maximum. A quantile
/// with too few samples is blank.
pub(super) fn format_table(columns: &[(&str, Latencies<'_>)]) -> String {
    let columns: Vec<_> = columns.iter().filter(|(_, latencies)| !latencies.is_empty()).collect();
    let mut text = String::new();
    if columns.is_empty() {
        return text;
    }
    let mut row = |name: &str, cell: &dyn Fn(&str, &Latencies<'_>) -> String| {
        let cells = columns.iter().fold(String::new(), |line, (name, latencies)| {
            let cell = cell(name, latencies);
            format!("{line}{cell:>11}")
        });
        // Writing to a `String` does not fail.
        let _ = writeln!(text, "{}", format!("  {name:<9}{cells}").trim_end());
    };
    row("", &|name, _| name.to_owned());
    row("mean", &|_, latencies| format_bounded(latencies.mean()));
    row("stdev", &|_, latencies| units::duration(latencies.stdev()));
    for (name, quantile) in QUANTILES {
        row(name, &|_, latencies| latencies.quantile(quantile).map_or(String::new(), format_bounded));
    }
    row("max", &|_, latencies| format_bounded(latencies.max()));
    text
}
