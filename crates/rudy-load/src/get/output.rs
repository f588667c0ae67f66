//! The output of bodies, unbuffered and unchanged.

use std::fs::File;
use std::io::{self, Write};
use std::mem;
use std::os::fd::AsFd;
use std::path::Path;

/// An output for bodies.
#[derive(Debug)]
pub(crate) enum Output {
    /// A file, or standard output without the buffer of the standard library, so that data appears at once.
    File(File),
    /// Memory, at most `max` bytes.
    Memory { bytes: Vec<u8>, max: usize },
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

    /// Output to memory. A larger body is an error.
    pub(crate) fn memory(max: usize) -> Self {
        Self::Memory { bytes: Vec::new(), max }
    }

    /// Takes what was written to memory.
    pub(super) fn take(&mut self) -> Vec<u8> {
        match self {
            Self::Memory { bytes, .. } => mem::take(bytes),
            Self::File(_) | Self::Discard => Vec::new(),
        }
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::File(file) => file.write_all(bytes),
            Self::Memory { bytes: all, max } if all.len() + bytes.len() > *max => Err(io::Error::new(
                io::ErrorKind::FileTooLarge,
                format!("the body is larger than {max} bytes"),
            )),
            Self::Memory { bytes: all, .. } => {
                all.extend_from_slice(bytes);
                Ok(())
            }
            Self::Discard => Ok(()),
        }
    }
}
