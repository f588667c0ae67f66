//! Exit codes of commands, and the errors that lead to them.

use std::fmt;
use std::io::{self, Write};
use std::process::ExitCode;

use rudy_units::Visible;

/// The exit codes of commands. The page of each command lists those that it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// 0: done. Also after Ctrl-C or the end of a process that is watched, which is the normal end of a watch.
    Done,
    /// 1: failed to run.
    CannotRun,
    /// 2: invalid arguments.
    BadInput,
    /// 22: an error status with `--fail`. The number is curl's.
    ErrorStatus,
    /// 3: the server does not meet the objective.
    NotMet,
    /// 4: the process leaks.
    Leak,
    /// 128 plus the number of the signal, as in a shell: interrupted, with the report so far.
    Signal(u8),
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(match exit {
            Exit::Done => 0,
            Exit::CannotRun => 1,
            Exit::BadInput => 2,
            Exit::ErrorStatus => 22,
            Exit::NotMet => 3,
            Exit::Leak => 4,
            Exit::Signal(number) => 128 + number,
        })
    }
}

/// An error that ends a command before it has a result.
#[derive(Debug, PartialEq, Eq)]
pub enum CommandError {
    /// The command line is invalid.
    Arguments(String),
    /// A resource outside the command is missing or failed: a file, a server, a limit of the system.
    Environment(String),
}

impl CommandError {
    /// The exit code.
    #[must_use]
    pub fn exit(&self) -> Exit {
        match self {
            Self::Arguments(_) => Exit::BadInput,
            Self::Environment(_) => Exit::CannotRun,
        }
    }

    /// Prints the error to standard error and returns the exit code.
    #[must_use]
    pub fn report(&self) -> Exit {
        report_error(self.exit(), &self.to_string())
    }
}

/// A plain message is an error of the command line.
impl From<String> for CommandError {
    fn from(message: String) -> Self {
        Self::Arguments(message)
    }
}

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Arguments(message) | Self::Environment(message)) = self;
        f.write_str(message)
    }
}

/// Prints an error to standard error and returns the exit code.
#[must_use]
pub fn report_error(exit: Exit, message: &str) -> Exit {
    print_line(&format!("error: {message}"));
    exit
}

/// Writes to standard output. A closed pipe is no error: the reader has read enough.
///
/// # Errors
///
/// A message.
pub fn write_output(text: &str) -> Result<(), String> {
    match io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(format!("cannot write to standard output: {error}"))
        }
        _ => Ok(()),
    }
}

/// Prints a result to standard output, and returns the exit code.
#[must_use]
pub fn print(text: &str) -> Exit {
    write_output(text).map_or_else(|why| report_error(Exit::CannotRun, &why), |()| Exit::Done)
}

/// Prints a line to standard error.
pub fn print_line(line: &str) {
    // A failure of standard error cannot be reported.
    let _ = writeln!(Visible(io::stderr()), "{line}");
}
