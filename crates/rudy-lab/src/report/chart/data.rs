//! Extracts the data of charts from the records.

use rudy_stats::compare::Summary;

use super::unit::{Figure, Unit};
use crate::experiment::Experiment;
use crate::plan::Subject;
use crate::record::{Outcome, Run};
use crate::report::rows::DOUBTFUL;

pub(super) use crate::report::rows::float;

/// The maximum value that is drawn: above all measured values, and small enough to avoid overflow.
const VALUE_MAX: f64 = 1e18;

/// A figure of one run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Seen {
    /// From 0.
    pub(super) round: usize,
    pub(super) is_doubtful: bool,
    /// In the unit of the figure.
    pub(super) value: f64,
}

/// The values of a subject, or of its control, under a load.
#[derive(Debug, PartialEq)]
pub(super) struct Rounds {
    /// A value for each run with the figure.
    pub(super) seen: Vec<Seen>,
    /// The number of runs.
    pub(super) run: usize,
    /// The number of failed runs.
    pub(super) failed: usize,
    /// Whether a run is suspect in the figure, even if it lacks the figure.
    pub(super) is_doubtful: bool,
}

impl Rounds {
    pub(super) fn of(
        experiment: &Experiment,
        subject: &str,
        load: &str,
        figure: &Figure,
        is_control: bool,
    ) -> Self {
        let mut rounds = Self { seen: Vec::new(), run: 0, failed: 0, is_doubtful: false };
        for run in experiment.runs_of(subject, load).filter(|run| run.is_control == is_control) {
            let is_doubtful = is_doubtful(run, &figure.name);
            rounds.run += 1;
            rounds.is_doubtful |= is_doubtful;
            if run.outcome != Outcome::Measured {
                rounds.failed += 1;
                continue;
            }
            let value = run.figures.get(&figure.name).and_then(|value| drawable(value * figure.factor));
            rounds.seen.extend(value.map(|value| Seen { round: run.round, is_doubtful, value }));
        }
        rounds
    }

    /// `None` if no run has the figure.
    pub(super) fn median(&self) -> Option<Median> {
        let values: Vec<f64> = self.seen.iter().map(|seen| seen.value).collect();
        Some(Median { value: median(&values)?, is_doubtful: self.is_doubtful })
    }

    /// The median, or why there is none.
    pub(super) fn text(&self, unit: Unit) -> String {
        match self.median() {
            Some(median) => median.text(unit),
            None if self.failed > 0 && self.failed == self.run => "failed".to_owned(),
            None => "no figure".to_owned(),
        }
    }

    /// The number of failed rounds, if others succeeded: `1 of 3 rounds failed`.
    pub(super) fn failures(&self) -> Option<String> {
        let is_part = self.failed > 0 && self.failed < self.run;
        is_part.then(|| format!("{} of {} rounds failed", self.failed, self.run))
    }
}

/// The median of a figure over rounds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Median {
    /// In the unit of the figure.
    pub(super) value: f64,
    /// Whether it includes a suspect run.
    pub(super) is_doubtful: bool,
}

impl Median {
    /// With its unit, and a mark if suspect.
    pub(super) fn text(self, unit: Unit) -> String {
        unit.text(self.value) + dagger(self.is_doubtful)
    }
}

/// The mark in tables for values that include suspect runs.
pub(super) fn dagger(is_doubtful: bool) -> &'static str {
    if is_doubtful { DOUBTFUL } else { "" }
}

/// The end of a caption with such a mark.
pub(super) fn legend_of_dagger(is_there: bool) -> &'static str {
    if is_there { " † rests on rounds that are doubted." } else { "" }
}

/// The failures as the last sentence of a caption; empty without failures.
pub(super) fn failures(experiment: &Experiment, load: &str) -> String {
    let of = |subject: &Subject| {
        let runs = || experiment.runs_of(&subject.name, load).filter(|run| !run.is_control);
        let failed = runs().filter(|run| run.outcome != Outcome::Measured).count();
        let rounds = runs().count();
        let plural = if rounds == 1 { "" } else { "s" };
        (failed > 0).then(|| format!("{} in {failed} of {rounds} round{plural}", subject.name))
    };
    let failures: Vec<String> = experiment.plan().subjects.iter().filter_map(of).collect();
    if failures.is_empty() { String::new() } else { format!(" Failed: {}.", failures.join(", ")) }
}

/// Whether a figure of a run is suspect.
pub(super) fn is_doubtful(run: &Run, figure: &str) -> bool {
    run.doubts.iter().any(|doubt| doubt.concerns.iter().any(|name| name == figure))
}

/// A value that can be placed on an axis.
pub(super) fn drawable(value: f64) -> Option<f64> {
    (0.0..=VALUE_MAX).contains(&value).then_some(value)
}

/// The median; `None` without values.
pub(super) fn median(values: &[f64]) -> Option<f64> {
    Summary::of(values).map(|summary| summary.median)
}

/// A name as part of a file name.
pub(super) fn slug(name: &str) -> String {
    let plain = |character: char| {
        let character = character.to_ascii_lowercase();
        if character.is_ascii_lowercase() || character.is_ascii_digit() { character } else { '-' }
    };
    let slug: String = name.chars().take(48).map(plain).collect();
    slug.trim_matches('-').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Doubt;
    use crate::report::made;

    #[test]
    fn what_cannot_be_measured_has_no_place() {
        for (value, has) in [(0.0, true), (1e18, true), (1.1e18, false), (-1.0, false), (f64::NAN, false)] {
            assert_eq!(drawable(value).is_some(), has, "{value}");
        }
    }

    #[test]
    fn the_control_and_what_failed_are_not_in_the_median() {
        let plan = "rounds = 4\n[[subject]]\nname = \"a\"\ncommand = [\"a\"]\ncontrol = true\n\
                    [[load]]\nname = \"l\"\nkind = \"bench\"\n";
        let values = [1e6, 3e6, 2e6, f64::INFINITY];
        let mut experiment = made::experiment(plan, |turn| {
            let value = if turn.is_control { 9e6 } else { values[turn.round] };
            Some(vec![("p99_ns", value)])
        });
        experiment.runs[0].doubts =
            vec![Doubt { sentence: "errors".to_owned(), concerns: vec!["p99_ns".to_owned()] }];
        let figure = Figure::named("p99_ns");
        let rounds = |experiment: &Experiment| Rounds::of(experiment, "a", "l", &figure, false);
        let seen = rounds(&experiment);
        assert_eq!((seen.run, seen.seen.len(), seen.failed), (4, 3, 0));
        assert_eq!(Rounds::of(&experiment, "a", "l", &figure, true).seen.len(), 4);
        assert_eq!(seen.seen.iter().filter(|seen| seen.is_doubtful).count(), 1);
        assert!((seen.median().unwrap().value - 2e-3).abs() < 1e-12, "{seen:?}");
        assert_eq!(seen.text(figure.unit), "2 ms†");
        experiment.runs[0].outcome = Outcome::Failed { why: String::new() };
        let seen = rounds(&experiment);
        assert_eq!(seen.text(figure.unit), "2.50 ms†", "of what is left, and a doubt of what failed is one");
        assert_eq!(seen.failures().as_deref(), Some("1 of 4 rounds failed"));
        experiment.runs.truncate(1);
        let seen = rounds(&experiment);
        assert_eq!((seen.median(), seen.text(figure.unit).as_str()), (None, "failed"));
    }

    #[test]
    fn who_failed_is_said_with_how_often() {
        let plan = "rounds = 3\n[[subject]]\nname = \"a\"\ncommand = [\"a\"]\ncontrol = true\n\
                    [[subject]]\nname = \"b\"\ncommand = [\"b\"]\n[[load]]\nname = \"l\"\nkind = \"bench\"\n";
        let failing = |is_failing: fn(&made::Turn) -> bool| {
            let experiment = made::experiment(plan, |turn| (!is_failing(turn)).then(Vec::new));
            failures(&experiment, "l")
        };
        assert_eq!(failing(|_| false), "");
        assert_eq!(failing(|turn| turn.is_control), "", "of the control its subject's row tells");
        assert_eq!(failing(|turn| turn.subject == "b" && turn.round > 0), " Failed: b in 2 of 3 rounds.");
    }

    #[test]
    fn a_name_becomes_part_of_a_file_name() {
        for (name, slug_of_it) in [("burst-100", "burst-100"), ("10 MiB / gzip", "10-mib---gzip"), ("/é", "")]
        {
            assert_eq!(slug(name), slug_of_it);
        }
    }
}
