//! Extracts the data of charts from the records.

use rudy_stats::compare::Summary;
use rudy_units::Unit;

use crate::experiment::Experiment;
use crate::metric::Metric;
use crate::plan::Variant;
use crate::record::{Outcome, Run};
use crate::report::rows::SUSPECT;

/// The maximum value that is drawn: above all measured values, and small enough to avoid overflow.
const VALUE_MAX: f64 = 1e18;

/// A metric of one run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct RoundValue {
    /// From 0.
    pub(super) round: usize,
    pub(super) is_suspect: bool,
    /// In the unit of the metric.
    pub(super) value: f64,
}

/// The values of a variant, or of its control, under a workload.
#[derive(Debug, PartialEq)]
pub(super) struct Rounds {
    /// A value for each run with the metric.
    pub(super) values: Vec<RoundValue>,
    /// The number of runs.
    pub(super) run: usize,
    /// The number of failed runs.
    pub(super) failed: usize,
    /// Whether a run is suspect in the metric, even if it lacks the metric.
    pub(super) is_suspect: bool,
}

impl Rounds {
    pub(super) fn of(
        experiment: &Experiment,
        variant: &str,
        workload: &str,
        metric: &Metric,
        is_control: bool,
    ) -> Self {
        let mut rounds = Self { values: Vec::new(), run: 0, failed: 0, is_suspect: false };
        for run in experiment.runs_of(variant, workload).filter(|run| run.is_control == is_control) {
            let is_suspect = is_suspect(run, &metric.name);
            rounds.run += 1;
            rounds.is_suspect |= is_suspect;
            if run.outcome != Outcome::Measured {
                rounds.failed += 1;
                continue;
            }
            let value = run.metrics.get(&metric.name).and_then(|value| drawable(value * metric.factor));
            rounds.values.extend(value.map(|value| RoundValue { round: run.round, is_suspect, value }));
        }
        rounds
    }

    /// `None` if no run has the metric.
    pub(super) fn median(&self) -> Option<Median> {
        let values: Vec<f64> = self.values.iter().map(|value| value.value).collect();
        Some(Median { value: median(&values)?, is_suspect: self.is_suspect })
    }

    /// The median, or why there is none.
    pub(super) fn text(&self, unit: Unit) -> String {
        match self.median() {
            Some(median) => median.text(unit),
            None if self.failed > 0 && self.failed == self.run => "failed".to_owned(),
            None => "no metric".to_owned(),
        }
    }

    /// The number of failed rounds, if others succeeded: `1 of 3 rounds failed`.
    pub(super) fn failures(&self) -> Option<String> {
        let is_part = self.failed > 0 && self.failed < self.run;
        is_part.then(|| format!("{} of {} rounds failed", self.failed, self.run))
    }
}

/// The median of a metric over rounds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Median {
    /// In the unit of the metric.
    pub(super) value: f64,
    /// Whether it includes a suspect run.
    pub(super) is_suspect: bool,
}

impl Median {
    /// With its unit, and a mark if suspect.
    pub(super) fn text(self, unit: Unit) -> String {
        unit.text(self.value) + dagger(self.is_suspect)
    }
}

/// The mark in tables for values that include suspect runs.
pub(super) fn dagger(is_suspect: bool) -> &'static str {
    if is_suspect { SUSPECT } else { "" }
}

/// The end of a caption with such a mark.
pub(super) fn dagger_note(is_there: bool) -> &'static str {
    if is_there { " † includes suspect rounds." } else { "" }
}

/// The failures as the last sentence of a caption; empty without failures.
pub(super) fn failures(experiment: &Experiment, workload: &str) -> String {
    let of = |variant: &Variant| {
        let runs = || experiment.runs_of(&variant.name, workload).filter(|run| !run.is_control);
        let failed = runs().filter(|run| run.outcome != Outcome::Measured).count();
        let rounds = runs().count();
        let plural = if rounds == 1 { "" } else { "s" };
        (failed > 0).then(|| format!("{} in {failed} of {rounds} round{plural}", variant.name))
    };
    let failures: Vec<String> = experiment.plan().variants.iter().filter_map(of).collect();
    if failures.is_empty() { String::new() } else { format!(" Failed: {}.", failures.join(", ")) }
}

/// Whether a metric of a run is suspect.
pub(super) fn is_suspect(run: &Run, metric: &str) -> bool {
    run.warnings.iter().any(|warning| warning.concerns.iter().any(|name| name == metric))
}

/// A value that can be placed on an axis.
pub(super) fn drawable(value: f64) -> Option<f64> {
    (0.0..=VALUE_MAX).contains(&value).then_some(value)
}

/// The median; `None` without values.
pub(super) fn median(values: &[f64]) -> Option<f64> {
    Summary::new(values).map(|summary| summary.median)
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
    use crate::record::Warning;
    use crate::report::fixtures;

    #[test]
    fn values_that_cannot_be_drawn_are_left_out() {
        for (value, has) in [(0.0, true), (1e18, true), (1.1e18, false), (-1.0, false), (f64::NAN, false)] {
            assert_eq!(drawable(value).is_some(), has, "{value}");
        }
    }

    #[test]
    fn the_control_and_what_failed_are_not_in_the_median() {
        let plan = "rounds = 4\n[[variant]]\nname = \"a\"\ncommand = [\"a\"]\ncontrol = true\n\
                    [[workload]]\nname = \"l\"\nkind = \"bench\"\n";
        let values = [1e6, 3e6, 2e6, f64::INFINITY];
        let mut experiment = fixtures::experiment(plan, |id| {
            let value = if id.is_control { 9e6 } else { values[id.round] };
            Some(vec![("p99_ns", value)])
        });
        experiment.runs[0].warnings =
            vec![Warning { sentence: "errors".to_owned(), concerns: vec!["p99_ns".to_owned()] }];
        let metric = Metric::named("p99_ns");
        let rounds = |experiment: &Experiment| Rounds::of(experiment, "a", "l", &metric, false);
        let values = rounds(&experiment);
        assert_eq!((values.run, values.values.len(), values.failed), (4, 3, 0));
        assert_eq!(Rounds::of(&experiment, "a", "l", &metric, true).values.len(), 4);
        assert_eq!(values.values.iter().filter(|value| value.is_suspect).count(), 1);
        assert!((values.median().unwrap().value - 2e-3).abs() < 1e-12, "{values:?}");
        assert_eq!(values.text(metric.unit), "2.00 ms†");
        experiment.runs[0].outcome = Outcome::Failed { why: String::new() };
        let values = rounds(&experiment);
        assert_eq!(
            values.text(metric.unit),
            "2.50 ms†",
            "of what is left, and a warning of what failed is one"
        );
        assert_eq!(values.failures().as_deref(), Some("1 of 4 rounds failed"));
        experiment.runs.truncate(1);
        let values = rounds(&experiment);
        assert_eq!((values.median(), values.text(metric.unit).as_str()), (None, "failed"));
    }

    #[test]
    fn a_caption_counts_failures() {
        let plan = "rounds = 3\n[[variant]]\nname = \"a\"\ncommand = [\"a\"]\ncontrol = true\n\
                    [[variant]]\nname = \"b\"\ncommand = [\"b\"]\n[[workload]]\nname = \"l\"\nkind = \"bench\"\n";
        let failing = |is_failing: fn(&fixtures::RunId) -> bool| {
            let experiment = fixtures::experiment(plan, |id| (!is_failing(id)).then(Vec::new));
            failures(&experiment, "l")
        };
        assert_eq!(failing(|_| false), "");
        assert_eq!(failing(|id| id.is_control), "", "of the control its variant's row tells");
        assert_eq!(failing(|id| id.variant == "b" && id.round > 0), " Failed: b in 2 of 3 rounds.");
    }

    #[test]
    fn a_name_becomes_part_of_a_file_name() {
        for (name, slug_of_it) in [("burst-100", "burst-100"), ("10 MiB / gzip", "10-mib---gzip"), ("/é", "")]
        {
            assert_eq!(slug(name), slug_of_it);
        }
    }
}
