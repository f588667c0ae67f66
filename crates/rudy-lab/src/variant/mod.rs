//! The processes of a run: starts them, waits until they are ready, and ends them with all their descendants.

mod companions;
mod cores;
mod leftovers;
mod once;
pub(crate) mod output;
pub(crate) mod process_tree;
mod ready;
mod spawn;
mod stall;
pub(crate) mod tool;
mod workspace;

use std::io;
use std::net::SocketAddr;
use std::process::{Child, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use rudy_experiment::plan::Ready;
use rudy_request::Interrupt;
use rudy_units::Time;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use self::once::CollectedStdout;
use self::output::Output;

pub(crate) use self::companions::Companions;
pub(crate) use self::cores::{Cores, on as on_cores};
pub(crate) use self::leftovers::end_leftovers;
pub(crate) use self::once::ExpectedEnd;
pub(crate) use self::stall::Stalling;
pub(crate) use self::workspace::Workspace;

/// Timeout for a program to end after SIGTERM, before SIGKILL.
const STOP: Duration = Duration::from_secs(5);

/// Time between checks of a process.
pub(crate) const POLL: Duration = Duration::from_millis(10);

/// Why a run has no results.
#[derive(Debug)]
pub(crate) enum StartError {
    /// A program failed: a message.
    Failed(String),
    /// The experiment was interrupted.
    Interrupted,
}

impl StartError {
    pub(crate) fn cannot(what: &str, error: &io::Error) -> Self {
        Self::Failed(format!("cannot {what}: {error}"))
    }

    /// Adds a message.
    fn with(self, notes: &[String]) -> Self {
        match self {
            Self::Failed(why) if !notes.is_empty() => Self::Failed(format!("{why}\n{}", notes.join("\n"))),
            error => error,
        }
    }

    /// Adds the name of the program, if it is not the variant.
    fn of(self, name: &str) -> Self {
        match self {
            Self::Failed(why) => Self::Failed(format!("of the companion program {name}: {why}")),
            Self::Interrupted => Self::Interrupted,
        }
    }
}

/// A program to start.
#[derive(Debug)]
pub(crate) struct Launch<'a> {
    /// Program and arguments, without placeholders.
    pub(crate) command: &'a [String],
    /// The cores it may run on; all if empty.
    pub(crate) cores: &'a [usize],
    /// Its port.
    pub(crate) address: SocketAddr,
    /// The condition for being ready, and the timeout; `None` if it runs to its end.
    pub(crate) ready: Option<(&'a Ready, Time)>,
}

/// A running program: a server, or one that runs to its end.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    output: Output,
    /// The output of a program that runs to its end.
    stdout: Option<CollectedStdout>,
    /// Its address.
    pub(crate) address: SocketAddr,
}

impl Process {
    /// Starts it, and waits until it is ready if necessary. `others` are the first processes of programs that
    /// continue.
    pub(crate) fn start(
        launch: &Launch,
        workspace: &Workspace,
        others: &[u32],
        interrupt: &Interrupt,
    ) -> Result<Self, StartError> {
        let Launch { command, cores, address, ready } = *launch;
        let line = if let Some((Ready::Line(text), _)) = ready { text } else { "" };
        let (mut child, output) = spawn::spawn(command, cores, workspace.folder(), line, ready.is_none())
            .map_err(|error| StartError::cannot(&format!("start {:?}", command[0]), &error))?;
        let stdout = child.stdout.take().map(CollectedStdout::collect);
        let mut started = Self { child, output, stdout, address };
        let Some((ready, within)) = ready else { return Ok(started) };
        match started.await_ready(ready, within, interrupt) {
            Ok(()) => Ok(started),
            Err(error) => Err(error.with(&started.stop(others))),
        }
    }

    fn await_ready(&mut self, ready: &Ready, within: Time, interrupt: &Interrupt) -> Result<(), StartError> {
        let begun = Instant::now();
        loop {
            if interrupt.signal().is_some() {
                return Err(StartError::Interrupted);
            }
            if let Some(status) = self.ended() {
                return Err(StartError::Failed(
                    self.describe(&format!("it ended ({status}) before it was ready")),
                ));
            }
            let is_ready = match ready {
                Ready::Line(_) => self.output.is_found(),
                Ready::Tcp => ready::listens(self.address),
                Ready::Http(path) => ready::answers(self.address, path),
            };
            if is_ready {
                return Ok(());
            }
            if begun.elapsed() > within.0 {
                let what = ready::expected(ready, self.address);
                return Err(StartError::Failed(
                    self.describe(&format!("it was not ready within {within}: {what}")),
                ));
            }
            thread::sleep(POLL);
        }
    }

    /// Its first process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The exit status of its first process, if it has ended.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// A sentence, followed by the last lines of its output.
    pub(crate) fn describe(&mut self, sentence: &str) -> String {
        if self.ended().is_some() {
            // The last output may not be read yet.
            wait_until(leftovers::WORKER_EXIT_TIMEOUT, || self.output.is_over());
        }
        match self.output.end() {
            Some(end) => format!("{sentence}; {end}"),
            None => sentence.to_owned(),
        }
    }

    /// Ends it and everything it has left behind, except `others`. Returns a message about problems.
    pub(crate) fn stop(mut self, others: &[u32]) -> Vec<String> {
        let mut notes = Vec::new();
        let group = Pid::from_child(&self.child);
        if self.ended().is_none() {
            // Signal the first process only: it is responsible for ending the others.
            let _ = kill_process(group, Signal::TERM);
            if !wait_until(STOP, || self.ended().is_some()) {
                notes.push(format!("it did not end within {} s of SIGTERM, and was killed", STOP.as_secs()));
                let _ = kill_process_group(group, Signal::KILL);
                let _ = self.child.kill();
                let _ = self.child.wait();
            }
        }
        let left = leftovers::find(others);
        if !left.is_empty() {
            let still = leftovers::end_all(others);
            let ended = if still.is_empty() { "which we ended" } else { "not all of which could be ended" };
            notes.push(format!("it left behind {}, {ended}", leftovers::named(&left)));
        }
        notes
    }
}

/// Waits for a condition up to this time. Returns whether it became true.
pub(crate) fn wait_until(time: Duration, mut is_so: impl FnMut() -> bool) -> bool {
    let begun = Instant::now();
    loop {
        if is_so() {
            return true;
        }
        if begun.elapsed() > time {
            return false;
        }
        thread::sleep(POLL);
    }
}
