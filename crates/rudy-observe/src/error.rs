//! Errors of reading `/proc`.

use std::{fmt, io};

use crate::target::Target;

/// Why something cannot be read, and what to do about it.
#[derive(Debug)]
pub enum Error {
    /// The process does not exist.
    NoSuchProcess {
        /// Its id.
        pid: u32,
    },
    /// No process matches.
    NotFound {
        /// What was searched for.
        target: Target,
    },
    /// Several processes match.
    SeveralProcesses {
        /// What was searched for.
        target: Target,
        /// Their ids.
        pids: Vec<u32>,
    },
    /// The process has ended, which ends a watch.
    Ended {
        /// Its id.
        pid: u32,
    },
    /// The kernel denies access.
    Denied {
        /// The file.
        path: String,
    },
    /// A read failed.
    Unreadable {
        /// The file.
        path: String,
        /// The error.
        source: io::Error,
    },
    /// The format differs from proc(5).
    Unexpected {
        /// The file.
        path: String,
        /// The expected content.
        expected: &'static str,
    },
}

impl Error {
    /// Whether the process has ended, which ends a watch without failure.
    #[must_use]
    pub fn is_end(&self) -> bool {
        matches!(self, Self::Ended { .. })
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSuchProcess { pid } => {
                write!(f, "process {pid} does not exist, or is not visible to this user; see `ps -e`")
            }
            Self::NotFound { target } => {
                write!(f, "no process {target} is visible to this user; see `ps -e` and, as root, `ss -ltnp`")
            }
            Self::SeveralProcesses { target, pids } => {
                let pids: Vec<_> = pids.iter().map(u32::to_string).collect();
                let (number, ids, list) = (pids.len(), pids.join(", "), pids.join(","));
                write!(
                    f,
                    "there are {number} processes {target}: {ids}; use one of these ids, see `ps -fp {list}`"
                )
            }
            Self::Ended { pid } => write!(f, "process {pid} has ended"),
            Self::Denied { path } => {
                write!(
                    f,
                    "cannot read {path}: permission denied; run this as the user of the process, or as root"
                )
            }
            Self::Unreadable { path, source } => write!(f, "cannot read {path}: {source}"),
            Self::Unexpected { path, expected } => {
                write!(
                    f,
                    "{path} does not contain {expected} as described in proc(5); this kernel is not supported"
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
