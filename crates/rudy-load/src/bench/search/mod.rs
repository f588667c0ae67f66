//! `rudy bench --slo`: searches for the highest rate at which the server meets an objective. `rudy_stats::search`
//! chooses the steps; this module runs each with the load generator.

mod evaluation;
mod report;

use std::time::{Duration, Instant};

use rudy_command::{CommandError, Exit, print_line, report_error};
use rudy_request::{Interrupt, Remote};
use rudy_stats::schedule::{Arrivals, Profile};
use rudy_stats::search::{self, Next, Search, Step};
use rudy_units::Rate;

use self::evaluation::{Evaluation, LatencyTrend, evaluate};
use self::report::{CompletedStep, SearchReport};
use super::command::run_with_fallback;
use super::options::{Options, SloSearchOptions};
use super::output::{Output, to_json};
use super::plan::{AbortCondition, Pace, Plan, Until};
use super::prepare::{Prepared, prepare};
use super::report::{Config, Run};
use super::run::{Interval, Outcome, RunError, Watch, run};
use crate::units;

/// The warm-up takes one part in this number of a step. It warms the caches of the server, which also finishes the
/// previous step.
const WARM_UP_DIVISOR: u32 = 3;

/// The number of intervals of a step, each of which has its mean latency.
const INTERVALS_PER_STEP: u32 = 5;

/// The pause between two steps takes one part in this number of a step, up to [`PAUSE_MAX`]. In it, the server closes
/// its connections.
const PAUSE_DIVISOR: u32 = 6;

/// Maximum pause between two steps.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// Minimum number of requests of a step, if the objective needs fewer.
const REQUESTS_MIN: u64 = 10;

/// The ratio of planned to needed requests, because the number of random arrivals varies. With 299 needed requests, the
/// margin is 3.4 standard deviations, so one step in 3000 has too few.
const REQUESTS_MARGIN: f64 = 1.2;

/// Time between checks for a signal during the pause.
const SIGNAL_CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// Runs a search and writes its report.
pub(super) fn bench(options: &Options, search_options: &SloSearchOptions) -> Exit {
    let (prepared, arrivals, output, interrupt) = match set_up(options, search_options) {
        Ok(ready) => ready,
        Err(error) => return error.report(),
    };
    let runner = SearchRunner { prepared, arrivals, options: search_options, interrupt: &interrupt };
    let report = match runner.search() {
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

/// Validates the options, opens the outputs and catches Ctrl-C, so that all errors of these appear before the search.
fn set_up(
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

/// Runs the steps of a search.
struct SearchRunner<'a> {
    prepared: Prepared,
    arrivals: Arrivals,
    options: &'a SloSearchOptions,
    interrupt: &'a Interrupt,
}

impl SearchRunner<'_> {
    fn search(mut self) -> Result<SearchReport, RunError> {
        let closed_loop = self.measure_closed_loop()?;
        let rate = closed_loop.responses_per_second();
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
            self.pause();
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
        Ok(SearchReport { options: self.options.clone(), closed_loop, steps, result })
    }

    /// Runs a closed loop, whose throughput is the upper limit of the search. Also finds the address that accepts
    /// connections.
    fn measure_closed_loop(&mut self) -> Result<Run, RunError> {
        let plan = Plan { pace: Pace::Closed, deadline: None, ..self.plan(self.options.step) };
        self.prepared.plan = plan;
        let (remote, outcome) = run_with_fallback(&self.prepared, &mut Watcher::new(self.interrupt))?;
        self.prepared.remotes = vec![remote.clone()];
        let closed_loop = self.completed_run(&remote, outcome);
        self.prepared.plan.remote = remote;
        print_line(&report::closed_loop_line(&closed_loop));
        Ok(closed_loop)
    }

    fn run_step(&mut self, step: Step) -> Result<CompletedStep, RunError> {
        let mut plan =
            Plan { pace: Pace::Open(Profile::Constant(step.rate), self.arrivals), ..self.plan(step.time) };
        // Without it, each failed step against a stalled server would take the whole timeout.
        plan.abort_condition = self.options.slo.late_at_most().map(|(after, share)| {
            let counted = step.time.saturating_sub(plan.warm_up).as_secs_f64();
            let rate = step.rate / f64::from(plan.threads.get());
            AbortCondition { after, max_unanswered: step.rate * counted * share, rate }
        });
        self.prepared.plan = plan;
        let mut watcher = Watcher::new(self.interrupt);
        match run(&self.prepared.plan, &mut watcher) {
            Ok(outcome) => {
                let run = self.completed_run(&self.prepared.plan.remote, outcome);
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

    /// The number of requests of a step, of which enough remain after the warm-up.
    fn requests_per_step(&self) -> f64 {
        let counted = 1.0 - 1.0 / f64::from(WARM_UP_DIVISOR);
        units::float(self.options.slo.requests_needed().max(REQUESTS_MIN)) * REQUESTS_MARGIN / counted
    }

    /// The plan of a run with this duration, warm-up included.
    fn plan(&self, time: Duration) -> Plan {
        let warm_up = time / WARM_UP_DIVISOR;
        let counted = time.saturating_sub(warm_up);
        let mut plan = self.prepared.plan.clone();
        (plan.warm_up, plan.until) = (warm_up, Until::Time(counted));
        plan.interval = counted / INTERVALS_PER_STEP;
        plan.abort_condition = None;
        plan
    }

    fn completed_run(&self, remote: &Remote, outcome: Outcome) -> Run {
        Run { config: Config::new(&self.prepared, remote), outcome }
    }

    /// Waits between two steps, until the server has closed its connections. The run has waited for its last responses.
    fn pause(&self) {
        let until = Instant::now() + (self.options.step / PAUSE_DIVISOR).min(PAUSE_MAX);
        while self.interrupt.signal().is_none() && Instant::now() < until {
            std::thread::sleep(SIGNAL_CHECK_INTERVAL);
        }
    }
}

/// Records the latency over a step, and stops it on a signal.
struct Watcher<'a> {
    trend: LatencyTrend,
    interrupt: &'a Interrupt,
}

impl<'a> Watcher<'a> {
    fn new(interrupt: &'a Interrupt) -> Self {
        Self { trend: LatencyTrend::default(), interrupt }
    }
}

impl Watch for Watcher<'_> {
    fn should_continue(&mut self) -> bool {
        self.interrupt.signal().is_none()
    }

    fn interval(&mut self, interval: &Interval) {
        self.trend.add(interval);
    }
}
