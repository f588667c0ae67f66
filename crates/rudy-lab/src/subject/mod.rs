//! The programs of a run: started afresh, awaited, watched, and ended with all that they have started.

mod company;
pub(crate) mod family;
mod left;
mod once;
pub(crate) mod output;
mod ready;
mod scene;
mod spawn;
mod stall;
pub(crate) mod tool;

use std::io;
use std::net::SocketAddr;
use std::process::{Child, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use rudy_load::Interrupt;
use rudy_server::config::Time;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use self::once::Printed;
use self::output::Output;
use crate::plan::Ready;

pub(crate) use self::company::Company;
pub(crate) use self::left::end_whatever_is_left;
pub(crate) use self::scene::Scene;
pub(crate) use self::stall::Stalling;

/// How long a program may take to end when it is asked to, before it is killed.
const STOP: Duration = Duration::from_secs(5);

/// How often it is looked how things are.
pub(crate) const LOOK: Duration = Duration::from_millis(10);

/// Why there is nothing to measure.
#[derive(Debug)]
pub(crate) enum StartError {
    /// A program did not come to do what it should: in words.
    Failed(String),
    /// Somebody wants it all to end.
    Interrupted,
}

impl StartError {
    pub(crate) fn cannot(what: &str, error: &io::Error) -> Self {
        Self::Failed(format!("cannot {what}: {error}"))
    }

    /// With what there is to say beside it.
    fn with(self, notes: &[String]) -> Self {
        match self {
            Self::Failed(why) if !notes.is_empty() => Self::Failed(format!("{why}\n{}", notes.join("\n"))),
            error => error,
        }
    }

    /// Said of a program that is not the subject.
    fn of(self, name: &str) -> Self {
        match self {
            Self::Failed(why) => Self::Failed(format!("of {name}, which is beside it: {why}")),
            Self::Interrupted => Self::Interrupted,
        }
    }
}

/// What is to be started.
#[derive(Debug)]
pub(crate) struct Wanted<'a> {
    /// Its program and arguments, everything in place.
    pub(crate) command: &'a [String],
    /// The cores it may run on; any of them if empty.
    pub(crate) cores: &'a [usize],
    /// Where it is to listen.
    pub(crate) address: SocketAddr,
    /// How to know that it serves, and how long that may take; nothing for one that is run to its end.
    pub(crate) ready: Option<(&'a Ready, Time)>,
}

/// A program that serves, or one that is run to its end.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    output: Output,
    /// What it prints, of one that is run to its end.
    printed: Option<Printed>,
    /// Where it listens.
    pub(crate) address: SocketAddr,
}

impl Process {
    /// Starts it, and waits until it serves if it is to. `others` are the first processes of those that stay.
    pub(crate) fn start(
        wanted: &Wanted,
        scene: &Scene,
        others: &[u32],
        interrupt: &Interrupt,
    ) -> Result<Self, StartError> {
        let Wanted { command, cores, address, ready } = *wanted;
        let line = if let Some((Ready::Line(text), _)) = ready { text } else { "" };
        let (mut child, output) = spawn::spawn(command, cores, scene.folder(), line, ready.is_none())
            .map_err(|error| StartError::cannot(&format!("start {:?}", command[0]), &error))?;
        let printed = child.stdout.take().map(Printed::collect);
        let mut started = Self { child, output, printed, address };
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
                    self.tell(&format!("it ended ({status}) before it was ready")),
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
                    self.tell(&format!("it was not ready within {within}: {what}")),
                ));
            }
            thread::sleep(LOOK);
        }
    }

    /// Its first process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// How its first process ended, if it has.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// A sentence, and behind it the end of what it has said.
    pub(crate) fn tell(&mut self, sentence: &str) -> String {
        if self.ended().is_some() {
            // What it said last may not be read yet.
            wait_until(left::GO, || self.output.is_over());
        }
        match self.output.end() {
            Some(end) => format!("{sentence}; {end}"),
            None => sentence.to_owned(),
        }
    }

    /// Ends it and everything it has left; `others` stay. What there is to say of that is the answer.
    pub(crate) fn stop(mut self, others: &[u32]) -> Vec<String> {
        let mut notes = Vec::new();
        let group = Pid::from_child(&self.child);
        if self.ended().is_none() {
            // The first process alone: how it ends the others is a part of it.
            let _ = kill_process(group, Signal::TERM);
            if !wait_until(STOP, || self.ended().is_some()) {
                notes.push(format!("it did not end within {} s of SIGTERM, and was killed", STOP.as_secs()));
                let _ = kill_process_group(group, Signal::KILL);
                let _ = self.child.kill();
                let _ = self.child.wait();
            }
        }
        let left = left::behind(others);
        if !left.is_empty() {
            let still = left::end_all(others);
            let ended = if still.is_empty() { "which we ended" } else { "which could not all be ended" };
            notes.push(format!("it left {} behind, {ended}", left::named(&left)));
        }
        notes
    }
}

/// Whether it came to be within this time.
pub(crate) fn wait_until(time: Duration, mut is_so: impl FnMut() -> bool) -> bool {
    let begun = Instant::now();
    loop {
        if is_so() {
            return true;
        }
        if begun.elapsed() > time {
            return false;
        }
        thread::sleep(LOOK);
    }
}
