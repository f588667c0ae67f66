//! `rudy bench --slo`: finds the highest rate at which the server meets an objective. `rudy_stats::search` is
//! the search; this module runs each of its steps with the load generator.

mod evaluation;
mod report;

use std::time::{Duration, Instant};

use rudy_stats::schedule::{Arrivals, Profile};
use rudy_stats::search::{self, Next, Search, Step};
use rudy_units::Rate;

use self::evaluation::{Evaluation, Trend, evaluate};
use self::report::{CompletedStep, SearchReport};
use super::command::run_with_fallback;
use super::options::{Options, SloSearchOptions};
use super::output::{Output, to_json};
use super::plan::{GiveUp, Pace, Plan, Until};
use super::prepare::{Prepared, prepare};
use super::report::{Config, Run};
use super::run::{Interval, Outcome, RunError, Watch, run};
use crate::exit::{CommandError, print_line, report_error};
use crate::interrupt::Interrupt;
use crate::{Exit, Remote, units};

/// The warm-up is this fraction of a step. It warms the caches of the server and lets it finish the previous
/// step.
const WARM_UP: u32 = 3;

/// Number of intervals of a step, each of which records its delay.
const PARTS: u32 = 5;

/// The pause between two steps is this fraction of a step, and at most a second. All requests end and the
/// server closes its connections.
const COOL_DOWN: u32 = 6;

/// See [`COOL_DOWN`].
const COOL_DOWN_MAX: Duration = Duration::from_secs(1);

/// Minimum number of requests for a step to be meaningful, if the objective needs fewer.
const REQUESTS_MIN: u64 = 10;

/// Requests that are planned for each one that is needed. The number of random arrivals varies: of 299 it is 3.4
/// standard deviations, which leaves one step of 3000 with too few.
const MARGIN: f64 = 1.2;

/// Time between checks for a signal during the pause.
const NAP: Duration = Duration::from_millis(20);

/// Runs a search and writes its report.
pub(super) fn bench(options: &Options, search_options: &SloSearchOptions) -> Exit {
    let (prepared, arrivals, output, interrupt) = match make_ready(options, search_options) {
        Ok(ready) => ready,
        Err(error) => return error.report(),
    };
    let experiment = Experiment { prepared, arrivals, options: search_options, interrupt: &interrupt };
    let report = match experiment.search() {
        Ok(report) => report,
        Err(error) => {
            let exit = interrupt.signal().map_or(Exit::CannotRun, Exit::Signal);
            return report_error(exit, &error.to_string());
        }
    };
    let written = to_json(&report.document()).and_then(|json| output.write(&json, &report.to_string()));
    match written {
        Ok(()) => interrupt.signal().map_or(report.exit(), Exit::Signal),
        Err(message) => report_error(Exit::CannotRun, &message),
    }
}

/// Finds all errors that can be found before anything is sent.
fn make_ready(
    options: &Options,
    search_options: &SloSearchOptions,
) -> Result<(Prepared, Arrivals, Output, Interrupt), CommandError> {
    let mut options = options.clone();
    // Set any rate, so that the options of open-loop arrivals are parsed.
    options.pace.rate = Some(Rate::Constant(1.0));
    options.pace.duration = Some(search_options.step);
    let prepared = prepare(&options)?;
    let arrivals = match prepared.plan.pace {
        Pace::Open(_, arrivals) => arrivals,
        Pace::Closed => Arrivals::Uniform,
    };
    let output = Output::open(&options.output)?;
    let interrupt = Interrupt::catch()
        .map_err(|error| CommandError::Environment(format!("cannot catch Ctrl-C: {error}")))?;
    Ok((prepared, arrivals, output, interrupt))
}

/// A server, and the load for it.
struct Experiment<'a> {
    prepared: Prepared,
    arrivals: Arrivals,
    options: &'a SloSearchOptions,
    interrupt: &'a Interrupt,
}

impl Experiment<'_> {
    fn search(mut self) -> Result<SearchReport, RunError> {
        let ceiling = self.probe()?;
        let rate = ceiling.responses_per_second();
        let requests = self.requests_per_step();
        let options = search::Options {
            // Lower rates have too few requests even in the longest step.
            lowest: (requests / self.options.hold.max(self.options.step).as_secs_f64()).max(1.0),
            resolution: self.options.resolution,
            step: self.options.step,
            hold: self.options.hold.max(self.options.step),
            requests,
            ..search::Options::default()
        };
        let mut search = Search::new(options, rate);
        let mut steps = Vec::new();
        let result = loop {
            let step = match search.next() {
                Next::Done(result) => break Some(result),
                Next::Step(step) => step,
            };
            self.cool_down();
            if self.interrupt.signal().is_some() {
                break None;
            }
            let completed = self.run_step(step)?;
            if completed.run.as_ref().is_some_and(|run| run.outcome.is_interrupted) {
                break None;
            }
            print_line(&completed.to_string());
            search.report(completed.evaluation.result);
            steps.push(completed);
        };
        Ok(SearchReport { options: self.options.clone(), ceiling, steps, result })
    }

    /// Runs a closed loop to find the ceiling. Also finds the address that responds.
    fn probe(&mut self) -> Result<Run, RunError> {
        let plan = Plan { pace: Pace::Closed, deadline: None, ..self.plan(self.options.step) };
        self.prepared.plan = plan;
        let (remote, outcome) = run_with_fallback(&self.prepared, &mut Watcher::new(self.interrupt))?;
        self.prepared.remotes = vec![remote.clone()];
        let probe = self.run_of(&remote, outcome);
        self.prepared.plan.remote = remote;
        print_line(&report::of_closed_loop(&probe));
        Ok(probe)
    }

    fn run_step(&mut self, step: Step) -> Result<CompletedStep, RunError> {
        let mut plan =
            Plan { pace: Pace::Open(Profile::Constant(step.rate), self.arrivals), ..self.plan(step.time) };
        // A server that is stuck would otherwise cost the whole timeout in each failing step.
        plan.give_up = self.options.slo.late_at_most().map(|(after, share)| {
            let counted = step.time.saturating_sub(plan.warm_up).as_secs_f64();
            let rate = step.rate / f64::from(plan.threads.get());
            GiveUp { after, unanswered: step.rate * counted * share, rate }
        });
        self.prepared.plan = plan;
        let mut watcher = Watcher::new(self.interrupt);
        match run(&self.prepared.plan, &mut watcher) {
            Ok(outcome) => {
                let run = self.run_of(&self.prepared.plan.remote, outcome);
                let evaluation = evaluate(&self.options.slo, &run, &watcher.trend);
                Ok(CompletedStep { step, evaluation, run: Some(run) })
            }
            // The server listened before, so the rate caused this failure.
            Err(error @ RunError::Connect(..)) => {
                let evaluation = Evaluation::not_connected(error.to_string());
                Ok(CompletedStep { step, evaluation, run: None })
            }
            Err(error) => Err(error),
        }
    }

    /// The number of requests of a step that leaves enough after the warm-up.
    fn requests_per_step(&self) -> f64 {
        let counted = 1.0 - 1.0 / f64::from(WARM_UP);
        units::float(self.options.slo.requests_needed().max(REQUESTS_MIN)) * MARGIN / counted
    }

    /// The plan of a run with this duration, warm-up included.
    fn plan(&self, time: Duration) -> Plan {
        let warm_up = time / WARM_UP;
        let counted = time.saturating_sub(warm_up);
        let mut plan = self.prepared.plan.clone();
        (plan.warm_up, plan.until, plan.interval) = (warm_up, Until::Time(counted), counted / PARTS);
        plan.give_up = None;
        plan
    }

    fn run_of(&self, remote: &Remote, outcome: Outcome) -> Run {
        Run { config: Config::new(&self.prepared, remote), outcome }
    }

    /// Waits between steps. A run has already waited for its last responses; the pause is for the server.
    fn cool_down(&self) {
        let until = Instant::now() + (self.options.step / COOL_DOWN).min(COOL_DOWN_MAX);
        while self.interrupt.signal().is_none() && Instant::now() < until {
            std::thread::sleep(NAP);
        }
    }
}

/// Records the delay of a step, and stops it on a signal.
struct Watcher<'a> {
    trend: Trend,
    interrupt: &'a Interrupt,
}

impl<'a> Watcher<'a> {
    fn new(interrupt: &'a Interrupt) -> Self {
        Self { trend: Trend::default(), interrupt }
    }
}

impl Watch for Watcher<'_> {
    fn goes_on(&mut self) -> bool {
        self.interrupt.signal().is_none()
    }

    fn interval(&mut self, interval: &Interval) {
        self.trend.add(interval);
    }
}
