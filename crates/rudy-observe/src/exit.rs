//! Exit codes of commands.

use std::process::ExitCode;

/// The exit codes of the commands that observe processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// 0: done. Also if the process ended or after Ctrl-C, which is the normal end of a watch.
    Done,
    /// 1: the process cannot be read.
    CannotRun,
    /// 4: the process leaks. 3 is an objective that is not met, in the commands that generate load.
    Leak,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        match exit {
            Exit::Done => Self::SUCCESS,
            Exit::CannotRun => Self::FAILURE,
            Exit::Leak => Self::from(4),
        }
    }
}
