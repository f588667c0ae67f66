//! HTTP/1.1 on the wire (RFC 9112), server role.
//!
//! [`ServerConnection`] is the machine. Bytes go in by [`ServerConnection::receive`], which hands out a request, pieces of
//! its body, and the body's end; an answer is encoded by [`ServerConnection::begin`], [`ServerConnection::piece`] and
//! [`ServerConnection::finish`]; [`ServerConnection::deadline`] says until when it is willing to wait.
//!
//! It is strict where laxness is an attack: what it does not understand exactly it refuses, with a [`Refusal`] that says
//! why, and after a refusal it never reads on.

mod answer;
mod chunked;
mod date;
mod event;
mod head;
mod host;
mod lines;
mod pace;
mod prepared;
mod refusal;
mod request_line;
mod server;

pub use answer::AnswerHead;
pub use date::DateLine;
pub use event::{Event, LengthError, Phase, Timeout};
pub use head::BodyLength;
pub use pace::Pace;
pub use prepared::Prepared;
pub use refusal::Refusal;
pub use server::ServerConnection;
