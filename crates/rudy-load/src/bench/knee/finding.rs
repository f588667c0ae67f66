//! The result of an SLO search, as text and as JSON.

use std::fmt;

use rudy_stats::knee::{Answer, Cause, Kind, Report, Step};
use serde::Serialize;

use super::judge::Ruling;
use crate::Exit;
use crate::bench::options::SloSearchOptions;
use crate::bench::report::{Document, Run, Verdict};
use crate::units;

/// A completed step.
#[derive(Debug, Clone)]
pub(super) struct Tried {
    pub(super) step: Step,
    pub(super) ruling: Ruling,
    /// `None` if no connection could be opened.
    pub(super) run: Option<Run>,
}

/// A completed search.
#[derive(Debug, Clone)]
pub(super) struct Finding {
    pub(super) knee: SloSearchOptions,
    /// The closed loop that measured the ceiling.
    pub(super) ceiling: Run,
    pub(super) steps: Vec<Tried>,
    /// `None` if the search was interrupted.
    pub(super) answer: Option<Answer>,
}

impl Finding {
    /// The exit code of the command.
    pub(super) fn exit(&self) -> Exit {
        match self.answer {
            Some(Answer { held: None, .. }) => Exit::NotMet,
            _ => Exit::Done,
        }
    }

    /// The last step that failed at the limit.
    fn breaking(&self, rate: f64) -> Option<&Tried> {
        let is_it =
            |tried: &&Tried| tried.step.rate.total_cmp(&rate).is_eq() && tried.ruling.report != Report::Held;
        self.steps.iter().rev().find(is_it)
    }
}

/// `10,000/s in a closed loop`
pub(super) fn of_probe(probe: &Run) -> String {
    let bound =
        if Verdict::of(probe).is_of_the_client() { ", where the generator was the limit" } else { "" };
    format!("{} in a closed loop{bound}: the search begins below", units::rate(probe.responses_per_second()))
}

/// `12,800/s held: p99 3.1 ms, errors 0 %`
impl fmt::Display for Tried {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let held = if self.ruling.report == Report::Held { "held" } else { "broke" };
        write!(f, "{} {held}", units::rate(self.step.rate))?;
        match self.step.kind {
            Kind::Vote => f.write_str(" (vote)")?,
            Kind::Hold => write!(f, " for {}", units::duration(self.step.time))?,
            Kind::Bracket | Kind::Bisect => {}
        }
        write!(f, ": {}", self.ruling.words)
    }
}

/// The report as text, the result first.
impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let config = &self.ceiling.config;
        writeln!(f, "{}\n{}", config.target, self.answer_line())?;
        if let Some(line) = self.edge_line() {
            writeln!(f, "{line}")?;
        }
        writeln!(f)?;
        writeln!(f, "objective    {}", self.knee.slo)?;
        writeln!(
            f,
            "connections  {}, at most {} requests in flight on each; {} threads",
            config.connections, config.pipeline, config.threads
        )?;
        writeln!(
            f,
            "closed loop  {} on these connections",
            units::rate(self.ceiling.responses_per_second())
        )?;
        writeln!(
            f,
            "steps        {} of {}, a third of each to warm up; to {} of the rate",
            self.steps.len(),
            units::duration(self.knee.step),
            units::share(self.knee.resolution)
        )?;
        for tried in &self.steps {
            writeln!(f, "  {tried}")?;
        }
        Ok(())
    }
}

impl Finding {
    fn answer_line(&self) -> String {
        let Self { knee, .. } = self;
        match self.answer {
            None => "Interrupted: the search was not at its end.".to_owned(),
            Some(answer @ Answer { held: Some(held), .. }) => format!(
                "It holds {}{}, for {}.",
                if answer.is_at_least() { "at least " } else { "" },
                units::rate(held),
                units::duration(knee.hold)
            ),
            Some(Answer { held: None, broke: Some((_, Cause::Generator)) }) => {
                "Nothing is known of the server: the generator was late at every rate.".to_owned()
            }
            Some(Answer { held: None, broke }) => {
                let lowest = broke.map(|(broke, _)| format!(", {} among them", units::rate(broke)));
                format!("It holds no rate that was tried{}.", lowest.unwrap_or_default())
            }
        }
    }

    fn edge_line(&self) -> Option<String> {
        let (edge, cause) = self.answer?.broke?;
        let what = match cause {
            Cause::Latency => "latency broke first",
            Cause::Errors => "errors broke first",
            Cause::Backlog => "the server did not keep up",
            Cause::Generator => "the generator broke first, so the server may hold more",
        };
        let why = self.breaking(edge).map(|tried| format!(" ({})", tried.ruling.words));
        Some(format!("At {} {what}{}.", units::rate(edge), why.unwrap_or_default()))
    }

    /// The report as JSON.
    pub(super) fn document(&self) -> KneeDocument<'_> {
        let broke = self.answer.and_then(|answer| answer.broke);
        KneeDocument {
            rudy_version: env!("CARGO_PKG_VERSION"),
            target: self.ceiling.config.target.clone(),
            slo: self.knee.slo.to_string(),
            resolution: self.knee.resolution,
            step_time_s: self.knee.step.as_secs_f64(),
            hold_time_s: self.knee.hold.as_secs_f64(),
            is_interrupted: self.answer.is_none(),
            held_rate: self.answer.and_then(|answer| answer.held),
            broke_rate: broke.map(|(rate, _)| rate),
            broke_by: broke.map(|(_, cause)| name(cause)),
            is_at_least: self.answer.is_some_and(|answer| answer.held.is_some() && answer.is_at_least()),
            closed_loop: Document::of(&self.ceiling),
            steps: self.steps.iter().map(StepDocument::of).collect(),
        }
    }
}

/// The JSON document that `--json` writes for a search.
#[derive(Debug, Serialize)]
pub(super) struct KneeDocument<'a> {
    /// The program and version.
    rudy_version: &'static str,
    /// The first URL.
    target: String,
    slo: String,
    resolution: f64,
    step_time_s: f64,
    hold_time_s: f64,
    /// Whether the search was interrupted before it had a result.
    is_interrupted: bool,
    /// The highest rate that met the objective, per second; null if none did.
    held_rate: Option<f64>,
    /// The lowest rate above it that failed; null if none did.
    broke_rate: Option<f64>,
    /// The cause of the failure: `latency`, `errors`, `backlog` or `generator`.
    broke_by: Option<&'static str>,
    /// Whether the result is a lower bound, because the server was not the limit.
    is_at_least: bool,
    /// The closed loop that measured the ceiling.
    closed_loop: Document<'a>,
    steps: Vec<StepDocument<'a>>,
}

#[derive(Debug, Serialize)]
struct StepDocument<'a> {
    /// `bracket`, `bisect`, `vote`, `hold`.
    kind: &'static str,
    /// Requests per second of the step.
    rate: f64,
    /// Duration, including the warm-up.
    time_s: f64,
    held: bool,
    /// As in the whole report; null if the step met the objective.
    broke_by: Option<&'static str>,
    /// The same as a sentence with figures.
    words: String,
    /// The run; null if no connection could be opened.
    run: Option<Document<'a>>,
}

impl<'a> StepDocument<'a> {
    fn of(tried: &'a Tried) -> Self {
        let kind = match tried.step.kind {
            Kind::Bracket => "bracket",
            Kind::Bisect => "bisect",
            Kind::Vote => "vote",
            Kind::Hold => "hold",
        };
        let broke_by = match tried.ruling.report {
            Report::Held => None,
            Report::Broke(cause) => Some(name(cause)),
        };
        Self {
            kind,
            rate: tried.step.rate,
            time_s: tried.step.time.as_secs_f64(),
            held: broke_by.is_none(),
            broke_by,
            words: tried.ruling.words.clone(),
            run: tried.run.as_ref().map(Document::of),
        }
    }
}

fn name(cause: Cause) -> &'static str {
    match cause {
        Cause::Latency => "latency",
        Cause::Errors => "errors",
        Cause::Backlog => "backlog",
        Cause::Generator => "generator",
    }
}
