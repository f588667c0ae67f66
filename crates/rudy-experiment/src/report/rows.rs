//! The tables of a report by cell, for all text formats.

use rudy_stats::compare::{Interval, expected_to_differ};
use rudy_units::{Unit, digits};

use super::analysis::sentences::{missing, percent, ratio, rounds_of};
use super::analysis::{Cell, ComparisonResult, ControlResult, Evaluation, Section, Table, baseline};
use crate::metric::Metric;

/// The text of an empty cell.
pub(super) const NONE: &str = "–";

/// The column of [`findings`] that a narrow table leaves out.
pub(super) const MEDIANS: &str = "medians";

/// Marks a value that depends on suspect runs, or not on all runs.
pub(super) const SUSPECT: &str = "†";

/// Marks a result that depends on a control that differs.
const FLAGGED: &str = "‡";

/// The marks with their explanations.
const MARKS: [(&str, &str); 2] = [
    (SUSPECT, "depends on suspect runs, or not on all rounds: see the validity warnings and the failures."),
    (FLAGGED, "depends on a variant that differs from itself: see the controls."),
];

/// The explanations of the marks in a text; `None` without marks.
pub(super) fn legend(text: &str) -> Option<String> {
    let used = MARKS.iter().filter(|(mark, _)| text.contains(mark));
    let legend: Vec<String> = used.map(|(mark, meaning)| format!("{mark} {meaning}")).collect();
    (!legend.is_empty()).then(|| legend.join(" "))
}

/// A table: headings and rows.
pub(super) struct Rows {
    pub(super) head: Vec<String>,
    pub(super) body: Vec<Vec<String>>,
}

/// The table of comparisons.
pub(super) fn findings(section: &Section) -> Rows {
    let head = ["compared", "workload", "metric", MEDIANS, "ratio", "CI", "verdict"];
    Rows { head: head.map(str::to_owned).to_vec(), body: section.comparisons.iter().map(finding).collect() }
}

fn finding(compared: &ComparisonResult) -> Vec<String> {
    vec![
        format!("{} / {}", compared.variant, compared.with),
        compared.workload.to_owned(),
        compared.metric.title.clone(),
        medians(compared),
        ratio_with_marks(compared),
        interval(&compared.evaluation),
        verdict(compared),
    ]
}

/// The ratio with its marks; empty without one.
pub(super) fn ratio_with_marks(compared: &ComparisonResult) -> String {
    let suspect = if compared.is_marked() { SUSPECT } else { "" };
    match &compared.evaluation {
        Evaluation::Done(finding) => {
            let flagged = if finding.is_flagged { FLAGGED } else { "" };
            format!("{}{suspect}{flagged}", ratio(finding.ratio))
        }
        Evaluation::NotDone { ratio: Some(value), .. } => format!("{}{suspect}", ratio(*value)),
        Evaluation::NotDone { ratio: None, .. } => String::new(),
    }
}

/// The confidence interval of the ratio, if any.
pub(super) fn interval(answer: &Evaluation) -> String {
    match answer {
        Evaluation::Done(finding) => {
            format!("{} to {}", ratio(finding.interval.low), ratio(finding.interval.high))
        }
        Evaluation::NotDone { .. } => String::new(),
    }
}

/// The confidence levels of a table: `Confidence intervals: 97.9 to 99.8 %.`
pub(super) fn confidence(intervals: impl Iterator<Item = Interval>) -> Option<String> {
    let mut levels: Vec<f64> = intervals.map(|interval| interval.confidence).collect();
    levels.sort_by(f64::total_cmp);
    let (low, high) = (percent(*levels.first()?), percent(*levels.last()?));
    let levels = if low == high { high } else { format!("{} to {high}", low.trim_end_matches(" %")) };
    Some(format!("Confidence intervals: {levels}."))
}

/// The intervals of all findings.
pub(super) fn intervals(section: &Section) -> impl Iterator<Item = Interval> {
    section.comparisons.iter().filter_map(|compared| match &compared.evaluation {
        Evaluation::Done(finding) => Some(finding.interval),
        Evaluation::NotDone { .. } => None,
    })
}

/// The intervals of all controls.
pub(super) fn intervals_of_controls(section: &Section) -> impl Iterator<Item = Interval> {
    section.controls.iter().filter_map(|control| Some(control.outcome.as_ref().ok()?.interval))
}

/// The reason that comparisons have too few rounds for a verdict, once for all of them.
pub(super) fn too_few(comparisons: &[ComparisonResult]) -> Option<String> {
    let mut reasons: Vec<String> = comparisons.iter().filter_map(ComparisonResult::too_few).collect();
    reasons.sort();
    reasons.dedup();
    (!reasons.is_empty()).then(|| format!("Too few rounds for a verdict: {}.", reasons.join("; ")))
}

/// The verdict in a word, or why there is none.
pub(super) fn verdict(compared: &ComparisonResult) -> String {
    if compared.too_few().is_some() {
        return "too few rounds".to_owned();
    }
    compared.reason_without_verdict().unwrap_or_else(|| {
        let verdict = compared.verdict().map_or(String::new(), |verdict| verdict.to_string());
        verdict + &missing(compared.rounds, compared.rounds_run)
    })
}

/// `7.31 / 9.88 µs`: both medians; empty without them.
pub(super) fn medians(compared: &ComparisonResult) -> String {
    compared.medians.map_or(String::new(), |[a, b]| two(&compared.metric, a, b))
}

/// Two values in the unit of the larger one, or each in its own unit if they differ much.
fn two(metric: &Metric, a: f64, b: f64) -> String {
    const APART: f64 = 20.0;
    let [a, b] = [a, b].map(|value| value * metric.factor);
    if a > b * APART || b > a * APART {
        return format!("{} / {}", metric.unit.text(a), metric.unit.text(b));
    }
    let (size, name) = metric.unit.part(a.abs().max(b.abs()));
    let name = match metric.unit {
        Unit::Rate => "per s",
        _ => name,
    };
    format!("{} / {} {name}", digits(a / size), digits(b / size)).trim_end().to_owned()
}

/// The number of controls that differ, and the number expected by chance: `1 of 7 controls differs; 0.35 expected by chance.`
pub(super) fn controls_by_chance(section: &Section) -> Option<String> {
    let evaluated: Vec<_> =
        section.controls.iter().filter_map(|control| control.outcome.as_ref().ok()).collect();
    let differing = evaluated.iter().filter(|control| control.differs()).count();
    let verb = if differing == 1 { "differs" } else { "differ" };
    let expected = digits(expected_to_differ(evaluated.len()));
    (!evaluated.is_empty()).then(|| {
        format!("{differing} of {} {verb}; {expected} expected by chance.", count(evaluated.len(), "control"))
    })
}

/// `1 control`, `7 controls`.
fn count(number: usize, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

/// The result of a control.
pub(super) fn controls(section: &Section) -> Rows {
    let head = ["variant", "workload", "metric", "A/A ratio", "CI", "result"];
    let row = |control: &ControlResult| {
        let (shown_ratio, interval, outcome) = match &control.outcome {
            Ok(shown) => {
                let sentence = shown.to_string();
                let outcome = sentence.split_once("): ").map_or("", |(_, outcome)| outcome);
                let outcome = outcome.to_owned() + &missing(control.rounds, control.rounds_run);
                (
                    ratio(shown.ratio),
                    format!("{} to {}", ratio(shown.interval.low), ratio(shown.interval.high)),
                    outcome,
                )
            }
            Err(why) => (String::new(), String::new(), why.clone()),
        };
        vec![
            control.variant.to_owned(),
            control.workload.to_owned(),
            control.metric.title.clone(),
            shown_ratio,
            interval,
            outcome,
        ]
    };
    Rows { head: head.map(str::to_owned).to_vec(), body: section.controls.iter().map(row).collect() }
}

/// The metrics of a workload, one per row, since the values of a metric share a unit.
pub(super) fn table(table: &Table) -> Rows {
    let variants = table.rows.iter().map(|(variant, _)| (*variant).to_owned());
    let row = |(column, metric): (usize, &Metric)| {
        let cells = table.rows.iter().map(|(_, cells)| spread(&cells[column], metric));
        std::iter::once(metric.title.clone()).chain(cells).collect()
    };
    Rows {
        head: std::iter::once(String::new()).chain(variants).collect(),
        body: table.metrics.iter().enumerate().map(row).collect(),
    }
}

/// `7.31 µs (7.20 to 7.52)`, `7.31 µs† (7.20 to 7.52; 6 of 10 rounds)`.
pub(super) fn spread(cell: &Cell, metric: &Metric) -> String {
    let range = range(cell, metric);
    let range = if range.is_empty() { range } else { format!(" ({range})") };
    median(cell, metric) + &range
}

/// `7.31 µs`; without a value, whether the variant failed.
pub(super) fn median(cell: &Cell, metric: &Metric) -> String {
    let is_marked = cell.is_suspect || cell.misses_rounds();
    let mark = if is_marked { SUSPECT } else { "" };
    match cell.summary {
        Some(summary) => metric.unit.text(summary.median * metric.factor) + mark,
        None if cell.has_failed => "failed".to_owned(),
        None => format!("–{mark}"),
    }
}

/// The range of the rounds in the unit of the median, if they differ; and their number, if some are missing.
pub(super) fn range(cell: &Cell, metric: &Metric) -> String {
    let Some(summary) = cell.summary else { return String::new() };
    let (size, _) = metric.unit.part(summary.median * metric.factor);
    let shown = |value: f64| digits(value * metric.factor / size);
    let (min, max) = (shown(summary.min), shown(summary.max));
    let range = (min != max).then(|| format!("{min} to {max}"));
    let rounds = cell.misses_rounds().then(|| rounds_of(summary.rounds, cell.rounds_run));
    range.into_iter().chain(rounds).collect::<Vec<_>>().join("; ")
}

/// The table of older results, next to the new ones.
pub(super) fn baselines(section: &Section) -> Rows {
    let head = ["workload", "metric", "baseline", "its result", "variant", "its result", "ratio"];
    let none = || NONE.to_owned();
    let row = |row: &baseline::Row| {
        let metric = row.metric.as_ref();
        let value = |value: f64| metric.map_or(none(), |metric| metric.unit.text(value * metric.factor));
        let old_value =
            row.baseline.map_or(none(), |baseline| match (baseline.value.map(value), baseline.text) {
                (Some(value), Some(text)) => format!("{value} ({text})"),
                (Some(value), None) => value,
                (None, text) => text.unwrap_or(NONE).to_owned(),
            });
        let new_value = row.current.zip(metric).map_or(none(), |((_, cell), metric)| median(&cell, metric));
        vec![
            row.workload.to_owned(),
            metric.map_or(none(), |metric| metric.title.clone()),
            row.baseline.map_or(none(), |baseline| baseline.name.to_owned()),
            old_value,
            row.current.map_or(NONE, |(variant, _)| variant).to_owned(),
            new_value,
            row.ratio().map_or(none(), ratio),
        ]
    };
    Rows { head: head.map(str::to_owned).to_vec(), body: section.baselines.iter().map(row).collect() }
}

#[expect(clippy::cast_precision_loss, reason = "shown with three digits")]
pub(super) fn float(count: u64) -> f64 {
    count as f64
}
