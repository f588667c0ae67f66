//! Errors of storing a body.

use std::io;
use std::path::PathBuf;

use rudy_service::RequestBodyError;
use rudy_units::Size;

/// Why bytes cannot be stored in the file of a body. They stay in memory.
#[derive(Debug, thiserror::Error)]
pub enum BufferError {
    /// The file of this body would exceed this limit.
    #[error("more than {} for one body (`response_buffer`)", <Size>::from(*.0))]
    Limit(u64),
    /// All files together would exceed this limit.
    #[error("more than {} in all files (`buffer_total`)", <Size>::from(*.0))]
    Total(u64),
    /// All files together would exceed the part of the limit for responses.
    #[error("more than {} in all files (half of `buffer_total`)", <Size>::from(*.0))]
    Share(u64),
    /// The file cannot be opened or written.
    #[error("{}: {error}", .dir.display())]
    Disk {
        /// The folder of the file.
        dir: PathBuf,
        /// The error of the system.
        #[source]
        error: io::Error,
    },
}

/// Why a request body cannot be stored.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The client did not send the whole body.
    #[error("{0}")]
    Body(#[from] RequestBodyError),
    /// There is no space for the body.
    #[error("cannot store the request body: {0}")]
    Buffer(#[from] BufferError),
}
