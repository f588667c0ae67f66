//! HTTP/1.1 on the wire (RFC 9112), both roles.
//!
//! The client's machine is [`client::ClientConnection`], and [`client::RequestHead`] encodes what it is to be asked. What
//! follows is the server's.
//!
//! [`ServerConnection`] is the machine. Bytes go in by [`ServerConnection::receive`], which hands out a request, pieces of
//! its body, and the body's end; an answer is encoded by [`ServerConnection::begin`], [`ServerConnection::piece`] and
//! [`ServerConnection::finish`]; [`ServerConnection::deadline`] says until when it is willing to wait.
//!
//! Both are strict where laxness is an attack: what they do not understand exactly they refuse, with a [`Refusal`] or a
//! [`client::Fault`] that says why, and after that they never read on.

pub mod client;

mod answer;
mod chunked;
mod date;
mod event;
mod framing;
mod head;
mod head_lines;
mod host;
mod lines;
mod malformed;
mod pace;
mod prepared;
mod refusal;
mod request_line;
mod server;

pub use answer::AnswerHead;
pub use date::DateLine;
pub use event::{Event, LengthError, Phase, Timeout};
pub use framing::Framing;
pub use head::BodyLength;
pub use pace::Pace;
pub use prepared::Prepared;
pub use refusal::Refusal;
pub use server::ServerConnection;
