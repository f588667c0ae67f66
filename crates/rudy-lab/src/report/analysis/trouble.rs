//! What went wrong or may have: doubts, failures, and what else happened.

use std::fmt;

use crate::experiment::Experiment;
use crate::record::{Outcome, Run};

/// The same thing in one run or several.
#[derive(Debug)]
pub(crate) struct Trouble<'a> {
    pub(crate) load: &'a str,
    pub(crate) subject: &'a str,
    /// What happened, in the words of the first run in which it did.
    pub(crate) sentence: &'a str,
    /// In how many runs.
    pub(crate) runs: usize,
    /// Of how many that there were of this subject under this load, those of the control among them.
    pub(crate) of: usize,
    /// The figures that it concerns, of a doubt.
    pub(crate) concerns: &'a [String],
}

impl fmt::Display for Trouble<'_> {
    /// `1k, rudy, 3 of 20 runs: the generator ...`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { load, subject, sentence, runs, of, .. } = self;
        let like = if *runs > 1 { "for example: " } else { "" };
        write!(f, "{load}, {subject}, {runs} of {of} runs: {like}{sentence}")
    }
}

/// Why figures may not be what they seem to be.
pub(super) fn doubts(experiment: &Experiment) -> Vec<Trouble<'_>> {
    gather(experiment, |run| {
        run.doubts.iter().map(|doubt| (doubt.sentence.as_str(), doubt.concerns.as_slice())).collect()
    })
}

/// Why there are none.
pub(super) fn failures(experiment: &Experiment) -> Vec<Trouble<'_>> {
    gather(experiment, |run| match &run.outcome {
        Outcome::Measured => Vec::new(),
        Outcome::Failed { why } => vec![(why.as_str(), &[])],
    })
}

/// What happened beside.
pub(super) fn notes(experiment: &Experiment) -> Vec<Trouble<'_>> {
    gather(experiment, |run| run.notes.iter().map(|note| (note.as_str(), [].as_slice())).collect())
}

/// What is to be said of the records as a whole.
pub(super) fn remarks(experiment: &Experiment) -> Vec<String> {
    let mut remarks = Vec::new();
    let [first, later @ ..] = experiment.heads.as_slice() else { return remarks };
    for head in later {
        if head.machine != first.machine {
            remarks.push(format!("what was measured from {} on was on another machine", head.started));
        }
        if head.versions != first.versions {
            remarks.push(format!("what was measured from {} on was with other versions", head.started));
        }
    }
    if experiment
        .heads
        .iter()
        .any(|head| head.versions.values().any(|version| version.contains("debug build")))
    {
        remarks
            .push("rudy was a debug build, whose figures are several times what they should be".to_owned());
    }
    let runs = planned(experiment);
    if experiment.runs.len() < runs {
        let there = experiment.runs.len();
        remarks.push(format!(
            "{there} of {runs} runs were made: the experiment was interrupted, or is not over"
        ));
    }
    remarks.extend(experiment.cut.clone());
    remarks
}

/// How many runs the plan asks for.
fn planned(experiment: &Experiment) -> usize {
    let plan = experiment.plan();
    let arms = plan.subjects.len() + plan.subjects.iter().filter(|subject| subject.is_control).count();
    plan.rounds * plan.loads.len() * arms
}

/// What `said` finds in the runs, by load and subject; sentences that differ only in their numbers are the same.
fn gather<'a>(
    experiment: &'a Experiment,
    said: impl Fn(&'a Run) -> Vec<(&'a str, &'a [String])>,
) -> Vec<Trouble<'a>> {
    let plan = experiment.plan();
    let mut all = Vec::new();
    for load in &plan.loads {
        for subject in &plan.subjects {
            let (load, subject) = (load.name.as_str(), subject.name.as_str());
            let of = experiment.runs_of(subject, load).count();
            let mut here: Vec<Trouble> = Vec::new();
            for (sentence, concerns) in experiment.runs_of(subject, load).flat_map(&said) {
                match here.iter_mut().find(|known| shape(known.sentence) == shape(sentence)) {
                    Some(known) => known.runs += 1,
                    None => here.push(Trouble { load, subject, sentence, runs: 1, of, concerns }),
                }
            }
            all.extend(here);
        }
    }
    all
}

/// A sentence without its numbers.
fn shape(sentence: &str) -> String {
    sentence.chars().filter(|character| !(character.is_ascii_digit() || *character == '.')).collect()
}
