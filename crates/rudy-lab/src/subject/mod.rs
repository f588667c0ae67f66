//! A subject: started afresh for each run, awaited, watched, and ended with all that it has started.

pub(crate) mod family;
mod once;
pub(crate) mod output;
mod ready;

use std::ffi::OsString;
use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use tempfile::TempDir;

use self::family::Member;
use self::once::Printed;
use self::output::Output;
use crate::place::{Folders, Place, adapted};
use crate::plan::{self, Kind, Load, Ready};
use rudy_load::Interrupt;

/// How long a subject may take to end when it is asked to, before it is killed.
const STOP: Duration = Duration::from_secs(5);

/// How long the kernel may take to end what was killed.
const KILL: Duration = Duration::from_secs(5);

/// How long the workers of a subject may take to go after it, and what it has said last to be read.
const GO: Duration = Duration::from_millis(500);

/// How often it is looked how things are.
const LOOK: Duration = Duration::from_millis(10);

/// Why there is no subject to measure.
#[derive(Debug)]
pub(crate) enum StartError {
    /// It did not come to serve: in words.
    Failed(String),
    /// Somebody wants it all to end.
    Interrupted,
}

/// A subject that serves, or one that is run to its end.
#[derive(Debug)]
pub(crate) struct Subject {
    child: Child,
    output: Output,
    /// What it prints, of one that is run to its end.
    printed: Option<Printed>,
    /// Where it listens.
    pub(crate) address: SocketAddr,
    /// Its command as it was run.
    pub(crate) command: Vec<String>,
    _folder: TempDir,
}

impl Subject {
    /// Starts it for this load, and waits until it serves if it is to.
    pub(crate) fn start(
        subject: &plan::Subject,
        load: &Load,
        folders: &Folders,
        interrupt: &Interrupt,
    ) -> Result<Self, (Vec<String>, StartError)> {
        let cannot = |what: &str, error: io::Error| StartError::Failed(format!("cannot {what}: {error}"));
        let prepared =
            free_address().map_err(|error| cannot("find a free port", error)).and_then(|address| {
                Ok((address, own_folder(folders.files()).map_err(|e| cannot("make a folder for it", e))?))
            });
        let (address, folder) = prepared.map_err(|error| (subject.command.clone(), error))?;
        let config = folder.path().join("config");
        let (is_run, n) = if let Kind::Run { n, .. } = load.kind { (true, n) } else { (false, None) };
        let place = Place { port: address.port(), folders, temp: folder.path(), config: &config, n };
        let mut command: Vec<String> = subject.command.iter().map(|word| place.fill(word)).collect();
        command[0] = program(&command[0]);
        let fail = |error| (command.clone(), error);
        if let Some(text) = &subject.config {
            fs::write(&config, adapted(&place.fill(text), address.port()))
                .map_err(|error| fail(cannot("write its configuration", error)))?;
        }
        let wanted = if let Ready::Line(text) = &subject.ready { text } else { "" };
        let (mut child, output) = spawn(&command, &subject.cores, folder.path(), wanted, is_run)
            .map_err(|error| fail(cannot(&format!("start {:?}", command[0]), error)))?;
        let printed = child.stdout.take().map(Printed::collect);
        let mut started = Self { child, output, printed, address, command: command.clone(), _folder: folder };
        if is_run {
            return Ok(started);
        }
        match started.await_ready(subject, interrupt) {
            Ok(()) => Ok(started),
            Err(error) => {
                let notes = started.stop();
                Err((command, with(error, &notes)))
            }
        }
    }

    fn await_ready(&mut self, subject: &plan::Subject, interrupt: &Interrupt) -> Result<(), StartError> {
        let begun = Instant::now();
        let within = subject.ready_within.0;
        loop {
            if interrupt.signal().is_some() {
                return Err(StartError::Interrupted);
            }
            if let Some(status) = self.ended() {
                return Err(StartError::Failed(
                    self.tell(&format!("it ended ({status}) before it was ready")),
                ));
            }
            let is_ready = match &subject.ready {
                Ready::Line(_) => self.output.is_found(),
                Ready::Tcp => ready::listens(self.address),
                Ready::Http(path) => ready::answers(self.address, path),
            };
            if is_ready {
                return Ok(());
            }
            if begun.elapsed() > within {
                let what = ready::expected(&subject.ready, self.address);
                let why = format!("it was not ready within {}: {what}", subject.ready_within);
                return Err(StartError::Failed(self.tell(&why)));
            }
            thread::sleep(LOOK);
        }
    }

    /// How its first process ended, if it has.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// A sentence, and behind it the end of what it has said.
    pub(crate) fn tell(&mut self, sentence: &str) -> String {
        if self.ended().is_some() {
            // What it said last may not be read yet.
            wait_until(GO, || self.output.is_over());
        }
        match self.output.end() {
            Some(end) => format!("{sentence}; {end}"),
            None => sentence.to_owned(),
        }
    }

    /// Ends it and everything it has left. What there is to say of that is the answer.
    pub(crate) fn stop(mut self) -> Vec<String> {
        let mut notes = Vec::new();
        let group = Pid::from_child(&self.child);
        if self.ended().is_none() {
            // The first process alone: how it ends the others is a part of it.
            let _ = rustix::process::kill_process(group, Signal::TERM);
            if !wait_until(STOP, || self.ended().is_some()) {
                notes.push(format!("it did not end within {} s of SIGTERM, and was killed", STOP.as_secs()));
                let _ = kill_process_group(group, Signal::KILL);
                let _ = self.child.kill();
                let _ = self.child.wait();
            }
        }
        let left = left_behind();
        if !left.is_empty() {
            notes.push(format!("it left {} behind, which we ended", named(&left)));
        }
        end_all(&left);
        notes
    }
}

/// Processes that are there after the end of a subject. Workers that end with it are given a moment.
fn left_behind() -> Vec<Member> {
    wait_until(GO, || {
        family::reap();
        family::members(None).is_empty()
    });
    family::members(None)
}

/// Ends what is left of a subject: first asks, then kills.
fn end_all(left: &[Member]) {
    for (signal, time) in [(Signal::TERM, Duration::from_secs(1)), (Signal::KILL, KILL)] {
        family::signal(left, signal);
        let is_over = wait_until(time, || {
            family::reap();
            family::members(None).is_empty()
        });
        if is_over {
            return;
        }
    }
}

/// Everything that descends from us and is no longer wanted.
pub(crate) fn end_whatever_is_left() {
    let left = family::members(None);
    if !left.is_empty() {
        end_all(&left);
    }
}

/// `sh (4711), worker (4712)`; of many the first few.
fn named(members: &[Member]) -> String {
    const SHOWN: usize = 5;
    let shown: Vec<_> =
        members.iter().take(SHOWN).map(|member| format!("{} ({})", member.name, member.pid)).collect();
    let more = members.len().saturating_sub(SHOWN);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    shown.join(", ") + &more
}

fn with(error: StartError, notes: &[String]) -> StartError {
    match error {
        StartError::Failed(why) if !notes.is_empty() => {
            StartError::Failed(format!("{why}\n{}", notes.join("\n")))
        }
        error => error,
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

/// Starts a command in a process group of its own, which no Ctrl-C on our terminal reaches, on these cores. What it prints is
/// its child's to read where `is_run`, and otherwise a part of what it says.
fn spawn(
    command: &[String],
    cores: &[usize],
    folder: &Path,
    wanted: &str,
    is_run: bool,
) -> io::Result<(Child, Output)> {
    let (reader, writer) = io::pipe()?;
    let mut process = Command::new(OsString::from(&command[0]));
    process.args(&command[1..]).current_dir(folder).stdin(Stdio::null()).process_group(0);
    process.stdout(if is_run { Stdio::piped() } else { writer.try_clone()?.into() }).stderr(writer);
    let child = on_cores(cores, || process.spawn())?;
    // Our own ends of the pipe go with `process`: otherwise it would never end.
    drop(process);
    match Output::follow(reader, wanted) {
        Ok(output) => Ok((child, output)),
        Err(error) => {
            end_whatever_is_left();
            Err(error)
        }
    }
}

/// A program that is named by a path is where it is from our folder, and not from the subject's.
fn program(name: &str) -> String {
    let is_path = name.contains('/');
    let path = is_path.then(|| std::path::absolute(name).ok()).flatten();
    path.map_or_else(|| name.to_owned(), |path| path.to_string_lossy().into_owned())
}

/// A process may run where the thread that starts it may.
fn on_cores<T>(cores: &[usize], start: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    if cores.is_empty() {
        return start();
    }
    let mut wanted = CpuSet::new();
    for core in cores {
        if *core >= CpuSet::MAX_CPU {
            return Err(io::Error::other(format!("there is no core {core}")));
        }
        wanted.set(*core);
    }
    let before = sched_getaffinity(None)?;
    sched_setaffinity(None, &wanted)?;
    let started = start();
    sched_setaffinity(None, &before)?;
    started
}

/// A folder for one run of a subject. It holds `www`, a link to the plan's files.
fn own_folder(files: &Path) -> io::Result<TempDir> {
    // A server that was started by root reads as somebody else.
    let readable = fs::Permissions::from_mode(0o755);
    let folder = tempfile::Builder::new().prefix("rudy-lab-").permissions(readable).tempdir()?;
    symlink(files, folder.path().join("www"))?;
    Ok(folder)
}

fn free_address() -> io::Result<SocketAddr> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()
}
