//! The report of an SLO search, as text and as JSON.

use std::fmt;

use rudy_command::Exit;
use rudy_stats::search::{Cause, Incomplete, Kind, SearchResult, Step, StepResult};
use serde::Serialize;

use super::evaluation::Evaluation;
use crate::bench::options::SloSearchOptions;
use crate::bench::report::{Document, Run, Verdict};
use crate::units;

/// A completed step.
#[derive(Debug, Clone)]
pub(super) struct CompletedStep {
    pub(super) step: Step,
    pub(super) evaluation: Evaluation,
    /// `None` if no connection could be opened.
    pub(super) run: Option<Run>,
}

/// A completed search.
#[derive(Debug, Clone)]
pub(super) struct SearchReport {
    pub(super) options: SloSearchOptions,
    /// The closed loop whose throughput is the upper limit of the search.
    pub(super) closed_loop: Run,
    pub(super) steps: Vec<CompletedStep>,
    /// `None` if the search was interrupted.
    pub(super) result: Option<SearchResult>,
}

impl SearchReport {
    /// The exit code of the command.
    pub(super) fn exit(&self) -> Exit {
        match self.result {
            Some(SearchResult { passed: None, .. }) => Exit::NotMet,
            _ => Exit::Done,
        }
    }

    /// The last step that failed at this rate.
    fn failed_step(&self, rate: f64) -> Option<&CompletedStep> {
        let is_match = |completed: &&CompletedStep| {
            completed.step.rate.total_cmp(&rate).is_eq() && completed.evaluation.result != StepResult::Passed
        };
        self.steps.iter().rev().find(is_match)
    }
}

/// `10,000/s in a closed loop`
pub(super) fn closed_loop_line(run: &Run) -> String {
    let limit = if Verdict::new(run).is_client_limited() { ", where the client was the limit" } else { "" };
    format!("{} in a closed loop{limit}: the search starts below", units::rate(run.responses_per_second()))
}

/// `12,800/s passed: p99 3.1 ms, errors 0 %`
impl fmt::Display for CompletedStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let result = if self.evaluation.result == StepResult::Passed { "passed" } else { "failed" };
        write!(f, "{} {result}", units::rate(self.step.rate))?;
        match self.step.kind {
            Kind::Vote => f.write_str(" (vote)")?,
            Kind::Hold => write!(f, " for {}", units::duration(self.step.time))?,
            Kind::Bracket | Kind::Bisect => {}
        }
        write!(f, ": {}", self.evaluation.reason)
    }
}

/// The report as text, the result first.
impl fmt::Display for SearchReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (config, options) = (&self.closed_loop.config, &self.options);
        writeln!(f, "{}\n{}", config.target, self.result_line())?;
        for line in [self.limit_line(), self.incomplete_line()].into_iter().flatten() {
            writeln!(f, "{line}")?;
        }
        writeln!(f)?;
        writeln!(f, "objective    {}", options.slo)?;
        writeln!(
            f,
            "client       {}, with at most {} in flight on each; {}",
            self.steps
                .iter()
                .find_map(|step| step.run.as_ref())
                .map_or(config, |run| &run.config)
                .describe_connections(),
            units::counted(config.in_flight_per_connection(), "request"),
            units::counted(config.threads, "thread")
        )?;
        writeln!(
            f,
            "closed loop  {} on these connections",
            units::rate(self.closed_loop.responses_per_second())
        )?;
        writeln!(
            f,
            "steps        {} of {} or more, a third of each to warm up; to {} of the rate",
            self.steps.len(),
            units::duration(options.step),
            units::share(options.resolution)
        )?;
        for completed in &self.steps {
            writeln!(f, "  {completed}")?;
        }
        Ok(())
    }
}

impl SearchReport {
    fn result_line(&self) -> String {
        match self.result {
            None => "Interrupted: the search has no result yet.".to_owned(),
            Some(result @ SearchResult { passed: Some(passed), .. }) => format!(
                "Maximum rate that meets the objective: {}{}",
                if result.is_lower_bound() { "at least " } else { "" },
                units::rate(passed)
            ),
            Some(SearchResult { failed: Some((_, Cause::Client)), .. }) => {
                "No result for the server: the client was late at every rate.".to_owned()
            }
            Some(SearchResult { failed, .. }) => {
                let lowest = failed.map(|(failed, _)| format!(", not even {}", units::rate(failed)));
                let needed = self.options.slo.requests_needed();
                format!(
                    "No rate that was tried meets the objective{}. Lower ones need longer steps (--hold-time), because \
                     the objective takes {} to show.",
                    lowest.unwrap_or_default(),
                    units::counted(needed, "request")
                )
            }
        }
    }

    fn limit_line(&self) -> Option<String> {
        let (rate, cause) = self.result?.failed?;
        let what = match cause {
            Cause::Latency => "latency exceeded the objective",
            Cause::Errors => "errors exceeded the objective",
            Cause::Backlog => "the server did not keep up",
            Cause::Connections => {
                "the number of connections was the limit, so the server may sustain more with --max-connections"
            }
            Cause::Client => "the server was not the limit, so it may sustain more",
            Cause::TooFewRequests => "there were too few requests to decide",
        };
        let reason = self.failed_step(rate).map(|step| format!(" ({})", step.evaluation.reason));
        Some(format!("At {} {what}{}.", units::rate(rate), reason.unwrap_or_default()))
    }

    fn incomplete_line(&self) -> Option<String> {
        let hold = units::duration(self.options.hold);
        Some(match self.result?.incomplete? {
            Incomplete::StepsExhausted => format!(
                "The range between both rates is wider than {}, because repeated steps contradict each other.",
                units::share(self.options.resolution)
            ),
            Incomplete::Unconfirmed => {
                format!(
                    "This rate passed short steps only: no rate passed for {hold}, so the server is not stable."
                )
            }
        })
    }

    /// The report as JSON.
    pub(super) fn document(&self) -> SearchDocument<'_> {
        let failed = self.result.and_then(|result| result.failed);
        SearchDocument {
            rudy_version: env!("CARGO_PKG_VERSION"),
            target: self.closed_loop.config.target.clone(),
            slo: self.options.slo.to_string(),
            resolution: self.options.resolution,
            step_time_s: self.options.step.as_secs_f64(),
            hold_time_s: self.options.hold.as_secs_f64(),
            is_interrupted: self.result.is_none(),
            max_rate_per_s: self.result.and_then(|result| result.passed),
            failed_rate_per_s: failed.map(|(rate, _)| rate),
            failed_by: failed.map(|(_, cause)| cause_name(cause)),
            is_lower_bound: self.result.is_some_and(|result| result.is_lower_bound()),
            incomplete: self.result.and_then(|result| result.incomplete).map(incomplete_name),
            closed_loop: Document::new(&self.closed_loop),
            steps: self.steps.iter().map(StepDocument::new).collect(),
        }
    }
}

/// The JSON document that `--json` writes for a search.
#[derive(Debug, Serialize)]
pub(super) struct SearchDocument<'a> {
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
    max_rate_per_s: Option<f64>,
    /// The lowest rate above it that failed; null if none did.
    failed_rate_per_s: Option<f64>,
    /// The cause of the failure: `latency`, `errors`, `backlog`, `connections`, `client` or `too_few_requests`.
    failed_by: Option<&'static str>,
    /// Whether the result is a lower bound, because the server was not the limit.
    is_lower_bound: bool,
    /// The reason for an incomplete result: `steps_exhausted` or `unconfirmed`; null for a complete one.
    incomplete: Option<&'static str>,
    /// The closed loop whose throughput is the upper limit of the search.
    closed_loop: Document<'a>,
    steps: Vec<StepDocument<'a>>,
}

#[derive(Debug, Serialize)]
struct StepDocument<'a> {
    /// `bracket`, `bisect`, `vote`, `hold`.
    kind: &'static str,
    /// Requests per second of the step.
    rate_per_s: f64,
    /// Duration, including the warm-up.
    time_s: f64,
    passed: bool,
    /// The cause, as in [`SearchDocument`]; null if the step met the objective.
    failed_by: Option<&'static str>,
    /// The values of the metrics in the objective, or the reason of the failure.
    reason: String,
    /// The run; null if no connection could be opened.
    run: Option<Document<'a>>,
}

impl<'a> StepDocument<'a> {
    fn new(completed: &'a CompletedStep) -> Self {
        let kind = match completed.step.kind {
            Kind::Bracket => "bracket",
            Kind::Bisect => "bisect",
            Kind::Vote => "vote",
            Kind::Hold => "hold",
        };
        let failed_by = match completed.evaluation.result {
            StepResult::Passed => None,
            StepResult::Failed(cause) => Some(cause_name(cause)),
        };
        Self {
            kind,
            rate_per_s: completed.step.rate,
            time_s: completed.step.time.as_secs_f64(),
            passed: failed_by.is_none(),
            failed_by,
            reason: completed.evaluation.reason.clone(),
            run: completed.run.as_ref().map(Document::new),
        }
    }
}

fn cause_name(cause: Cause) -> &'static str {
    match cause {
        Cause::Latency => "latency",
        Cause::Errors => "errors",
        Cause::Backlog => "backlog",
        Cause::Connections => "connections",
        Cause::Client => "client",
        Cause::TooFewRequests => "too_few_requests",
    }
}

fn incomplete_name(incomplete: Incomplete) -> &'static str {
    match incomplete {
        Incomplete::StepsExhausted => "steps_exhausted",
        Incomplete::Unconfirmed => "unconfirmed",
    }
}
