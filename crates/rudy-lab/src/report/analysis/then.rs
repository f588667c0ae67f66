//! What a plan says was shown before, beside what was shown now.

use super::{Cell, tables};
use crate::report::read::Experiment;
use crate::report::unit::Figure;

/// A figure of an older report.
#[derive(Debug)]
pub(crate) struct Row<'a> {
    pub(crate) load: &'a str,
    /// What was measured, as that report calls it.
    pub(crate) subject: &'a str,
    /// What that report says in words.
    pub(crate) said: Option<&'a str>,
    /// The figure and its value then; nothing where there are only words.
    pub(crate) figure: Option<(Figure, f64)>,
    /// The subject of today that it belongs to, and what that showed in this figure.
    pub(crate) now: Option<(&'a str, Cell)>,
}

impl Row<'_> {
    /// Today's median is so many times the value of then.
    pub(crate) fn ratio(&self) -> Option<f64> {
        let ((_, then), (_, cell)) = (self.figure.as_ref()?, self.now.as_ref()?);
        let ratio = cell.summary?.median / then;
        (ratio.is_finite() && ratio > 0.0).then_some(ratio)
    }
}

/// A row for each figure, and one for what has only words.
pub(super) fn rows(experiment: &Experiment) -> Vec<Row<'_>> {
    let mut rows = Vec::new();
    for then in &experiment.plan().then {
        let row = |figure: Option<(&str, f64)>| Row {
            load: &then.load,
            subject: &then.subject,
            said: then.said.as_deref(),
            now: then.beside.as_deref().map(|beside| {
                let cell = |(name, _)| tables::cell(experiment, beside, &then.load, name);
                (beside, figure.map_or(Cell { summary: None, is_doubtful: false }, cell))
            }),
            figure: figure.map(|(name, value)| (Figure::named(name), value)),
        };
        if then.figures.is_empty() {
            rows.push(row(None));
        }
        rows.extend(then.figures.iter().map(|(name, value)| row(Some((name, *value)))));
    }
    rows
}
