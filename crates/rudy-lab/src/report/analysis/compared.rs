//! Evaluates the comparisons of a plan.

use rudy_stats::compare::{Better, Comparison, Control, Finding, PAIRS_MIN, Paired, rounds_needed};

use super::pairs::{Pairs, Side, doubt};
use super::{Answer, Compared, Controlled, delta, words};
use crate::experiment::Experiment;
use crate::plan::Plan;
use crate::record::Outcome;
use crate::report::unit::Figure;

/// A comparison, to be evaluated together with all others.
pub(super) struct Question<'a> {
    experiment: &'a Experiment,
    subject: &'a str,
    with: &'a str,
    load: &'a str,
    figure: Figure,
    pairs: Pairs,
    /// The input of a comparison, or why there is none.
    pub(super) comparison: Result<Comparison, Unfit>,
}

/// Why a comparison cannot be evaluated.
#[derive(Debug, Clone)]
pub(super) enum Unfit {
    /// There are too few rounds for a verdict.
    TooFew,
    /// A message.
    Other(String),
}

/// All comparisons of a plan.
pub(super) fn questions(experiment: &Experiment) -> Vec<Question<'_>> {
    let controls = controls(experiment);
    let comparisons = experiment.plan().comparisons.iter();
    let cases = comparisons.flat_map(|comparison| {
        let figures = move |load| comparison.figures.iter().map(move |figure| (comparison, load, figure));
        comparison.loads.iter().flat_map(figures)
    });
    cases
        .map(|(comparison, load, figure)| {
            let [subject, with] = [comparison.subject.as_str(), comparison.with.as_str()];
            Question::new(experiment, [subject, with], load, figure, &controls)
        })
        .collect()
}

/// The figures in which a subject without comparisons is compared with itself, as far as it has them.
const CONTROLLED: [&str; 4] = ["time_s", "cpu_us_per_request", "p99_ns", "private_bytes_per_connection"];

/// The controls: each subject that was measured twice, compared with itself. Uses the figures of its
/// comparisons, or else the usual figures of the load.
pub(super) fn controls(experiment: &Experiment) -> Vec<Controlled<'_>> {
    let plan = experiment.plan();
    let mut controls = Vec::new();
    for subject in plan.subjects.iter().filter(|subject| subject.is_control) {
        for load in &plan.loads {
            let mut figures = figures_of(plan, &subject.name, &load.name);
            if figures.is_empty() {
                let shows = |figure: &&str| {
                    let mut runs = experiment.measured(&subject.name, &load.name);
                    runs.any(|run| run.figures.contains_key(*figure))
                };
                figures = CONTROLLED.into_iter().filter(shows).collect();
            }
            for figure in figures {
                controls.push(controlled(experiment, &subject.name, &load.name, figure));
            }
        }
    }
    controls
}

/// The figures in which a subject is compared under a load.
fn figures_of<'a>(plan: &'a Plan, subject: &str, load: &str) -> Vec<&'a str> {
    let rests = plan.comparisons.iter().filter(|comparison| {
        [&comparison.subject, &comparison.with].contains(&&subject.to_owned())
            && comparison.loads.iter().any(|name| name == load)
    });
    let mut figures: Vec<&str> = Vec::new();
    for name in rests.flat_map(|comparison| &comparison.figures) {
        if !figures.contains(&name.as_str()) {
            figures.push(name);
        }
    }
    figures
}

fn controlled<'a>(
    experiment: &'a Experiment,
    subject: &'a str,
    load: &'a str,
    figure: &str,
) -> Controlled<'a> {
    let side = |is_control| Side { subject, is_control };
    let pairs = Pairs::of(experiment, load, figure, side(true), side(false));
    let paired = Paired::new(&pairs.a, &pairs.b).map_err(|error| match pairs.rounds() {
        rounds @ 0..PAIRS_MIN => {
            format!(
                "{} are too few: a comparison needs {PAIRS_MIN}",
                words::rounds_of(rounds, pairs.rounds_run)
            )
        }
        _ => error.to_string(),
    });
    Controlled {
        subject,
        load,
        figure: Figure::named(figure),
        rounds: pairs.rounds(),
        rounds_run: pairs.rounds_run,
        outcome: paired.map(|paired| Control::of(&paired, delta(experiment))),
    }
}

/// Which direction of a figure is better: up for rates, down for costs.
fn better(figure: &str) -> Better {
    if figure.ends_with("_per_s") || figure == "nines" { Better::Higher } else { Better::Lower }
}

impl<'a> Question<'a> {
    fn new(
        experiment: &'a Experiment,
        [subject, with]: [&'a str; 2],
        load: &'a str,
        figure: &'a str,
        controls: &[Controlled],
    ) -> Self {
        let side = |subject| Side { subject, is_control: false };
        let pairs = Pairs::of(experiment, load, figure, side(subject), side(with));
        let rests = controls.iter().filter(|control| {
            [subject, with].contains(&control.subject)
                && control.load == load
                && control.figure.name == figure
        });
        let controls = rests.filter_map(|control| control.outcome.clone().ok()).collect();
        let paired = Paired::new(&pairs.a, &pairs.b);
        let comparison = paired.map(|paired| Comparison {
            paired,
            better: better(figure),
            delta: delta(experiment),
            controls,
        });
        let mut question = Self {
            experiment,
            subject,
            with,
            load,
            figure: Figure::named(figure),
            pairs,
            comparison: Err(Unfit::TooFew),
        };
        question.comparison = comparison.map_err(|error| question.unfit(&error.to_string()));
        question
    }

    /// Whether both subjects have the figure in any round.
    pub(super) fn is_measured(&self) -> bool {
        self.pairs.rounds() > 0
    }

    /// The result of a comparison, with its finding if it was evaluated. `asked` is the number of
    /// comparisons.
    pub(super) fn answer(self, finding: Option<Finding>, asked: usize) -> Compared<'a> {
        let medians = self.pairs.medians();
        let ratio = medians.map(|[a, b]| a / b).filter(|ratio| ratio.is_finite() && *ratio > 0.0);
        let answer = match (finding, &self.comparison) {
            (Some(finding), _) => Answer::Judged(finding),
            (None, Err(Unfit::Other(why))) => {
                let missing = words::missing(self.pairs.rounds(), self.pairs.rounds_run);
                Answer::Open { ratio, why: format!("{why}{missing}"), needed: None }
            }
            (None, _) => {
                let needed = rounds_needed(asked);
                let why = words::too_few(self.pairs.rounds(), self.pairs.rounds_run, needed);
                Answer::Open { ratio, why, needed: Some(needed) }
            }
        };
        let mut compared = Compared {
            subject: self.subject,
            with: self.with,
            load: self.load,
            figure: self.figure,
            rounds: self.pairs.rounds(),
            rounds_run: self.pairs.rounds_run,
            medians,
            is_doubtful: self.pairs.is_doubtful,
            answer,
            sentence: String::new(),
        };
        compared.sentence = words::sentence(&compared, delta(self.experiment));
        compared
    }

    fn unfit(&self, error: &str) -> Unfit {
        let [a, b] = self.pairs.zeros();
        let rounds = self.pairs.rounds();
        if rounds == 0 {
            Unfit::Other(self.nothing())
        } else if (a, b) == (rounds, rounds) {
            Unfit::Other(format!("both have 0 in each of {}, which is no ratio", words::rounds(rounds)))
        } else if a + b > 0 {
            let said = |subject: &str, zeros: usize| format!("{subject} has 0 in {zeros}");
            let (a, b) = (said(self.subject, a), said(self.with, b));
            Unfit::Other(format!("of {} {a}, {b}, which is no ratio", words::rounds(rounds)))
        } else if rounds < PAIRS_MIN {
            Unfit::TooFew
        } else {
            Unfit::Other(error.to_owned())
        }
    }

    /// Why no round has both figures.
    fn nothing(&self) -> String {
        for subject in [self.subject, self.with] {
            let runs = || self.experiment.runs_of(subject, self.load).filter(|run| !run.is_control);
            if runs().count() == 0 {
                return format!("{subject} was not run");
            }
            let mut measured = runs().filter(|run| run.outcome == Outcome::Measured).peekable();
            if measured.peek().is_none() {
                return format!("{subject} failed in every round");
            }
            if !measured.any(|run| run.figures.contains_key(&self.figure.name)) {
                let doubt = runs().find_map(|run| doubt(run, &self.figure.name));
                let why = doubt.map_or(String::new(), |doubt| format!(": {}", doubt.sentence));
                return format!("{subject} shows no {}{why}", self.figure.title);
            }
        }
        "there is no round with both".to_owned()
    }
}
