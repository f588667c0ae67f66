//! HTTP messages, which are the same in all versions of HTTP.
//!
//! This crate opens no sockets or files, reads no clock and uses no async runtime.
//!
//! - [`semantics`]: what the header fields mean (RFC 9110): conditions, ranges, negotiation, dates, paths.
//! - [`syntax`]: tokens, numbers, lists and field lines.
//! - [`RawTarget`]: a request target that an [`http::Uri`] cannot hold.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]
#![forbid(unsafe_code)]

mod raw_target;
pub mod semantics;
pub mod syntax;

pub use raw_target::RawTarget;
