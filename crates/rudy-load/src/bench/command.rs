//! `rudy bench`: from the command line to the report.

use std::io::{self, Write};

use super::options::Options;
use super::prepare::{Prepared, prepare};
use super::report::{Config, Run, text};
use super::run::{Interval, Outcome, RunError, Watch, run};
use super::view;
use crate::exit::Refusal;
use crate::interrupt::Interrupt;
use crate::{Exit, Remote};

/// Runs what the options say, and reports it.
#[must_use]
pub fn bench(options: &Options) -> Exit {
    let (prepared, interrupt) = match prepare(options).and_then(|prepared| Ok((prepared, catch()?))) {
        Ok(ready) => ready,
        Err(refusal) => return refuse(refusal.exit(), &refusal.to_string()),
    };
    say(&Config::new(&prepared, &prepared.plan.remote).to_string());
    let mut watcher = Watcher { view: view::of(options, &prepared), interrupt: &interrupt };
    let (remote, outcome) = match run_somewhere(&prepared, &mut watcher) {
        Ok(done) => done,
        Err(error) => return refuse(Exit::CannotRun, &error.to_string()),
    };
    drop(watcher);
    let report = text::render(&Run { config: Config::new(&prepared, &remote), outcome });
    match io::stdout().lock().write_all(report.as_bytes()) {
        // Whoever read has what they wanted.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            return refuse(Exit::CannotRun, &format!("cannot write to standard output: {error}"));
        }
        _ => {}
    }
    interrupt.signal().map_or(Exit::Done, Exit::Signal)
}

fn catch() -> Result<Interrupt, Refusal> {
    Interrupt::catch().map_err(|error| Refusal::World(format!("cannot catch Ctrl-C: {error}")))
}

/// Asks the first address of the server that anything can connect to.
fn run_somewhere(prepared: &Prepared, watch: &mut dyn Watch) -> Result<(Remote, Outcome), RunError> {
    let mut plan = prepared.plan.clone();
    let mut remotes = prepared.remotes.iter().skip(1);
    loop {
        match (run(&plan, watch), remotes.next()) {
            (Err(RunError::Connect(remote, reason)), Some(next)) => {
                say(&format!("no connection to {remote}: {reason}; trying {next}"));
                plan.remote = next.clone();
            }
            (result, _) => return result.map(|outcome| (plan.remote, outcome)),
        }
    }
}

/// Shows the run, and ends it when it is to end.
struct Watcher<'a> {
    view: Box<dyn Watch>,
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
        self.view.interval(interval);
    }
}

fn refuse(exit: Exit, why: &str) -> Exit {
    say(&format!("error: {why}"));
    exit
}

/// A line on stderr. Nobody is left to tell if it cannot be written to.
fn say(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}
