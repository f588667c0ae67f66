//! Older results of a plan, next to the new ones.

use super::{Cell, tables};
use crate::experiment::Experiment;
use crate::plan::Then;
use crate::report::unit::Figure;

/// An older and a new figure under a load; one of them exists. The older one may be text only.
#[derive(Debug)]
pub(crate) struct Row<'a> {
    pub(crate) load: &'a str,
    /// `None` if the older report has only text, and there is no figure to show next to it.
    pub(crate) figure: Option<Figure>,
    pub(crate) then: Option<Before<'a>>,
    /// The subject of today, and its figure.
    pub(crate) now: Option<(&'a str, Cell)>,
}

/// A result of the older report.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Before<'a> {
    /// The name of the subject in that report.
    pub(crate) subject: &'a str,
    pub(crate) value: Option<f64>,
    /// A statement of that report in words.
    pub(crate) said: Option<&'a str>,
}

impl Row<'_> {
    /// The ratio of today's median to the older value.
    pub(crate) fn ratio(&self) -> Option<f64> {
        let ratio = self.now?.1.summary?.median / self.then?.value?;
        (ratio.is_finite() && ratio > 0.0).then_some(ratio)
    }
}

/// For each load and each older figure: the older value next to that of today's subject, followed by today's
/// other subjects. A statement in words is shown next to the figure that matches it best.
pub(super) fn rows(experiment: &Experiment) -> Vec<Row<'_>> {
    let plan = experiment.plan();
    let mut rows = Vec::new();
    for load in &plan.loads {
        let load = load.name.as_str();
        let of_load = || plan.then.iter().filter(|then| then.load == load);
        let mut figures: Vec<&str> = Vec::new();
        for name in of_load().flat_map(|then| then.figures.keys()) {
            if !figures.contains(&name.as_str()) {
                figures.push(name);
            }
        }
        for figure in figures {
            let then: Vec<&Then> = of_load().filter(|then| then.figures.contains_key(figure)).collect();
            rows.extend(of_figure(experiment, load, figure, &then));
        }
        let said: Vec<&Then> = of_load().filter(|then| then.figures.is_empty()).collect();
        match worded(experiment, load) {
            Some(figure) if !said.is_empty() => rows.extend(of_figure(experiment, load, figure, &said)),
            _ => rows.extend(said.into_iter().map(|then| {
                let before = Before { subject: &then.subject, value: None, said: then.said.as_deref() };
                Row { load, figure: None, then: Some(before), now: None }
            })),
        }
    }
    rows
}

/// The figure to show next to a statement in words: the nines, or else the first figure of the table.
fn worded<'a>(experiment: &'a Experiment, load: &str) -> Option<&'a str> {
    let figures = tables::figures(experiment, load);
    figures.iter().find(|name| **name == "nines").or(figures.first()).copied()
}

fn of_figure<'a>(experiment: &'a Experiment, load: &'a str, figure: &str, then: &[&'a Then]) -> Vec<Row<'a>> {
    let now = |subject: &'a str| {
        let cell = tables::cell(experiment, subject, load, figure);
        (cell.summary.is_some() || cell.has_failed).then_some((subject, cell))
    };
    let row = |then, now| Row { load, figure: Some(Figure::named(figure)), then, now };
    let beside = then.iter().map(|then| {
        let value = then.figures.get(figure).copied();
        let before = Before { subject: &then.subject, value, said: then.said.as_deref() };
        row(Some(before), then.beside.as_deref().and_then(now))
    });
    let names = experiment.plan().subjects.iter().map(|subject| subject.name.as_str());
    let others = names.filter(|name| !then.iter().any(|then| then.beside.as_deref() == Some(*name)));
    let others = others.filter_map(now).map(|now| row(None, Some(now)));
    beside.chain(others).collect()
}
