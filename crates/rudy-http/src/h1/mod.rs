//! HTTP/1.1 on the wire (RFC 9112), both roles.
//!
//! The client's machine is [`client::ClientConnection`], and [`client::RequestHead`] encodes what it is to be asked. What
//! follows is the server's.
//!
//! [`ServerConnection`] is the machine. Bytes go in by [`ServerConnection::receive`], which hands out a view of a request's
//! head, pieces of its body, and the body's end; an answer is encoded by [`ServerConnection::begin`],
//! [`ServerConnection::piece`] and [`ServerConnection::finish`]; [`ServerConnection::deadline`] says until when it is willing to
//! wait.
//!
//! Both are strict where laxness is an attack: what they do not understand exactly they refuse, with a [`Rejection`] or a
//! [`client::Fault`] that says why, and after that they never read on.

pub mod client;

mod chunk_extension;
mod chunked;
mod connection_fields;
mod encode;
mod fields;
mod host;
mod length;
mod lines;
mod malformed;
mod pace;
mod server;
mod target;

pub use fields::Fields;
pub use host::is_host;
pub use length::{BodyLength, Framing};
pub use pace::Pace;
pub use server::{
    DateLine, Event, FieldValue, LengthError, Phase, PreparedHead, Rejection, RequestHead, ResponseHead,
    ServerConnection, SuspendedConnection, Timeout,
};
