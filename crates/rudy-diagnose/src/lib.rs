//! The commands that observe processes: `rudy top` and `rudy conns`. What is read is in `rudy-observe`.
//!
//! They use no runtime and no threads, and only read, so that the observation does not affect the process.

pub mod conns;
pub mod disk;
mod jvm;
mod text;
pub mod top;
pub mod watch;

pub use jvm::Dumps;
