//! Compression of responses, for all handlers.
//!
//! 1. [`Compression`] is the table in the configuration, and [`CompressionSetting`] the value of a key `compression`.
//! 2. [`fields`] decides whether a response may be compressed, and changes its header fields.
//! 3. [`whole`] compresses a body in memory or a file at once, [`CompressedBody`] any body while it is sent.
//! 4. [`KeptVariants`] keeps results, of files and of stored responses.
//! 5. [`pool`] runs the work: a piece at a time, on the thread pool for blocking work.
//!
//! `rudy-files` compresses its files. The step `compress` is for all other responses.

mod body;
mod encoder;
pub mod fields;
mod kept;
mod options;
pub mod pool;
#[cfg(test)]
mod tests;
pub mod whole;

pub use self::body::{CompressedBody, INLINE_BYTES};
pub use self::encoder::{Effort, Encoder};
pub use self::kept::{KeptVariants, StoredContent, StoredVariants, by_bytes};
pub use self::options::Of;
pub use self::options::{Compression, CompressionSetting};

/// The number of bytes that are compressed as one piece. A client that reads slowly has one piece in memory.
pub const PIECE_BYTES: usize = 64 * 1024;
