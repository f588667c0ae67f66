//! The output of bodies, unbuffered and unchanged.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::Path;

/// An output for bodies.
#[derive(Debug)]
pub(super) enum Output {
    /// A file, or standard output without the buffer of the standard library, so that data appears at once.
    File(File),
    /// No output: bodies are only counted.
    Discard,
}

impl Output {
    pub(super) fn standard() -> io::Result<Self> {
        Ok(Self::File(File::from(io::stdout().as_fd().try_clone_to_owned()?)))
    }

    pub(super) fn file(path: &Path) -> io::Result<Self> {
        File::create(path).map(Self::File)
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::File(file) => file.write_all(bytes),
            Self::Discard => Ok(()),
        }
    }
}
