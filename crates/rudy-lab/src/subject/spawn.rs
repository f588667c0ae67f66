//! How a process is started: in a group of its own, on its cores, with what it says read from the beginning.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::left::end_whatever_is_left;
use super::output::Output;
use crate::machine;

/// Starts a command in a process group of its own, which no Ctrl-C on our terminal reaches, on these cores. What it prints is
/// its child's to read where `is_run`, and otherwise a part of what it says.
pub(super) fn spawn(
    command: &[String],
    cores: &[usize],
    folder: &Path,
    wanted: &str,
    is_run: bool,
) -> io::Result<(Child, Output)> {
    let (reader, writer) = io::pipe()?;
    let mut process = Command::new(OsString::from(&command[0]));
    process.args(&command[1..]).current_dir(folder).stdin(Stdio::null()).process_group(0);
    // A shell would set it; lighttpd's configuration asks for it, and ours is another folder.
    process.env("PWD", folder);
    process.stdout(if is_run { Stdio::piped() } else { writer.try_clone()?.into() }).stderr(writer);
    let child = on_cores(cores, || process.spawn())?;
    // Our own ends of the pipe go with `process`: otherwise it would never end.
    drop(process);
    match Output::follow(reader, wanted) {
        Ok(output) => Ok((child, output)),
        Err(error) => {
            // What cannot be ended is told at the end of the run, when it is tried again.
            let _ = end_whatever_is_left();
            Err(error)
        }
    }
}

/// Where a program is. One that is named by a path is there from our folder, and not from the subject's.
pub(super) fn program(name: &str) -> String {
    let path = machine::find(name).or_else(|| std::path::absolute(name).ok().filter(|_| name.contains('/')));
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
