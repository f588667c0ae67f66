//! Errors of storing a body.

use std::fmt;
use std::io;
use std::path::PathBuf;

use rudy_service::RequestBodyError;
use rudy_units::Size;

/// Why bytes cannot be stored in the file of a body. They stay in memory.
#[derive(Debug)]
pub enum BufferError {
    /// The file of this body would exceed this limit.
    Limit(u64),
    /// All files together would exceed this limit.
    Total(u64),
    /// All files together would exceed the part of the limit for responses.
    Share(u64),
    /// The file cannot be opened or written.
    Disk {
        /// The folder of the file.
        dir: PathBuf,
        /// The error of the system.
        error: io::Error,
    },
}

impl fmt::Display for BufferError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Limit(limit) => {
                write!(f, "more than {} for one body (`response_buffer`)", <Size>::from(*limit))
            }
            Self::Total(total) => {
                write!(f, "more than {} in all files (`buffer_total`)", <Size>::from(*total))
            }
            Self::Share(share) => {
                write!(f, "more than {} in all files (half of `buffer_total`)", <Size>::from(*share))
            }
            Self::Disk { dir, error } => write!(f, "{}: {error}", dir.display()),
        }
    }
}

impl std::error::Error for BufferError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Limit(_) | Self::Total(_) | Self::Share(_) => None,
            Self::Disk { error, .. } => Some(error),
        }
    }
}

/// Why a request body cannot be stored.
#[derive(Debug)]
pub enum StoreError {
    /// The client did not send the whole body.
    Body(RequestBodyError),
    /// There is no space for the body.
    Buffer(BufferError),
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Body(error) => error.fmt(f),
            Self::Buffer(error) => write!(f, "cannot store the request body: {error}"),
        }
    }
}

impl std::error::Error for StoreError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Body(error) => Some(error),
            Self::Buffer(error) => Some(error),
        }
    }
}

impl From<RequestBodyError> for StoreError {
    fn from(error: RequestBodyError) -> Self {
        Self::Body(error)
    }
}

impl From<BufferError> for StoreError {
    fn from(error: BufferError) -> Self {
        Self::Buffer(error)
    }
}
