//! Starts processes: in a process group, on selected cores, with captured output.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::left::end_whatever_is_left;
use super::output::Output;
use crate::machine;

/// Starts a command in its own process group on these cores, so that Ctrl-C on the terminal does not reach
/// it. If `is_run`, stdout is separate; otherwise it is part of the output.
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
    // A shell would set `PWD`, which lighttpd's configuration uses, and the lab runs in another folder.
    process.env("PWD", folder);
    process.stdout(if is_run { Stdio::piped() } else { writer.try_clone()?.into() }).stderr(writer);
    let child = on_cores(cores, || process.spawn())?;
    // The write ends of the pipe are dropped with `process`; otherwise the output would never end.
    drop(process);
    match Output::follow(reader, wanted) {
        Ok(output) => Ok((child, output)),
        Err(error) => {
            // A process that cannot be ended now is reported at the end of the run.
            let _ = end_whatever_is_left();
            Err(error)
        }
    }
}

/// The path of a program. A relative path refers to the current folder of the lab, not of the variant.
pub(super) fn program(name: &str) -> String {
    let path = machine::find(name).or_else(|| std::path::absolute(name).ok().filter(|_| name.contains('/')));
    path.map_or_else(|| name.to_owned(), |path| path.to_string_lossy().into_owned())
}

/// A process inherits the cores of the thread that starts it.
fn on_cores<T>(cores: &[usize], start: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    if cores.is_empty() {
        return start();
    }
    let before = sched_getaffinity(None)?;
    let wanted = among(&before, cores).map_err(io::Error::other)?;
    sched_setaffinity(None, &wanted)?;
    let started = start();
    sched_setaffinity(None, &before)?;
    started
}

/// These cores, if all of them are available. The kernel would ignore unavailable ones silently.
fn among(ours: &CpuSet, cores: &[usize]) -> Result<CpuSet, String> {
    let is_ours = |core: usize| core < CpuSet::MAX_CPU && ours.is_set(core);
    let mut wanted = CpuSet::new();
    for core in cores {
        if !is_ours(*core) {
            let ours: Vec<_> =
                (0..CpuSet::MAX_CPU).filter(|core| is_ours(*core)).map(|core| core.to_string()).collect();
            return Err(format!("core {core} is not available; expected one of {}", ours.join(", ")));
        }
        wanted.set(*core);
    }
    Ok(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_core_that_is_not_there_is_named() {
        let mut ours = CpuSet::new();
        ours.set(0);
        ours.set(2);
        assert_eq!(among(&ours, &[2]).unwrap().count(), 1);
        for (cores, missing) in [(&[0, 7][..], 7), (&[1], 1), (&[CpuSet::MAX_CPU], CpuSet::MAX_CPU)] {
            let expected = format!("core {missing} is not available; expected one of 0, 2");
            assert_eq!(among(&ours, cores).unwrap_err(), expected);
        }
    }
}
