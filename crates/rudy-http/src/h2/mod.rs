//! HTTP/2 on the wire (RFC 9113), with header compression (RFC 7541).
//!
//! A server uses the state machine [`ServerConnection`]: bytes and the time go in; events, bytes and a deadline come out. A
//! request becomes the same [`RequestHead`](rudy_message::RequestHead) as one over HTTP/1.1, after the same checks. A client uses
//! [`client::ClientConnection`], whose responses have the same heads as those over HTTP/1.1.
//!
//! Streams are numbers. The caller keeps what belongs to them, and passes the number with each call.

pub mod client;

mod body;
mod core;
mod error;
mod frame;
mod growth;
mod reader;
mod server;
mod settings;
mod stream;
mod window;

pub use crate::field_section::{HeadBuffers, Priority};
pub use error::{ConnectionError, ErrorCode};
pub use frame::{DATA_BYTES_MAX, HEAD_BYTES, PREFACE};
pub use server::{Event, ServerConnection};

pub use crate::hpack;
pub use crate::limits::http2::Limits;
