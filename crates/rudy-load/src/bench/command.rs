//! Runs `rudy bench`, from the options to the report.

use std::time::{Duration, Instant};

use rudy_command::{CommandError, Exit, print_line, report_error};
use rudy_request::{Interrupt, Remote};
use rudy_stats::Slo;

use super::options::Options;
use super::output::Output;
use super::plan::Plan;
use super::prepare::{Prepared, prepare};
use super::report::{Config, Run};
use super::run::{Interval, Outcome, RunError, Watch, run};
use super::search;
use super::split::{Start, StartAt};
use super::view;

/// Time to open connections in addition to that of the connect rate, for TLS and slow networks.
const CONNECT_ALLOWANCE: Duration = Duration::from_secs(2);

/// Time between checks for a signal before the start.
const SIGNAL_CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// Runs a load test and writes its report.
#[must_use]
pub fn bench(options: &Options) -> Exit {
    if let Some(search) = &options.slo_search {
        return search::bench(options, search);
    }
    let (mut prepared, output, interrupt) = match set_up(options) {
        Ok(ready) => ready,
        Err(error) => return error.report(),
    };
    print_line(&Config::new(&prepared, &prepared.plan.remote).to_string());
    let start = match Start::new(options.start_at.unwrap_or(StartAt::In(Duration::ZERO))) {
        Ok(start) => start,
        Err(message) => return report_error(Exit::CannotRun, &message),
    };
    wait_for_start(start, &prepared.plan, &interrupt);
    let view = view::open(&options.output, &mut prepared);
    let mut watcher = Watcher { view, output, interrupt: &interrupt, start, started_unix_s: None };
    let result = run_with_fallback(&prepared, &mut watcher);
    let Watcher { view, output, started_unix_s, .. } = watcher;
    // Restore the terminal before the report is printed.
    drop(view);
    let ended_by = interrupt.signal().map(Exit::Signal);
    let (remote, outcome) = match result {
        Ok(done) => done,
        Err(error) => return report_error(ended_by.unwrap_or(Exit::CannotRun), &error.to_string()),
    };
    let mut config = Config::new(&prepared, &remote);
    if let Some(share) = &mut config.share {
        share.started_unix_s = started_unix_s;
    }
    let run = Run { config, outcome };
    match output.finish(&run) {
        Ok(()) => ended_by.unwrap_or_else(|| exit_code(&run, options.objective.as_ref())),
        Err(message) => report_error(Exit::CannotRun, &message),
    }
}

/// The exit code of a run: 3 if it did not meet its objective, 1 if no request succeeded.
fn exit_code(run: &Run, objective: Option<&Slo>) -> Exit {
    let recorder = &run.outcome.recorder;
    let evaluations = objective.map(|slo| slo.evaluate(&recorder.latency, run.success_rate()));
    let missed: Vec<_> = evaluations.iter().flatten().filter(|term| !term.passes()).collect();
    if !missed.is_empty() {
        let is_open = missed.iter().all(|term| term.has_too_few_requests());
        let what = if is_open {
            "the run does not show that the objective is met"
        } else {
            "the objective was not met"
        };
        let terms: Vec<_> = missed.iter().map(ToString::to_string).collect();
        return report_error(Exit::NotMet, &format!("{what}: {}", terms.join(", ")));
    }
    if recorder.succeeded == 0 {
        return report_error(Exit::CannotRun, "no request succeeded");
    }
    Exit::Done
}

/// Validates the options, opens the outputs and catches Ctrl-C, so that all errors of these appear before the run.
fn set_up(options: &Options) -> Result<(Prepared, Output, Interrupt), CommandError> {
    let prepared = prepare(options)?;
    let output = Output::open(&options.output)?;
    let interrupt = Interrupt::catch()
        .map_err(|error| CommandError::Environment(format!("cannot catch Ctrl-C: {error}")))?;
    Ok((prepared, output, interrupt))
}

/// Runs the load against the first address of the server that accepts a connection.
pub(super) fn run_with_fallback(
    prepared: &Prepared,
    watch: &mut dyn Watch,
) -> Result<(Remote, Outcome), RunError> {
    let mut plan = prepared.plan.clone();
    let mut fallbacks = prepared.remotes.iter().skip(1);
    loop {
        match (run(&plan, watch), fallbacks.next()) {
            (Err(RunError::Connect(remote, reason)), Some(next)) if watch.should_continue() => {
                print_line(&format!("{remote}: {reason}; trying {next}"));
                plan.remote = next.clone();
            }
            (result, _) => return result.map(|outcome| (plan.remote, outcome)),
        }
    }
}

/// Waits until connections must be opened to be ready at the start, and no longer, because servers close idle
/// connections.
fn wait_for_start(start: Start, plan: &Plan, interrupt: &Interrupt) {
    let at_connect_rate = Duration::from_secs_f64(f64::from(plan.connections.get()) / plan.connect_rate);
    let time_to_connect = CONNECT_ALLOWANCE + at_connect_rate;
    while interrupt.signal().is_none() && Instant::now() + time_to_connect < start.at {
        std::thread::sleep(SIGNAL_CHECK_INTERVAL);
    }
}

/// Shows progress, writes the rows of `--ndjson`, and stops the run on a signal.
struct Watcher<'a> {
    view: Box<dyn Watch>,
    output: Output,
    interrupt: &'a Interrupt,
    start: Start,
    started_unix_s: Option<f64>,
}

impl Watch for Watcher<'_> {
    fn should_continue(&mut self) -> bool {
        self.interrupt.signal().is_none() && self.view.should_continue()
    }

    fn start(&mut self, earliest: Instant) -> Instant {
        let start = self.start.at.max(earliest);
        self.started_unix_s = Some(self.start.unix_s(start));
        self.view.start(start)
    }

    fn opening(&mut self, open: u32, total: u32) {
        self.view.opening(open, total);
    }

    fn interval(&mut self, interval: &Interval) {
        self.output.interval(interval);
        self.view.interval(interval);
    }
}
