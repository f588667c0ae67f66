//! A point for each value of a varied parameter: shared by the charts of rates and of sizes.

use rudy_charts::Point;
use rudy_units::Unit;

use super::data::Rounds;

/// The median of the rounds at a value of the parameter, which `at` names with the variant. `None` if the variant
/// did not run there.
pub(super) fn point(rounds: &Rounds, x: f64, unit: Unit, at: &str) -> Option<Point> {
    let each: Vec<f64> = rounds.values.iter().map(|value| value.value).collect();
    (rounds.run > 0).then(|| Point {
        x,
        y: rounds.median().map(|median| median.value),
        each: if each.len() > 1 { each } else { Vec::new() },
        is_hollow: rounds.is_suspect,
        tip: format!("{at}: {}", tip_text(rounds, unit, "")),
    })
}

/// The median, `more`, and what restricts it.
pub(super) fn tip_text(rounds: &Rounds, unit: Unit, more: &str) -> String {
    let text = rounds.median().map_or_else(|| rounds.text(unit), |median| unit.text(median.value));
    let warning = rounds.is_suspect.then(|| "suspect".to_owned());
    let also = warning.into_iter().chain(rounds.failures());
    [format!("{text}{more}")].into_iter().chain(also).collect::<Vec<_>>().join(", ")
}
