//! What the records of experiments show: everything that a report says, in whichever format.

mod compared;
mod pairs;
mod tables;
#[cfg(test)]
mod tests;
pub(crate) mod then;
pub(crate) mod trouble;
pub(crate) mod words;

use rudy_stats::compare::{Comparison, Control, Delta, Finding, Summary, Verdict, judge};

use self::compared::Question;
use super::unit::Figure;
use crate::experiment::Experiment;

/// What one or several experiments show, judged together.
#[derive(Debug)]
pub(crate) struct Report<'a> {
    /// Each experiment by itself.
    pub(crate) sections: Vec<Section<'a>>,
    /// How many comparisons were judged, and corrected for how many they are.
    pub(crate) judged: usize,
}

/// What an experiment shows.
#[derive(Debug)]
pub(crate) struct Section<'a> {
    /// The records.
    pub(crate) experiment: &'a Experiment,
    /// The plan's name, and the folder where two experiments of a report have the same.
    pub(crate) title: String,
    /// The answer to the plan's question, as far as there is one: a sentence for each two subjects that are compared.
    pub(crate) headline: Vec<String>,
    /// Every comparison that the plan asks for, in its order.
    pub(crate) comparisons: Vec<Compared<'a>>,
    /// What the subjects that were measured twice in each round were against themselves.
    pub(crate) controls: Vec<Controlled<'a>>,
    /// Every figure of every subject, a table for each load.
    pub(crate) tables: Vec<Table<'a>>,
    /// What the plan says was shown before, beside what was shown now.
    pub(crate) then: Vec<then::Row<'a>>,
    /// Why numbers that are marked may not be what they seem to be.
    pub(crate) doubts: Vec<trouble::Trouble<'a>>,
    /// Runs without figures, and why.
    pub(crate) failures: Vec<trouble::Trouble<'a>>,
    /// What happened that changes no figure.
    pub(crate) notes: Vec<trouble::Trouble<'a>>,
    /// What is to be said of the records as a whole: another machine in their midst, a line that was cut off.
    pub(crate) remarks: Vec<String>,
}

/// One subject beside another in a figure under a load.
#[derive(Debug)]
pub(crate) struct Compared<'a> {
    pub(crate) subject: &'a str,
    pub(crate) with: &'a str,
    pub(crate) load: &'a str,
    pub(crate) figure: Figure,
    /// Rounds in which both show the figure.
    pub(crate) rounds: usize,
    /// Rounds in which both were run.
    pub(crate) rounds_run: usize,
    /// The median of either in the rounds in which both show it.
    pub(crate) medians: Option<[f64; 2]>,
    /// Whether one of the runs is doubted in this figure.
    pub(crate) is_doubtful: bool,
    /// What they show.
    pub(crate) answer: Answer,
    /// The same as a sentence.
    pub(crate) sentence: String,
}

impl Compared<'_> {
    /// Whether rounds are missing in which one of both failed or did not show the figure: those that are left may be the
    /// good ones.
    pub(crate) fn misses_rounds(&self) -> bool {
        self.rounds < self.rounds_run
    }

    /// What was found; nothing where nothing was judged.
    pub(crate) fn verdict(&self) -> Option<Verdict> {
        match &self.answer {
            Answer::Judged(finding) => Some(finding.verdict),
            Answer::Open { .. } => None,
        }
    }

    /// Why there is no verdict, where no values of these rounds could have led to one.
    pub(crate) fn why_open(&self) -> Option<String> {
        match &self.answer {
            Answer::Open { why, .. } => Some(why.clone()),
            Answer::Judged(finding) => {
                let few = finding.too_few.filter(|_| finding.verdict == Verdict::Inconclusive)?;
                Some(words::too_few(self.rounds, self.rounds_run, few.needed))
            }
        }
    }

    /// Whether what is said of it is to be marked.
    pub(crate) fn is_marked(&self) -> bool {
        self.is_doubtful || self.misses_rounds()
    }

    /// Whether it is known which is better, or that neither is.
    pub(crate) fn is_settled(&self) -> bool {
        self.verdict().is_some_and(|verdict| verdict != Verdict::Inconclusive)
    }
}

/// What a comparison has shown.
#[derive(Debug)]
pub(crate) enum Answer {
    /// It was judged.
    Judged(Finding),
    /// There is nothing to judge.
    Open {
        /// So many times the median of the other, where both have one that is not 0.
        ratio: Option<f64>,
        /// Why it was not judged.
        why: String,
        /// How many rounds it takes, where that is why.
        needed: Option<usize>,
    },
}

/// A subject beside itself.
#[derive(Debug)]
pub(crate) struct Controlled<'a> {
    pub(crate) subject: &'a str,
    pub(crate) load: &'a str,
    pub(crate) figure: Figure,
    /// Rounds in which it shows the figure twice.
    pub(crate) rounds: usize,
    /// Rounds in which it was run twice.
    pub(crate) rounds_run: usize,
    /// What they show; where they are too few or have values of 0, why they do not.
    pub(crate) outcome: Result<Control, String>,
}

/// What was measured under a load.
#[derive(Debug)]
pub(crate) struct Table<'a> {
    pub(crate) load: &'a str,
    /// The figures that any subject has.
    pub(crate) figures: Vec<Figure>,
    /// The subjects in the order of the plan, each with as many cells as there are figures.
    pub(crate) rows: Vec<(&'a str, Vec<Cell>)>,
}

/// A figure of a subject under a load.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cell {
    /// Of the rounds that have the figure; nothing where none has it.
    pub(crate) summary: Option<Summary>,
    /// In how many rounds it was run.
    pub(crate) rounds_run: usize,
    /// Whether it failed in all of them.
    pub(crate) has_failed: bool,
    /// Whether one of these runs is doubted in this figure.
    pub(crate) is_doubtful: bool,
}

impl Cell {
    /// Whether there are rounds that failed or have no such figure, beside some that have it.
    pub(crate) fn misses_rounds(&self) -> bool {
        self.summary.is_some_and(|summary| summary.rounds < self.rounds_run)
    }
}

/// All of it. One correction for the number of comparisons is made over all experiments, since somebody who reads several
/// reads them as one.
pub(crate) fn analyse(experiments: &[Experiment]) -> Report<'_> {
    let questions: Vec<Vec<Question>> = experiments.iter().map(compared::questions).collect();
    let comparisons: Vec<Comparison> =
        questions.iter().flatten().filter_map(|question| question.comparison.clone().ok()).collect();
    let asked = questions.iter().flatten().filter(|question| question.is_measured()).count();
    let mut findings = judge(&comparisons).into_iter();
    let sections = experiments.iter().zip(questions).map(|(experiment, questions)| {
        let compared = questions.into_iter().map(|question| {
            let finding = question.comparison.is_ok().then(|| findings.next()).flatten();
            question.answer(finding, asked)
        });
        section(experiment, compared.collect(), title(experiment, experiments))
    });
    Report { sections: sections.collect(), judged: comparisons.len() }
}

fn section<'a>(experiment: &'a Experiment, comparisons: Vec<Compared<'a>>, title: String) -> Section<'a> {
    Section {
        experiment,
        title,
        headline: words::headline(&comparisons),
        controls: compared::controls(experiment),
        comparisons,
        tables: tables::tables(experiment),
        then: then::rows(experiment),
        doubts: trouble::doubts(experiment),
        failures: trouble::failures(experiment),
        notes: trouble::notes(experiment),
        remarks: trouble::remarks(experiment),
    }
}

fn title(experiment: &Experiment, all: &[Experiment]) -> String {
    let name = &experiment.plan().name;
    if all.iter().filter(|other| other.plan().name == *name).count() > 1 {
        format!("{name} ({})", experiment.folder.display())
    } else {
        name.clone()
    }
}

/// What difference matters to a plan.
fn delta(experiment: &Experiment) -> Delta {
    Delta::new(experiment.plan().delta).unwrap_or_default()
}
