//! Why something cannot be seen.

use std::{fmt, io};

/// Why something cannot be seen, and what to do about it.
#[derive(Debug)]
pub enum Error {
    /// There is no such process.
    NoSuchProcess {
        /// Its number.
        pid: u32,
    },
    /// The process was there and has ended. Whoever watches it is done.
    Ended {
        /// Its number.
        pid: u32,
    },
    /// The kernel does not show this to us.
    Denied {
        /// What was asked for.
        path: String,
    },
    /// The kernel could not be asked.
    Unreadable {
        /// What was asked for.
        path: String,
        /// What it said.
        source: io::Error,
    },
    /// It reads otherwise than proc(5) has it.
    Unexpected {
        /// The file.
        path: String,
        /// What was looked for in it.
        expected: &'static str,
    },
}

impl Error {
    /// Whether the process has ended, which is an end to a watch and no failure.
    #[must_use]
    pub fn is_end(&self) -> bool {
        matches!(self, Self::Ended { .. })
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSuchProcess { pid } => {
                write!(
                    f,
                    "there is no process {pid}, or none that this user may see; `ps -e` lists those there are"
                )
            }
            Self::Ended { pid } => write!(f, "process {pid} has ended"),
            Self::Denied { path } => {
                write!(
                    f,
                    "cannot read {path}: only the user whose process it is, and root, may see that; run this as one of them"
                )
            }
            Self::Unreadable { path, source } => write!(f, "cannot read {path}: {source}"),
            Self::Unexpected { path, expected } => {
                write!(
                    f,
                    "{path} does not have {expected} where proc(5) has it; this kernel is not known to us"
                )
            }
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Unreadable { source, .. } => Some(source),
            _ => None,
        }
    }
}
