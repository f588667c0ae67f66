//! Starts processes: in a process group, on selected cores, with captured output.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rudy_experiment::programs;

use super::cores;
use super::leftovers::end_leftovers;
use super::output::Output;

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
    let child = cores::on(cores, || process.spawn())?;
    // The write ends of the pipe are dropped with `process`; otherwise the output would never end.
    drop(process);
    match Output::follow(reader, wanted) {
        Ok(output) => Ok((child, output)),
        Err(error) => {
            // A process that cannot be ended now is reported at the end of the run.
            let _ = end_leftovers();
            Err(error)
        }
    }
}

/// The path of a program. A relative path refers to the current folder of the lab, not of the variant.
pub(super) fn program(name: &str) -> String {
    let path = programs::find(name).or_else(|| std::path::absolute(name).ok().filter(|_| name.contains('/')));
    path.map_or_else(|| name.to_owned(), |path| path.to_string_lossy().into_owned())
}
