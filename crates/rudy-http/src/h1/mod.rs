//! HTTP/1.1 on the wire (RFC 9112), for servers and clients.
//!
//! A server uses the state machine [`ServerConnection`]. [`ServerConnection::receive`] consumes bytes and returns a view of a
//! request head, pieces of its body, and the end of the body. [`ServerConnection::begin`], [`ServerConnection::encode_piece`] and
//! [`ServerConnection::finish`] encode the response. [`ServerConnection::deadline`] returns the time limit of the current wait.
//!
//! A client encodes a request with [`RequestHead`](rudy_message::client::RequestHead) and decodes the response with
//! [`client::ClientConnection`].
//!
//! Both state machines are strict where leniency allows attacks. They stop at the first malformed message, with a
//! [`Rejection`](rudy_message::Rejection) or a [`client::Fault`] that has the reason, and read nothing after it.

pub mod client;

mod chunk_extension;
mod chunked;
mod encode;
mod length;

mod server;

pub use server::{Event, Phase, ServerConnection, SuspendedConnection, Timeout};
