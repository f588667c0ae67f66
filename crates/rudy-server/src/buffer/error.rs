//! Why bytes cannot be stored.

use std::fmt;
use std::io;
use std::path::PathBuf;

use rudy_net::RequestBodyError;

use crate::config::Size;

/// Why bytes cannot go to the file of a message. They stay in memory.
#[derive(Debug)]
pub enum BufferError {
    /// The file of this message would have more bytes than this limit.
    Limit(u64),
    /// All files together would have more bytes than this limit.
    Total(u64),
    /// The file cannot be opened or written.
    Disk {
        /// The folder of the file.
        dir: PathBuf,
        /// What the system says.
        error: io::Error,
    },
}

impl fmt::Display for BufferError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Limit(limit) => write!(f, "more than {} of one message", <Size>::from(*limit)),
            Self::Total(total) => {
                write!(f, "more than {} in all files (`buffer_total`)", <Size>::from(*total))
            }
            Self::Disk { dir, error } => write!(f, "{}: {error}", dir.display()),
        }
    }
}

impl std::error::Error for BufferError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Limit(_) | Self::Total(_) => None,
            Self::Disk { error, .. } => Some(error),
        }
    }
}

/// Why a request's body is not stored.
#[derive(Debug)]
pub enum GatherError {
    /// The client did not send all of it.
    Body(RequestBodyError),
    /// There is no room for it.
    Buffer(BufferError),
}

impl fmt::Display for GatherError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Body(error) => error.fmt(f),
            Self::Buffer(error) => write!(f, "the request's body cannot be stored: {error}"),
        }
    }
}

impl std::error::Error for GatherError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Body(error) => Some(error),
            Self::Buffer(error) => Some(error),
        }
    }
}

impl From<RequestBodyError> for GatherError {
    fn from(error: RequestBodyError) -> Self {
        Self::Body(error)
    }
}

impl From<BufferError> for GatherError {
    fn from(error: BufferError) -> Self {
        Self::Buffer(error)
    }
}
