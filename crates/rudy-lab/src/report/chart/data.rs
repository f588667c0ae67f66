//! What charts ask of the records.

use super::unit::Figure;
use crate::experiment::Experiment;
use crate::record::{Outcome, Run};

/// The greatest value that is drawn: nothing that is measured comes near, and no sum or product of such overflows.
const VALUE_MAX: f64 = 1e18;

/// A figure of one run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Seen {
    /// From 0.
    pub(super) round: usize,
    pub(super) is_control: bool,
    pub(super) is_doubtful: bool,
    /// In the unit of the figure.
    pub(super) value: f64,
}

/// A figure of a subject under a load, a value for each run that has it, controls included.
pub(super) fn seen(experiment: &Experiment, subject: &str, load: &str, figure: &Figure) -> Vec<Seen> {
    let runs = experiment.runs_of(subject, load).filter(|run| run.outcome == Outcome::Measured);
    let of = |run: &Run| {
        Some(Seen {
            round: run.round,
            is_control: run.is_control,
            is_doubtful: is_doubtful(run, &figure.name),
            value: drawable(run.figures.get(&figure.name)? * figure.factor)?,
        })
    };
    runs.filter_map(of).collect()
}

/// The median of a figure over the rounds, without the controls.
pub(super) fn median_of(experiment: &Experiment, subject: &str, load: &str, figure: &Figure) -> Option<f64> {
    let seen = seen(experiment, subject, load, figure).into_iter();
    median(seen.filter(|seen| !seen.is_control).map(|seen| seen.value).collect())
}

/// Whether there is a doubt about a figure of a run.
pub(super) fn is_doubtful(run: &Run, figure: &str) -> bool {
    run.doubts.iter().any(|doubt| doubt.concerns.iter().any(|name| name == figure))
}

/// A value that has a place on an axis.
pub(super) fn drawable(value: f64) -> Option<f64> {
    (0.0..=VALUE_MAX).contains(&value).then_some(value)
}

/// Half of the values are above it.
pub(super) fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    let middle = values.len() / 2;
    let above = *values.get(middle)?;
    Some(if values.len() % 2 == 1 { above } else { f64::midpoint(values[middle - 1], above) })
}

/// A name as part of a file's.
pub(super) fn slug(name: &str) -> String {
    let plain = |character: char| {
        let character = character.to_ascii_lowercase();
        if character.is_ascii_lowercase() || character.is_ascii_digit() { character } else { '-' }
    };
    let slug: String = name.chars().take(48).map(plain).collect();
    slug.trim_matches('-').to_owned()
}

/// A count as a coordinate.
#[expect(clippy::cast_precision_loss, reason = "of things that are drawn, or bytes shown in three digits")]
pub(super) fn float(count: u64) -> f64 {
    count as f64
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
        let seen = seen(&experiment, "a", "l", &figure);
        assert_eq!((seen.len(), seen.iter().filter(|seen| seen.is_control).count()), (7, 4));
        assert_eq!(seen.iter().filter(|seen| seen.is_doubtful).count(), 1);
        let median = median_of(&experiment, "a", "l", &figure).unwrap();
        assert!((median - 2e-3).abs() < 1e-12, "{median}");
        experiment.runs.truncate(1);
        experiment.runs[0].outcome = Outcome::Failed { why: String::new() };
        assert_eq!(median_of(&experiment, "a", "l", &figure), None);
    }

    #[test]
    fn a_name_becomes_part_of_a_file_name() {
        for (name, slug_of_it) in [("burst-100", "burst-100"), ("10 MiB / gzip", "10-mib---gzip"), ("/é", "")]
        {
            assert_eq!(slug(name), slug_of_it);
        }
    }
}
