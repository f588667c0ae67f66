//! HTTP as pure state machines and functions: bytes and the time go in; bytes, events and a deadline come out.
//!
//! This crate opens no sockets or files, reads no clock and uses no async runtime. Tests can therefore split the input
//! anywhere and choose the time.
//!
//! - [`h1`]: HTTP/1.1 on the wire (RFC 9112), for servers and clients.
//! - [`h2`]: HTTP/2 on the wire (RFC 9113), for servers and clients.
//! - [`hpack`]: header compression of HTTP/2 (RFC 7541).
//! - [`semantics`]: what the header fields mean (RFC 9110): conditions, ranges, negotiation, dates, paths.
//! - [`syntax`]: tokens, numbers, lists and field lines.
//! - [`RawTarget`]: a request target that an [`http::Uri`] cannot hold.
//! - [`Limits`]: limits on the memory and time that a peer can use.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]
#![forbid(unsafe_code)]

pub mod h1;
pub mod h2;
pub mod hpack;
mod limits;
mod raw_target;
pub mod semantics;
pub mod syntax;

pub use limits::Limits;
pub use raw_target::RawTarget;
