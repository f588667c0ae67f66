//! The tables of a report by cell, for all text formats.

use rudy_stats::compare::Interval;

use super::analysis::words::{missing, ratio, rounds_of, sure};
use super::analysis::{Answer, Cell, Compared, Controlled, Section, Table, then};
use super::unit::{Figure, Unit, digits};

/// The text of an empty cell.
pub(super) const NONE: &str = "–";

/// Marks a value that depends on suspect runs, or not on all runs.
pub(super) const DOUBTFUL: &str = "†";

/// The explanation of the marks.
pub(super) const LEGEND: &str = "† rests on runs that are doubted, or not on all rounds: see the doubts and the failures. \
    ‡ rests on a subject that differs from itself: see the controls.";

/// Marks a result that depends on a control that differs.
const FLAGGED: &str = "‡";

/// A table: headings and rows.
pub(super) struct Rows {
    pub(super) head: Vec<String>,
    pub(super) body: Vec<Vec<String>>,
}

/// The table of comparisons.
pub(super) fn findings(section: &Section) -> Rows {
    let head = ["compared", "under", "in", "medians", "ratio", "between", "verdict"];
    Rows { head: head.map(str::to_owned).to_vec(), body: section.comparisons.iter().map(finding).collect() }
}

fn finding(compared: &Compared) -> Vec<String> {
    vec![
        format!("{} / {}", compared.subject, compared.with),
        compared.load.to_owned(),
        compared.figure.title.clone(),
        medians(compared),
        times(compared),
        between(&compared.answer),
        verdict(compared),
    ]
}

/// The ratio with its marks; empty without one.
pub(super) fn times(compared: &Compared) -> String {
    let doubtful = if compared.is_marked() { DOUBTFUL } else { "" };
    match &compared.answer {
        Answer::Judged(finding) => {
            let flagged = if finding.is_flagged { FLAGGED } else { "" };
            format!("{}{doubtful}{flagged}", ratio(finding.ratio))
        }
        Answer::Open { ratio: Some(times), .. } => format!("{}{doubtful}", ratio(*times)),
        Answer::Open { ratio: None, .. } => String::new(),
    }
}

/// The interval of the ratio, if any.
pub(super) fn between(answer: &Answer) -> String {
    match answer {
        Answer::Judged(finding) => {
            format!("{} to {}", ratio(finding.interval.low), ratio(finding.interval.high))
        }
        Answer::Open { .. } => String::new(),
    }
}

/// The confidence levels of a table: `Intervals: 97.9 to 99.8 % sure each.`
pub(super) fn sureness(intervals: impl Iterator<Item = Interval>) -> Option<String> {
    let mut levels: Vec<f64> = intervals.map(|interval| interval.confidence).collect();
    levels.sort_by(f64::total_cmp);
    let (low, high) = (sure(*levels.first()?), sure(*levels.last()?));
    let levels = if low == high { high } else { format!("{} to {high}", low.trim_end_matches(" %")) };
    Some(format!("Intervals: {levels} sure each."))
}

/// The intervals of all findings.
pub(super) fn intervals(section: &Section) -> impl Iterator<Item = Interval> {
    section.comparisons.iter().filter_map(|compared| match &compared.answer {
        Answer::Judged(finding) => Some(finding.interval),
        Answer::Open { .. } => None,
    })
}

/// Those of all controls.
pub(super) fn intervals_of_controls(section: &Section) -> impl Iterator<Item = Interval> {
    section.controls.iter().filter_map(|control| Some(control.outcome.as_ref().ok()?.interval))
}

/// The verdict in a word, or why there is none.
pub(super) fn verdict(compared: &Compared) -> String {
    compared.why_open().unwrap_or_else(|| {
        let verdict = compared.verdict().map_or(String::new(), |verdict| verdict.to_string());
        verdict + &missing(compared.rounds, compared.rounds_run)
    })
}

/// `7.31 / 9.88 µs`: both medians; empty without them.
pub(super) fn medians(compared: &Compared) -> String {
    compared.medians.map_or(String::new(), |[a, b]| two(&compared.figure, a, b))
}

/// Two values in the unit of the larger one, or each in its own unit if they differ much.
fn two(figure: &Figure, a: f64, b: f64) -> String {
    const APART: f64 = 20.0;
    let [a, b] = [a, b].map(|value| value * figure.factor);
    if a > b * APART || b > a * APART {
        return format!("{} / {}", figure.unit.text(a), figure.unit.text(b));
    }
    let (size, name) = figure.unit.part(a.abs().max(b.abs()));
    let name = match figure.unit {
        Unit::Rate => "per s",
        _ => name,
    };
    format!("{} / {} {name}", digits(a / size), digits(b / size)).trim_end().to_owned()
}

/// The result of a control.
pub(super) fn controls(section: &Section) -> Rows {
    let head = ["subject", "under", "in", "times itself", "between", "so it"];
    let row = |control: &Controlled| {
        let (times, between, outcome) = match &control.outcome {
            Ok(shown) => {
                let words = shown.to_string();
                let outcome = words.split_once("): ").map_or("", |(_, outcome)| outcome);
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
            control.subject.to_owned(),
            control.load.to_owned(),
            control.figure.title.clone(),
            times,
            between,
            outcome,
        ]
    };
    Rows { head: head.map(str::to_owned).to_vec(), body: section.controls.iter().map(row).collect() }
}

/// The figures of a load, one per row, since the values of a figure share a unit.
pub(super) fn table(table: &Table) -> Rows {
    let subjects = table.rows.iter().map(|(subject, _)| (*subject).to_owned());
    let row = |(column, figure): (usize, &Figure)| {
        let cells = table.rows.iter().map(|(_, cells)| spread(&cells[column], figure));
        std::iter::once(figure.title.clone()).chain(cells).collect()
    };
    Rows {
        head: std::iter::once(String::new()).chain(subjects).collect(),
        body: table.figures.iter().enumerate().map(row).collect(),
    }
}

/// `7.31 µs (7.20 to 7.52)`, `7.31 µs† (7.20 to 7.52; 6 of 10 rounds)`.
pub(super) fn spread(cell: &Cell, figure: &Figure) -> String {
    let range = range(cell, figure);
    let range = if range.is_empty() { range } else { format!(" ({range})") };
    median(cell, figure) + &range
}

/// `7.31 µs`; without a value, whether the subject failed.
pub(super) fn median(cell: &Cell, figure: &Figure) -> String {
    let is_marked = cell.is_doubtful || cell.misses_rounds();
    let mark = if is_marked { DOUBTFUL } else { "" };
    match cell.summary {
        Some(summary) => figure.unit.text(summary.median * figure.factor) + mark,
        None if cell.has_failed => "failed".to_owned(),
        None => format!("–{mark}"),
    }
}

/// The range of the rounds in the unit of the median, if they differ; and their number, if some are missing.
pub(super) fn range(cell: &Cell, figure: &Figure) -> String {
    let Some(summary) = cell.summary else { return String::new() };
    let (size, _) = figure.unit.part(summary.median * figure.factor);
    let shown = |value: f64| digits(value * figure.factor / size);
    let (min, max) = (shown(summary.min), shown(summary.max));
    let range = (min != max).then(|| format!("{min} to {max}"));
    let rounds = cell.misses_rounds().then(|| rounds_of(summary.rounds, cell.rounds_run));
    range.into_iter().chain(rounds).collect::<Vec<_>>().join("; ")
}

/// The table of older results, next to the new ones.
pub(super) fn then(section: &Section) -> Rows {
    let head = ["under", "in", "then", "it was", "now", "it is", "now / then"];
    let none = || NONE.to_owned();
    let row = |row: &then::Row| {
        let figure = row.figure.as_ref();
        let value = |value: f64| figure.map_or(none(), |figure| figure.unit.text(value * figure.factor));
        let was = row.then.map_or(none(), |then| match (then.value.map(value), then.said) {
            (Some(value), Some(said)) => format!("{value} ({said})"),
            (Some(value), None) => value,
            (None, said) => said.unwrap_or(NONE).to_owned(),
        });
        let is = row.now.zip(figure).map_or(none(), |((_, cell), figure)| spread(&cell, figure));
        vec![
            row.load.to_owned(),
            figure.map_or(none(), |figure| figure.title.clone()),
            row.then.map_or(none(), |then| then.subject.to_owned()),
            was,
            row.now.map_or(NONE, |(subject, _)| subject).to_owned(),
            is,
            row.ratio().map_or(none(), ratio),
        ]
    };
    Rows { head: head.map(str::to_owned).to_vec(), body: section.then.iter().map(row).collect() }
}

#[expect(clippy::cast_precision_loss, reason = "shown with three digits")]
pub(super) fn float(count: u64) -> f64 {
    count as f64
}
