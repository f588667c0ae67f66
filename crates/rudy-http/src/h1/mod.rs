//! HTTP/1.1 on the wire (RFC 9112), for servers and clients.
//!
//! A server uses the state machine [`ServerConnection`]. [`ServerConnection::receive`] consumes bytes and returns a view of a
//! request head, pieces of its body, and the end of the body. [`ServerConnection::begin`], [`ServerConnection::encode_piece`] and
//! [`ServerConnection::finish`] encode the response. [`ServerConnection::deadline`] returns the time limit of the current wait.
//!
//! A client encodes a request with [`client::RequestHead`] and decodes the response with [`client::ClientConnection`].
//!
//! Both state machines are strict where leniency allows attacks. They stop at the first malformed message, with a
//! [`Rejection`] or a [`client::Fault`] that has the reason, and read nothing after it.

pub mod client;

mod chunk_extension;
mod chunked;
mod connection_fields;
mod encode;
mod fields;
mod host;
mod lazy_head;
mod length;
mod lines;
mod malformed;
mod pace;
mod received_head;
mod server;
mod target;

pub use fields::Fields;
pub(crate) use fields::read_trailers;
pub use host::is_host;
pub use lazy_head::LazyHead;
pub use length::{BodyLength, Framing};
pub use pace::Pace;
pub use received_head::{ReceivedFields, ReceivedHead};
pub(crate) use server::has_no_content;
pub use server::{
    DateLine, Event, FieldValue, LengthError, Phase, PreparedHead, Rejection, RequestHead, ResponseHead,
    ServerConnection, SuspendedConnection, Timeout,
};
