//! How a command ends, as an exit code.

use std::fmt;
use std::process::ExitCode;

/// The exit codes of the commands that generate load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// 0: done what was asked.
    Done,
    /// 1: could not run.
    CannotRun,
    /// 2: bad arguments.
    BadInput,
    /// 22: the answer was an error (`--fail`). The number is curl's.
    ErrorAnswered,
    /// 3: the server does not hold what was asked of it.
    NotMet,
    /// 128 and the signal's number, as a shell has it: ended by a signal, with the report so far.
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

/// Why nothing is run, and with whom it lies.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The command line cannot be carried out.
    Arguments(String),
    /// The world is not as it would have to be.
    World(String),
}

impl Refusal {
    /// How the command ends.
    pub(crate) fn exit(&self) -> Exit {
        match self {
            Self::Arguments(_) => Exit::BadInput,
            Self::World(_) => Exit::CannotRun,
        }
    }
}

/// What is said without more is said of the command line.
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
