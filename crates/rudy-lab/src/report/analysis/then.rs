//! What a plan says was shown before, beside what was shown now.

use super::{Cell, tables};
use crate::experiment::Experiment;
use crate::plan::Then;
use crate::report::unit::Figure;

/// A figure under a load, then and now; one of both is there.
#[derive(Debug)]
pub(crate) struct Row<'a> {
    pub(crate) load: &'a str,
    /// Nothing where the older report has only words.
    pub(crate) figure: Option<Figure>,
    pub(crate) then: Option<Before<'a>>,
    /// The subject of today, and what it showed.
    pub(crate) now: Option<(&'a str, Cell)>,
}

/// What an older report shows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Before<'a> {
    /// What was measured, as that report calls it.
    pub(crate) subject: &'a str,
    pub(crate) value: Option<f64>,
    /// What that report says in words.
    pub(crate) said: Option<&'a str>,
}

impl Row<'_> {
    /// Today's median is so many times the value of then.
    pub(crate) fn ratio(&self) -> Option<f64> {
        let ratio = self.now?.1.summary?.median / self.then?.value?;
        (ratio.is_finite() && ratio > 0.0).then_some(ratio)
    }
}

/// For each load that was run and each figure that there is of then: what was shown, each beside the subject of today that it
/// belongs to, and after that the other subjects of today.
pub(super) fn rows(experiment: &Experiment) -> Vec<Row<'_>> {
    let plan = experiment.plan();
    let mut rows = Vec::new();
    for load in &plan.loads {
        let then: Vec<&Then> = plan.then.iter().filter(|then| then.load == load.name).collect();
        let mut figures: Vec<&str> = Vec::new();
        for name in then.iter().flat_map(|then| then.figures.keys()) {
            if !figures.contains(&name.as_str()) {
                figures.push(name);
            }
        }
        rows.extend(figures.into_iter().flat_map(|figure| of_figure(experiment, &load.name, figure, &then)));
        rows.extend(then.into_iter().filter(|then| then.figures.is_empty()).map(|then| Row {
            load: &load.name,
            figure: None,
            then: Some(Before { subject: &then.subject, value: None, said: then.said.as_deref() }),
            now: None,
        }));
    }
    rows
}

fn of_figure<'a>(experiment: &'a Experiment, load: &'a str, figure: &str, then: &[&'a Then]) -> Vec<Row<'a>> {
    let now = |subject: &'a str| {
        let cell = tables::cell(experiment, subject, load, figure);
        cell.summary.map(|_| (subject, cell))
    };
    let row = |then, now| Row { load, figure: Some(Figure::named(figure)), then, now };
    let then = || then.iter().filter(|then| then.figures.contains_key(figure));
    let beside = then().map(|then| {
        let value = then.figures.get(figure).copied();
        let before = Before { subject: &then.subject, value, said: then.said.as_deref() };
        row(Some(before), then.beside.as_deref().and_then(now))
    });
    let names = experiment.plan().subjects.iter().map(|subject| subject.name.as_str());
    let others = names.filter(|name| !then().any(|then| then.beside.as_deref() == Some(*name)));
    let others = others.filter_map(now).map(|now| row(None, Some(now)));
    beside.chain(others).collect()
}
