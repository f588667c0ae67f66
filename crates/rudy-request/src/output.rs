//! Where the bodies of responses go.

use std::io;

/// Receives the bodies of responses.
pub trait Output {
    /// Writes a part of a body, or of a head that is shown.
    fn write(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Writes what is left at the end of a body.
    fn end(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Memory for one body. A body that is larger than it may be is an error.
#[derive(Debug)]
pub struct Memory {
    bytes: Vec<u8>,
    max: usize,
}

impl Memory {
    /// Memory for `max` bytes at most.
    #[must_use]
    pub fn new(max: usize) -> Self {
        Self { bytes: Vec::new(), max }
    }

    /// What was written.
    #[must_use]
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

impl Output for Memory {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.bytes.len() + bytes.len() > self.max {
            let why = format!("the body is larger than {} bytes", self.max);
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, why));
        }
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }
}
