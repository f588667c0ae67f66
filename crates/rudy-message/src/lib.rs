//! HTTP messages, which are the same in all versions of HTTP.
//!
//! This crate opens no sockets or files, reads no clock and uses no async runtime.
//!
//! - [`RequestHead`]: a view of a received head; [`LazyHead`]: the same on its way through a server, with changes.
//! - [`ResponseHead`]: a head to send: fields, a [`PreparedHead`] or a [`ReceivedHead`].
//! - [`client`]: the heads of the client side.
//! - [`Rejection`]: why a request is rejected.
//! - [`text`]: how connections read and write heads and trailers.
//! - [`semantics`]: what the header fields mean (RFC 9110): conditions, ranges, negotiation, dates, paths.
//! - [`syntax`]: tokens, numbers, lists and field lines.
//! - [`RawTarget`]: a request target that an [`http::Uri`] cannot hold.
//! - [`MessageLimits`]: limits on the size of messages.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]
#![forbid(unsafe_code)]

mod body;
pub mod client;
mod compression;
mod date_line;
mod instructions;
mod lazy_head;
mod limits;
mod malformed;
mod prepared_head;
mod raw_target;
mod received_head;
mod rejection;
mod request_head;
mod response_head;
pub mod semantics;
pub mod syntax;
pub mod text;

pub use body::{BodyLength, Framing, LengthError, has_no_content};
pub use compression::Compression;
pub use date_line::DateLine;
pub use instructions::{Expires, Instructions, Replacement, X_ACCEL_REDIRECT};
pub use lazy_head::LazyHead;
pub use limits::MessageLimits;
pub use malformed::Malformed;
pub use prepared_head::PreparedHead;
pub use raw_target::RawTarget;
pub use received_head::{ReceivedFields, ReceivedHead};
pub use rejection::Rejection;
pub use request_head::{FieldValue, RequestHead};
pub use response_head::ResponseHead;
pub use text::{FieldLine, Fields, is_host};
