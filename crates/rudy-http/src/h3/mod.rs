//! HTTP/3 on the wire (RFC 9114), with header compression (RFC 9204).
//!
//! A server uses the state machine [`ServerConnection`]: bytes of streams and the time go in; events, bytes of streams and a deadline come
//! out. A request becomes the same [`RequestHead`](rudy_message::RequestHead) as one over HTTP/1.1 and HTTP/2, after the same checks.
//!
//! QUIC is outside: its streams, flow control and timers. Streams are the numbers of QUIC, whose lowest two bits say which side has
//! opened them, and in which directions (RFC 9000 §2.1). The caller keeps what belongs to them, and passes the number with each call.

mod error;
mod frame;
mod reader;
mod server;
mod settings;
mod stream;
mod varint;

pub use crate::field_section::{HeadBuffers, Priority};
pub use error::{ConnectionError, ErrorCode};
pub use server::{Event, Own, ServerConnection, StreamEnd, UNIDIRECTIONAL_STREAMS};
