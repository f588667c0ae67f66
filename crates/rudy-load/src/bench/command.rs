//! `rudy bench`: from the command line to the report.

use std::io::{self, Write};

use super::knee;
use super::options::Options;
use super::output::Output;
use super::prepare::{Prepared, prepare};
use super::report::{Config, Run};
use super::run::{Interval, Outcome, RunError, Watch, run};
use super::view;
use crate::exit::Refusal;
use crate::interrupt::Interrupt;
use crate::{Exit, Remote};

/// Runs what the options say, and reports it.
#[must_use]
pub fn bench(options: &Options) -> Exit {
    if let Some(knee) = &options.knee {
        return knee::bench(options, knee);
    }
    let (prepared, output, interrupt) = match make_ready(options) {
        Ok(ready) => ready,
        Err(refusal) => return refuse(refusal.exit(), &refusal.to_string()),
    };
    say(&Config::new(&prepared, &prepared.plan.remote).to_string());
    let view = view::of(&options.output, &prepared);
    let mut watcher = Watcher { view, output, interrupt: &interrupt };
    let result = run_somewhere(&prepared, &mut watcher);
    let Watcher { view, output, .. } = watcher;
    // What it has drawn must not stand between the lines of the report.
    drop(view);
    let ended_by = interrupt.signal().map(Exit::Signal);
    let (remote, outcome) = match result {
        Ok(done) => done,
        Err(error) => return refuse(ended_by.unwrap_or(Exit::CannotRun), &error.to_string()),
    };
    match output.finish(&Run { config: Config::new(&prepared, &remote), outcome }) {
        Ok(()) => ended_by.unwrap_or(Exit::Done),
        Err(why) => refuse(Exit::CannotRun, &why),
    }
}

/// Everything that can be known to be impossible before anything is sent.
fn make_ready(options: &Options) -> Result<(Prepared, Output, Interrupt), Refusal> {
    let prepared = prepare(options)?;
    let output = Output::open(&options.output)?;
    let interrupt =
        Interrupt::catch().map_err(|error| Refusal::World(format!("cannot catch Ctrl-C: {error}")))?;
    Ok((prepared, output, interrupt))
}

/// Asks the first address of the server that anything can connect to.
pub(super) fn run_somewhere(
    prepared: &Prepared,
    watch: &mut dyn Watch,
) -> Result<(Remote, Outcome), RunError> {
    let mut plan = prepared.plan.clone();
    let mut others = prepared.remotes.iter().skip(1);
    loop {
        match (run(&plan, watch), others.next()) {
            (Err(RunError::Connect(remote, reason)), Some(next)) if watch.goes_on() => {
                say(&format!("{remote}: {reason}; trying {next}"));
                plan.remote = next.clone();
            }
            (result, _) => return result.map(|outcome| (plan.remote, outcome)),
        }
    }
}

/// Shows the run, writes it down, and ends it when it is to end.
struct Watcher<'a> {
    view: Box<dyn Watch>,
    output: Output,
    interrupt: &'a Interrupt,
}

impl Watch for Watcher<'_> {
    fn goes_on(&mut self) -> bool {
        self.interrupt.signal().is_none() && self.view.goes_on()
    }

    fn opening(&mut self, open: u32, of: u32) {
        self.view.opening(open, of);
    }

    fn interval(&mut self, interval: &Interval) {
        self.output.interval(interval);
        self.view.interval(interval);
    }
}

pub(super) fn refuse(exit: Exit, why: &str) -> Exit {
    say(&format!("error: {why}"));
    exit
}

/// A line on stderr.
pub(super) fn say(line: &str) {
    // Nobody is left to tell if it cannot be written to.
    let _ = writeln!(io::stderr(), "{line}");
}
