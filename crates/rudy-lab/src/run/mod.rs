//! Runs an experiment, from its plan to its results folder.

mod build;
mod measure;
mod meter;
mod options;
mod progress;
mod results;
mod schedule;
mod single;
mod validity;

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::Path;
use std::time::Instant;

use rudy_command::{Exit, print_line, report_error};
use rudy_experiment::plan::Plan;
use rudy_experiment::record::Outcome;
use rudy_request::Interrupt;
use rudy_units::Visible;
use rustix::process::{getpid, set_child_subreaper};

pub use self::options::Options;
use self::options::Refusal;
use self::progress::Progress;
use self::results::{Log, Results};
use self::single::Bench;
#[cfg(test)]
pub(crate) use self::validity::warnings;
use crate::folders::Folders;
use crate::{machine, variant};

/// Runs an experiment, and reports progress on stderr.
#[must_use]
pub fn run(options: &Options) -> Exit {
    run_then(options, |folder, exit| {
        show(folder);
        match options.gate.filter(|_| exit == Exit::Done) {
            Some(gate) => judged(folder, gate),
            None => exit,
        }
    })
}

/// Runs an experiment. `then` receives the results folder and the exit code so far.
pub(crate) fn run_then(options: &Options, then: impl FnOnce(&Path, Exit) -> Exit) -> Exit {
    let run = |experiment: Experiment| {
        let exit = experiment.run()?;
        Ok(then(experiment.results.folder(), exit))
    };
    match Experiment::new(options).and_then(run) {
        Ok(exit) => exit,
        Err(Refusal::Input(why)) => report_error(Exit::BadInput, &why),
        Err(Refusal::World(why)) => report_error(Exit::CannotRun, &why),
        Err(Refusal::Interrupted(signal, left_behind)) => {
            let left_behind = left_behind.as_deref().unwrap_or(progress::NOTHING_LEFT);
            print_line(&format!("interrupted before the first run: {left_behind}"));
            Exit::Signal(signal)
        }
    }
}

/// The exit code of a gate.
fn judged(folder: &Path, gate: rudy_experiment::Gate) -> Exit {
    let (exit, why) = rudy_experiment::judge(folder, gate);
    if !why.is_empty() {
        print_line(&why);
    }
    exit
}

/// Prints the findings. An error here does not affect the results.
fn show(folder: &Path) {
    match rudy_experiment::after_run(folder) {
        Ok((page, findings)) => {
            // An error of stderr cannot be reported.
            let _ = Visible(io::stdout()).write_all(findings.as_bytes());
            print_line(&format!("the report is in {}", page.display()));
        }
        Err(why) => print_line(&format!("cannot write the report: {why}")),
    }
}

/// The versions of the plan's programs, by name.
type Versions = BTreeMap<String, String>;

struct Experiment {
    plan: Plan,
    results: Results,
    seed: u64,
}

impl Experiment {
    fn new(options: &Options) -> Result<Self, Refusal> {
        if let Some(folder) = &options.resume {
            let (results, head) = Results::resume(folder)?;
            return Ok(Self { plan: head.plan, results, seed: head.seed });
        }
        let (plan, text) = options.plan()?;
        let seed = plan.seed.unwrap_or_else(drawn);
        let results = Results::create(&options.folder(&plan), text)?;
        Ok(Self { plan, results, seed })
    }

    fn run(&self) -> Result<Exit, Refusal> {
        let interrupt = Interrupt::catch_always().map_err(cannot("catch Ctrl-C"))?;
        // Orphaned processes of a variant become children of the lab, so that they are found.
        set_child_subreaper(Some(getpid()))
            .map_err(|error| cannot("become the reaper of variants")(error.into()))?;
        let folders = Folders::make(&self.plan).map_err(cannot("make the files of the plan"))?;
        let versions = self.prepare(&folders, &interrupt)?;
        let rows = tempfile::NamedTempFile::new().map_err(cannot("make a temporary file"))?;
        let begin = format!("write to {}", self.results.folder().display());
        let mut log = self.results.begin(&self.plan, self.seed, versions).map_err(cannot(&begin))?;
        self.measure(&folders, rows.path(), &interrupt, &mut log)
    }

    /// Builds the programs of the plan, and determines the versions of all programs.
    fn prepare(&self, folders: &Folders, interrupt: &Interrupt) -> Result<Versions, Refusal> {
        let built = build::build(&self.plan, folders, interrupt);
        let versions = built.map(|()| machine::versions(&self.plan, interrupt));
        let left_behind = variant::end_leftovers();
        if let Some(signal) = interrupt.signal() {
            return Err(Refusal::Interrupted(signal, left_behind));
        }
        if let Some(left_behind) = left_behind {
            print_line(&left_behind);
        }
        versions.map_err(Refusal::World)
    }

    /// Executes the runs that have no results yet, in order.
    fn measure(
        &self,
        folders: &Folders,
        rows: &Path,
        interrupt: &Interrupt,
        log: &mut Log,
    ) -> Result<Exit, Refusal> {
        let runs = schedule::schedule(&self.plan, self.seed);
        let left: Vec<_> = runs.iter().filter(|scheduled| !self.results.has(&self.plan, scheduled)).collect();
        let bench = Bench { plan: &self.plan, folders, rows, interrupt, begun: Instant::now() };
        let mut progress = Progress::new(&self.plan, runs.len(), left.len(), self.results.folder());
        let mut measured = 0_usize;
        for (number, scheduled) in left.iter().enumerate() {
            let run = if interrupt.signal().is_some() { None } else { bench.run(scheduled) };
            let left_behind = variant::end_leftovers();
            let Some(mut run) = run else {
                progress.interrupted(left_behind.as_deref());
                return Ok(interrupt.signal().map_or(Exit::CannotRun, Exit::Signal));
            };
            run.notes.extend(left_behind);
            measured += usize::from(run.outcome == Outcome::Measured);
            log.add(&run).map_err(cannot("write the results"))?;
            progress.print(&run, left.get(number + 1).copied());
        }
        progress.done();
        // An experiment in which every run failed has no result.
        Ok(if measured == 0 && !left.is_empty() { Exit::CannotRun } else { Exit::Done })
    }
}

fn cannot(what: &str) -> impl Fn(io::Error) -> Refusal {
    move |error| Refusal::World(format!("cannot {what}: {error}"))
}

/// A seed: the current time in nanoseconds.
fn drawn() -> u64 {
    let time = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    u64::from(time.subsec_nanos()) ^ time.as_secs().rotate_left(32)
}
