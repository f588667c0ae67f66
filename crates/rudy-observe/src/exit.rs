//! How a command ends, as an exit code.

use std::process::ExitCode;

/// The exit codes of the commands that look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// 0: done what was asked. Also when the process has ended, and after Ctrl-C, which is how a watch is meant to end.
    Done,
    /// 1: could not look.
    CannotRun,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        match exit {
            Exit::Done => Self::SUCCESS,
            Exit::CannotRun => Self::FAILURE,
        }
    }
}
