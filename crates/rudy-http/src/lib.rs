//! HTTP as pure state machines and functions: bytes and the time go in; bytes, events and a deadline come out.
//!
//! This crate opens no sockets or files, reads no clock and uses no async runtime. Tests can therefore split the input
//! anywhere and choose the time.
//!
//! The messages are those of [`rudy_message`].
//!
//! - [`h1`]: HTTP/1.1 on the wire (RFC 9112), for servers and clients.
//! - [`h2`]: HTTP/2 on the wire (RFC 9113), for servers and clients.
//! - [`h3`]: HTTP/3 on the wire (RFC 9114), for servers and clients.
//! - [`hpack`] and [`qpack`]: header compression of HTTP/2 (RFC 7541) and HTTP/3 (RFC 9204).
//! - [`Limits`]: limits on the memory and time that a peer can use.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]
#![forbid(unsafe_code)]

mod allowance;
mod field_section;
pub mod h1;
pub mod h2;
pub mod h3;
pub mod hpack;
mod limits;
mod pace;
mod progress;
pub mod qpack;
mod sent_request;

pub use limits::Limits;
pub use pace::Pace;
