//! Errors of the disk. Each is at worst a miss, so it is counted and logged: otherwise a failing disk would look like a low hit rate.

use std::fmt;
use std::io;

/// What the disk did not do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiskFailure {
    /// A file or a folder could not be read.
    Read,
    /// A file could not be written, renamed or removed.
    Write,
}

/// Receives the errors of the disk, each as it happens. It has to limit what it writes.
pub trait DiskLog: fmt::Debug + Send + Sync {
    /// Is called for each error.
    fn failed(&self, failure: DiskFailure, error: &io::Error);

    /// Is called when requests begin to pass the store by, because of many errors, and when they do no longer.
    fn suspended(&self, is_suspended: bool);
}
