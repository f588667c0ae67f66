//! What a connection tells its driver.

use bytes::Bytes;
use http::HeaderMap;

use super::{Rejection, RequestHead};

/// What the bytes received so far amount to.
#[derive(Debug)]
pub enum Event<'a> {
    /// A request. If its body is not `Known(0)`, pieces of it and its end follow as events.
    Request(RequestHead<'a>),
    /// A piece of the request's body.
    Body(Bytes),
    /// The end of the request's body, with its trailers.
    BodyEnd(Option<HeaderMap>),
}

impl Event<'_> {
    /// The same with bytes of its own, for a driver that reads into what it has borrowed.
    #[must_use]
    pub fn into_owned(self) -> Event<'static> {
        match self {
            Self::Request(head) => Event::Request(head.into_owned()),
            Self::Body(piece) => Event::Body(piece),
            Self::BodyEnd(trailers) => Event::BodyEnd(trailers),
        }
    }
}

/// What the connection is at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Nothing of a request has come yet.
    Idle,
    /// A part of a head has come.
    Head,
    /// A request has been handed out, and its answer is not finished.
    Exchange,
    /// The answer is finished, and the rest of the request's body is being thrown away.
    Drain,
    /// Nothing more will be read or answered: send what is encoded, then close in order.
    Close,
    /// Another protocol goes on from here: see [`ServerConnection::into_unread`](super::ServerConnection::into_unread).
    Upgrade,
}

/// What to do when a deadline has passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Timeout {
    /// It has not.
    NotYet,
    /// Nobody is asking for anything: close without a word.
    Close,
    /// Tell the peer, then close.
    Reject(Rejection),
}

/// A body that is not as long as its head promised. The connection must be cut: the peer would take what follows for
/// the body, or the body for what follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LengthError;

impl std::fmt::Display for LengthError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the body is not as long as its head promised")
    }
}

impl std::error::Error for LengthError {}
