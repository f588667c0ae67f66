//! Warnings, failures and other events.

use crate::experiment::Experiment;
use crate::record::{Outcome, Run};

/// An event that happened in one or more runs.
#[derive(Debug)]
pub(crate) struct Event<'a> {
    pub(crate) workload: &'a str,
    pub(crate) variant: &'a str,
    /// The message of the first run.
    pub(crate) sentence: &'a str,
    /// The number of runs in which it happened.
    pub(crate) runs: usize,
    /// The number of runs of this variant under this workload, including controls.
    pub(crate) of: usize,
    /// The affected metrics, for a warning.
    pub(crate) concerns: &'a [String],
}

/// A line for each message under a workload, with all variants that it is about, because a small machine gives the same
/// warning to all of them: `1k, rudy, 20 of 20 runs; nginx, 9 of 10 runs: for example: the generator ...`.
pub(crate) fn lines(events: &[Event]) -> Vec<String> {
    let mut groups: Vec<Vec<&Event>> = Vec::new();
    for event in events {
        let is_like = |group: &&mut Vec<&Event>| {
            group[0].workload == event.workload && shape(group[0].sentence) == shape(event.sentence)
        };
        match groups.iter_mut().find(is_like) {
            Some(group) => group.push(event),
            None => groups.push(vec![event]),
        }
    }
    let line = |group: &Vec<&Event>| {
        let runs =
            group.iter().map(|Event { variant, runs, of, .. }| format!("{variant}, {runs} of {of} runs"));
        let like = if group.len() > 1 || group[0].runs > 1 { "for example: " } else { "" };
        let runs = runs.collect::<Vec<_>>().join("; ");
        format!("{}, {runs}: {like}{}", group[0].workload, group[0].sentence)
    };
    groups.iter().map(line).collect()
}

/// All validity warnings.
pub(super) fn warnings(experiment: &Experiment) -> Vec<Event<'_>> {
    combine(experiment, |run| {
        run.warnings.iter().map(|warning| (warning.sentence.as_str(), warning.concerns.as_slice())).collect()
    })
}

/// All failures.
pub(super) fn failures(experiment: &Experiment) -> Vec<Event<'_>> {
    combine(experiment, |run| match &run.outcome {
        Outcome::Measured => Vec::new(),
        Outcome::Failed { why } => vec![(why.as_str(), &[])],
    })
}

/// All other events.
pub(super) fn notes(experiment: &Experiment) -> Vec<Event<'_>> {
    combine(experiment, |run| run.notes.iter().map(|note| (note.as_str(), [].as_slice())).collect())
}

/// Notes about the records as a whole.
pub(super) fn remarks(experiment: &Experiment) -> Vec<String> {
    let mut remarks = experiment.plan().left_out.clone();
    let [first, later @ ..] = experiment.heads.as_slice() else { return remarks };
    for head in later {
        if head.machine != first.machine {
            remarks.push(format!("runs from {} on were made on another machine", head.started));
        }
        if head.versions != first.versions {
            remarks.push(format!("runs from {} on were made with other versions", head.started));
        }
    }
    if experiment
        .heads
        .iter()
        .any(|head| head.versions.values().any(|version| version.contains("debug build")))
    {
        remarks.push("rudy was a debug build, which is several times slower than a release build".to_owned());
    }
    let runs = experiment.plan().run_count();
    if experiment.runs.len() < runs {
        let there = experiment.runs.len();
        remarks.push(format!(
            "{there} of {runs} runs were made: the experiment was interrupted or is still running"
        ));
    }
    remarks.extend(experiment.cut.clone());
    remarks
}

/// The messages that `messages` finds in the runs, by workload and variant. Messages that differ only in numbers are
/// combined.
fn combine<'a>(
    experiment: &'a Experiment,
    messages: impl Fn(&'a Run) -> Vec<(&'a str, &'a [String])>,
) -> Vec<Event<'a>> {
    let plan = experiment.plan();
    let mut all = Vec::new();
    for workload in &plan.workloads {
        for variant in &plan.variants {
            let (workload, variant) = (workload.name.as_str(), variant.name.as_str());
            let of = experiment.runs_of(variant, workload).count();
            let mut of_variant: Vec<Event> = Vec::new();
            for (sentence, concerns) in experiment.runs_of(variant, workload).flat_map(&messages) {
                match of_variant.iter_mut().find(|known| shape(known.sentence) == shape(sentence)) {
                    Some(known) => known.runs += 1,
                    None => of_variant.push(Event { workload, variant, sentence, runs: 1, of, concerns }),
                }
            }
            all.extend(of_variant);
        }
    }
    all
}

/// A message without its numbers.
fn shape(sentence: &str) -> String {
    sentence.chars().filter(|character| !(character.is_ascii_digit() || *character == '.')).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variants_with_the_same_message_share_a_line() {
        let event = |workload, variant, sentence, runs| Event {
            workload,
            variant,
            sentence,
            runs,
            of: 10,
            concerns: &[],
        };
        let events = [
            event("1k", "a", "it waited 28.7 % of the time", 1),
            event("1k", "b", "it waited 3 % of the time", 9),
            event("1k", "b", "it failed", 1),
            event("304", "a", "it waited 1 % of the time", 1),
        ];
        assert_eq!(
            lines(&events),
            [
                "1k, a, 1 of 10 runs; b, 9 of 10 runs: for example: it waited 28.7 % of the time",
                "1k, b, 1 of 10 runs: it failed",
                "304, a, 1 of 10 runs: it waited 1 % of the time",
            ]
        );
    }
}
