//! Exit codes of commands.

use std::fmt;
use std::process::ExitCode;

/// The exit codes of the commands that generate load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// 0: done.
    Done,
    /// 1: failed to run.
    CannotRun,
    /// 2: invalid arguments.
    BadInput,
    /// 22: an error status with `--fail`. The number is curl's.
    ErrorAnswered,
    /// 3: the server does not meet the objective.
    NotMet,
    /// 128 plus the number of the signal, as in a shell: interrupted, with the report so far.
    Signal(u8),
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(match exit {
            Exit::Done => 0,
            Exit::CannotRun => 1,
            Exit::BadInput => 2,
            Exit::ErrorAnswered => 22,
            Exit::NotMet => 3,
            Exit::Signal(number) => 128 + number,
        })
    }
}

/// The reason that a command does not run, and the kind of error.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The command line is invalid.
    Arguments(String),
    /// A resource outside the command is missing or failed.
    World(String),
}

impl Refusal {
    /// The exit code.
    pub(crate) fn exit(&self) -> Exit {
        match self {
            Self::Arguments(_) => Exit::BadInput,
            Self::World(_) => Exit::CannotRun,
        }
    }
}

/// A plain message is an error of the command line.
impl From<String> for Refusal {
    fn from(why: String) -> Self {
        Self::Arguments(why)
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Arguments(why) | Self::World(why)) = self;
        f.write_str(why)
    }
}
