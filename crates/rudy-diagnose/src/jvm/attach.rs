//! Asks a JVM for a thread dump through the tools of its JDK.

use std::ffi::OsStr;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, fmt};

use rudy_observe::{Folder, Process};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::Signal;

/// A tool that prints thread dumps, for a JVM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tool {
    program: PathBuf,
    arguments: Vec<String>,
}

/// Why there is no dump.
#[derive(Debug)]
pub(crate) enum AttachError {
    /// The process is not a JVM, or one that does not handle SIGQUIT.
    NotAJvm(u32),
    /// There is neither `jcmd` nor `jstack`.
    NoTool,
    /// The tool cannot be started.
    NotStarted(PathBuf, io::Error),
    /// The tool failed.
    Failed(PathBuf, String),
    /// The JVM did not respond.
    TimedOut(PathBuf),
}

impl fmt::Display for AttachError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const OTHERWISE: &str = "without it, give a thread dump with --jvm-dump FILE";
        match self {
            Self::NotAJvm(pid) => write!(
                f,
                "process {pid} is not a JVM that gives thread dumps: it has no libjvm.so or does not handle SIGQUIT (java -Xrs); \
                 {OTHERWISE}"
            ),
            Self::NoTool => write!(
                f,
                "--jvm needs jcmd or jstack, beside the program java of the process or in PATH; install a JDK, or {OTHERWISE}"
            ),
            Self::NotStarted(program, error) => write!(f, "cannot start {}: {error}", program.display()),
            Self::Failed(program, message) => write!(
                f,
                "{} got no thread dump: {message}; the process must be a JVM of this user with a free descriptor; {OTHERWISE}",
                program.display()
            ),
            Self::TimedOut(program) => write!(
                f,
                "{} got no thread dump within {} s, so it was stopped; is the JVM stopped? {OTHERWISE}",
                program.display(),
                PATIENCE.as_secs()
            ),
        }
    }
}

/// How long the JVM has for a dump. It stops its threads at their next safepoint, which takes less than a second even with 3,000.
const PATIENCE: Duration = Duration::from_secs(10);

impl Tool {
    /// Finds the tool beside the program of the process, which is of the same version, or else in `PATH`.
    pub(crate) fn find(process: &Process) -> Result<Self, AttachError> {
        if !is_jvm(process.folder()) {
            return Err(AttachError::NotAJvm(process.pid()));
        }
        let pid = process.pid().to_string();
        let own = process.folder().link("exe").map(|exe| PathBuf::from(OsStr::from_bytes(&exe)));
        let own = own.as_deref().and_then(Path::parent).map(Path::to_owned);
        let path = env::var_os("PATH").unwrap_or_default();
        let folders: Vec<PathBuf> = own.into_iter().chain(env::split_paths(&path)).collect();
        let find = |name| folders.iter().map(|folder| folder.join(name)).find(|program| program.is_file());
        if let Some(program) = find("jcmd") {
            return Ok(Self { program, arguments: vec![pid, "Thread.print".to_owned()] });
        }
        find("jstack").map(|program| Self { program, arguments: vec![pid] }).ok_or(AttachError::NoTool)
    }

    /// The program.
    pub(crate) fn program(&self) -> &Path {
        &self.program
    }

    /// Takes a dump. Returns it, and how long it took: an upper bound for the time in which the threads of the JVM were stopped.
    pub(crate) fn dump(&self) -> Result<(String, Duration), AttachError> {
        let start = Instant::now();
        let mut command = Command::new(&self.program);
        // With standard error in the same pipe, one loop reads both.
        let (output, input) = io::pipe().map_err(|error| self.not_started(error))?;
        let errors = input.try_clone().map_err(|error| self.not_started(error))?;
        command.args(&self.arguments).stdin(Stdio::null()).stdout(input).stderr(errors);
        let mut child = command.spawn().map_err(|error| self.not_started(error))?;
        // The command holds the other end of the pipe.
        drop(command);
        let text = self.read(output, start + PATIENCE);
        let has_succeeded = end(&mut child, text.is_err());
        let text = text?;
        if has_succeeded && text.contains("Full thread dump") {
            return Ok((text, start.elapsed()));
        }
        let message = text.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or("no output");
        Err(AttachError::Failed(self.program.clone(), message.to_owned()))
    }

    fn not_started(&self, error: io::Error) -> AttachError {
        AttachError::NotStarted(self.program.clone(), error)
    }

    fn read(&self, mut output: io::PipeReader, deadline: Instant) -> Result<String, AttachError> {
        let (mut text, mut buffer) = (Vec::new(), vec![0; 65536]);
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let timeout = Timespec::try_from(left).ok();
            match poll(&mut [PollFd::new(&output, PollFlags::IN)], timeout.as_ref()) {
                Ok(0) => return Err(AttachError::TimedOut(self.program.clone())),
                Ok(_) => {}
                Err(Errno::INTR) => continue,
                Err(errno) => return Err(self.not_started(errno.into())),
            }
            match output.read(&mut buffer) {
                Ok(0) => return Ok(String::from_utf8_lossy(&text).into_owned()),
                Ok(count) => text.extend_from_slice(&buffer[..count]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.not_started(error)),
            }
        }
    }
}

/// Whether the tools may attach. They send SIGQUIT first, which would end a program that does not expect it.
fn is_jvm(folder: &Folder) -> bool {
    let (mut has_libjvm, mut status) = (false, Vec::new());
    let is_readable =
        folder.lines("maps", |line| has_libjvm |= line.trim_ascii_end().ends_with(b"/libjvm.so"));
    is_readable.is_ok() && has_libjvm && folder.read("status", &mut status).is_ok() && handles_quit(&status)
}

/// Whether the bit of SIGQUIT is in the mask of caught signals.
fn handles_quit(status: &[u8]) -> bool {
    let status = String::from_utf8_lossy(status);
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let caught = caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    caught.is_some_and(|mask| mask & 1 << (Signal::QUIT.as_raw() - 1) != 0)
}

/// Waits for the end of the tool. Returns whether it succeeded.
fn end(child: &mut Child, is_killed: bool) -> bool {
    if is_killed {
        // It fails only if the tool has ended.
        let _ = child.kill();
    }
    child.wait().is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_without_a_handler_of_sigquit_is_left_alone() {
        assert!(handles_quit(b"SigIgn:\t0000000000000000\nSigCgt:\t2000000181005ccf\n"));
        assert!(!handles_quit(b"SigCgt:\t0000000000004002\n"));
        assert!(!handles_quit(b"Name:\tcat\n"));
    }

    #[test]
    fn a_process_that_is_no_jvm_is_refused_unharmed_and_with_a_way_out() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let process = Process::open(child.id()).unwrap();
        let error = Tool::find(&process).unwrap_err().to_string();
        assert!(error.contains("is not a JVM") && error.contains("--jvm-dump FILE"), "{error}");
        drop(child.stdin.take());
        assert!(child.wait().unwrap().success());
    }
}
