//! HTTP as pure state machines and functions: bytes and the time go in; bytes, events and a deadline come out.
//!
//! Nothing here opens a socket or a file, reads a clock, or knows of an async runtime, so everything can be tested at
//! every split of its input and at any time of day.
//!
//! - [`h1`]: HTTP/1.1 on the wire (RFC 9112), the server's role and the client's.
//! - [`semantics`]: what the fields mean (RFC 9110): conditions, ranges, negotiation, dates, paths.
//! - [`syntax`]: tokens, numbers, lists and field lines.
//! - [`RawTarget`]: the target of a request, where an [`http::Uri`] cannot hold it.
//! - [`Limits`]: every bound on what a peer can make us hold or wait for.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]
#![forbid(unsafe_code)]

pub mod h1;
mod limits;
mod raw_target;
pub mod semantics;
pub mod syntax;

pub use limits::Limits;
pub use raw_target::RawTarget;
