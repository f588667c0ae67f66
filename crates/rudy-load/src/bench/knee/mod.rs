//! `rudy bench --slo`: finds the highest rate at which the server meets an objective. `rudy_stats::knee` is
//! the search; this module runs each of its steps with the load generator.

mod finding;
mod judge;

use std::time::{Duration, Instant};

use rudy_stats::knee::{self, Next, Search, Step};
use rudy_stats::schedule::{Arrivals, Profile};
use rudy_units::Rate;

use self::finding::{Finding, Tried};
use self::judge::{Ruling, Slope, judge};
use super::command::{refuse, run_somewhere, say};
use super::options::{Options, SloSearchOptions};
use super::output::{Output, to_json};
use super::plan::{Pace, Plan, Until};
use super::prepare::{Prepared, prepare};
use super::report::{Config, Run};
use super::run::{Interval, Outcome, RunError, Watch, run};
use crate::exit::Refusal;
use crate::interrupt::Interrupt;
use crate::{Exit, Remote};

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

/// Minimum number of requests for a step to be meaningful.
const REQUESTS_MIN: f64 = 10.0;

/// Time between checks for a signal during the pause.
const NAP: Duration = Duration::from_millis(20);

/// Runs a search and writes its report.
pub(super) fn bench(options: &Options, knee: &SloSearchOptions) -> Exit {
    let (prepared, arrivals, output, interrupt) = match make_ready(options, knee) {
        Ok(ready) => ready,
        Err(refusal) => return refuse(refusal.exit(), &refusal.to_string()),
    };
    let lab = Lab { prepared, arrivals, knee, interrupt: &interrupt };
    let finding = match lab.search() {
        Ok(finding) => finding,
        Err(error) => {
            return refuse(interrupt.signal().map_or(Exit::CannotRun, Exit::Signal), &error.to_string());
        }
    };
    let written = to_json(&finding.document()).and_then(|json| output.write(&json, &finding.to_string()));
    match written {
        Ok(()) => interrupt.signal().map_or(finding.exit(), Exit::Signal),
        Err(why) => refuse(Exit::CannotRun, &why),
    }
}

/// Finds all errors that can be found before anything is sent.
fn make_ready(
    options: &Options,
    knee: &SloSearchOptions,
) -> Result<(Prepared, Arrivals, Output, Interrupt), Refusal> {
    let mut options = options.clone();
    // Set any rate, so that the options of open-loop arrivals are parsed.
    options.pace.rate = Some(Rate::Constant(1.0));
    options.pace.duration = Some(knee.step);
    let prepared = prepare(&options)?;
    let arrivals = match prepared.plan.pace {
        Pace::Open(_, arrivals) => arrivals,
        Pace::Closed => Arrivals::Uniform,
    };
    let output = Output::open(&options.output)?;
    let interrupt =
        Interrupt::catch().map_err(|error| Refusal::World(format!("cannot catch Ctrl-C: {error}")))?;
    Ok((prepared, arrivals, output, interrupt))
}

/// A server, and the load for it.
struct Lab<'a> {
    prepared: Prepared,
    arrivals: Arrivals,
    knee: &'a SloSearchOptions,
    interrupt: &'a Interrupt,
}

impl Lab<'_> {
    fn search(mut self) -> Result<Finding, RunError> {
        let ceiling = self.probe()?;
        let rate = ceiling.responses_per_second();
        let options = knee::Options {
            lowest: self.lowest(),
            resolution: self.knee.resolution,
            step: self.knee.step,
            hold: self.knee.hold,
            ..knee::Options::default()
        };
        let mut search = Search::new(options, rate);
        let mut steps = Vec::new();
        let answer = loop {
            let step = match search.next() {
                Next::Done(answer) => break Some(answer),
                Next::Step(step) => step,
            };
            self.cool_down();
            if self.interrupt.signal().is_some() {
                break None;
            }
            let tried = self.try_out(step)?;
            if tried.run.as_ref().is_some_and(|run| run.outcome.is_interrupted) {
                break None;
            }
            say(&tried.to_string());
            search.report(tried.ruling.report);
            steps.push(tried);
        };
        Ok(Finding { knee: self.knee.clone(), ceiling, steps, answer })
    }

    /// Runs a closed loop to find the ceiling. Also finds the address that responds.
    fn probe(&mut self) -> Result<Run, RunError> {
        let plan = Plan { pace: Pace::Closed, deadline: None, ..self.plan(self.knee.step) };
        self.prepared.plan = plan;
        let (remote, outcome) = run_somewhere(&self.prepared, &mut Watcher::new(self.interrupt))?;
        self.prepared.remotes = vec![remote.clone()];
        let probe = self.run_of(&remote, outcome);
        self.prepared.plan.remote = remote;
        say(&finding::of_probe(&probe));
        Ok(probe)
    }

    fn try_out(&mut self, step: Step) -> Result<Tried, RunError> {
        self.prepared.plan =
            Plan { pace: Pace::Open(Profile::Constant(step.rate), self.arrivals), ..self.plan(step.time) };
        let mut watcher = Watcher::new(self.interrupt);
        match run(&self.prepared.plan, &mut watcher) {
            Ok(outcome) => {
                let run = self.run_of(&self.prepared.plan.remote, outcome);
                let ruling = judge(&self.knee.slo, &run, &watcher.slope);
                Ok(Tried { step, ruling, run: Some(run) })
            }
            // The server listened before, so the rate caused this failure.
            Err(error @ RunError::Connect(..)) => {
                Ok(Tried { step, ruling: Ruling::gone(error.to_string()), run: None })
            }
            Err(error) => Err(error),
        }
    }

    /// The rate at which a step has [`REQUESTS_MIN`] requests.
    fn lowest(&self) -> f64 {
        let counted = self.knee.step.saturating_sub(self.knee.step / WARM_UP);
        (REQUESTS_MIN / counted.as_secs_f64()).max(1.0)
    }

    /// The plan of a run with this duration, warm-up included.
    fn plan(&self, time: Duration) -> Plan {
        let warm_up = time / WARM_UP;
        let counted = time.saturating_sub(warm_up);
        let mut plan = self.prepared.plan.clone();
        (plan.warm_up, plan.until, plan.interval) = (warm_up, Until::Time(counted), counted / PARTS);
        plan
    }

    fn run_of(&self, remote: &Remote, outcome: Outcome) -> Run {
        Run { config: Config::new(&self.prepared, remote), outcome }
    }

    /// Waits between steps. A run has already waited for its last responses; the pause is for the server.
    fn cool_down(&self) {
        let until = Instant::now() + (self.knee.step / COOL_DOWN).min(COOL_DOWN_MAX);
        while self.interrupt.signal().is_none() && Instant::now() < until {
            std::thread::sleep(NAP);
        }
    }
}

/// Records the delay of a step, and stops it on a signal.
struct Watcher<'a> {
    slope: Slope,
    interrupt: &'a Interrupt,
}

impl<'a> Watcher<'a> {
    fn new(interrupt: &'a Interrupt) -> Self {
        Self { slope: Slope::default(), interrupt }
    }
}

impl Watch for Watcher<'_> {
    fn goes_on(&mut self) -> bool {
        self.interrupt.signal().is_none()
    }

    fn interval(&mut self, interval: &Interval) {
        self.slope.add(interval);
    }
}
