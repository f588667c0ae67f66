//! HTTP/3 on the wire (RFC 9114), with header compression (RFC 9204).
//!
//! A server uses the state machine [`ServerConnection`], and a client [`ClientConnection`](client::ClientConnection): bytes of streams
//! and the time go in; events, bytes of streams and a deadline come out. A request becomes the same
//! [`RequestHead`](rudy_message::RequestHead) as one over HTTP/1.1 and HTTP/2, after the same checks, and a response the same
//! [`ResponseHead`](rudy_message::client::ResponseHead).
//!
//! QUIC is outside: its streams, flow control and timers. Streams are the numbers of QUIC, whose lowest two bits say which side has
//! opened them, and in which directions (RFC 9000 §2.1). The caller keeps what belongs to them, and passes the number with each call.

pub mod client;
mod core;
mod error;
mod frame;
#[cfg(test)]
mod pair_tests;
mod reader;
mod receive;
mod send;
mod server;
mod settings;
mod stream;
#[cfg(test)]
mod test_frames;
mod unidirectional;
mod varint;

pub use self::core::{Own, StreamEnd};
pub use crate::field_section::{HeadBuffers, Priority};
pub use error::{ConnectionError, ErrorCode};
pub use server::{Event, ServerConnection};
pub use unidirectional::UNIDIRECTIONAL_STREAMS;
