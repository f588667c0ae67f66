//! Runs other programs and reports their failures.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::Outcome;

/// Runs a command with the stdout and stderr of this process.
pub(crate) fn run(command: &mut Command) -> Outcome {
    let status = command.status().map_err(|error| cannot_start(command, &error))?;
    if status.success() { Ok(()) } else { Err(format!("`{}` failed ({status})", line(command))) }
}

/// Runs a command and returns its stdout. An error contains its stderr.
pub(crate) fn output(command: &mut Command) -> Outcome<String> {
    let output = command.output().map_err(|error| cannot_start(command, &error))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    Err(format!("`{}` failed ({}): {}", line(command), output.status, stderr.trim()))
}

/// Runs a command, prints its stdout and stderr line by line, and passes each line to `each`. Returns whether it succeeded.
pub(crate) fn watch(mut command: Command, mut each: impl FnMut(&str)) -> Outcome<bool> {
    let no_pipe = |error| format!("cannot create a pipe: {error}");
    let (reader, writer) = std::io::pipe().map_err(no_pipe)?;
    command.stdout(writer.try_clone().map_err(no_pipe)?).stderr(writer);
    let mut child = command.spawn().map_err(|error| cannot_start(&command, &error))?;
    // Close our copies of the write end, so that the pipe ends when the program exits.
    drop(command);
    for line in BufReader::new(reader).split(b'\n') {
        let line = line.map_err(|error| format!("cannot read the output of a program: {error}"))?;
        let line = String::from_utf8_lossy(&line);
        println!("{line}");
        each(&line);
    }
    let status = child.wait().map_err(|error| format!("cannot wait for a program: {error}"))?;
    Ok(status.success())
}

/// Returns whether a command can be started and succeeds. Discards its output.
pub(crate) fn succeeds(command: &mut Command) -> bool {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|s| s.success())
}

/// Finds a program in `PATH`, in the system folders that the `PATH` of a user often lacks, or in the usual folder of Go.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/local/sbin", "/usr/sbin", "/sbin", "/usr/local/go/bin"].map(PathBuf::from))
        .map(|folder| folder.join(program))
        .find(|candidate| candidate.is_file())
}

/// Finds php-fpm, whose name contains its version on Debian.
pub(crate) fn php_fpm() -> Option<PathBuf> {
    let folder = std::fs::read_dir("/usr/sbin").into_iter().flatten().flatten();
    folder
        .map(|entry| entry.path())
        .find(|path| path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"php-fpm")))
}

/// Formats a command as typed in a shell.
pub(crate) fn line(command: &Command) -> String {
    let program = Path::new(command.get_program());
    std::iter::once(program.file_name().unwrap_or(program.as_os_str()))
        .chain(command.get_args())
        .map(|word| word.to_string_lossy())
        .map(|word| if word.contains([' ', '*']) { format!("'{word}'") } else { word.into_owned() })
        .collect::<Vec<_>>()
        .join(" ")
}

/// Returns the error for a program that cannot be started.
pub(crate) fn cannot_start(command: &Command, error: &std::io::Error) -> String {
    format!("cannot start {}: {error} (in `{}`)", command.get_program().display(), line(command))
}
