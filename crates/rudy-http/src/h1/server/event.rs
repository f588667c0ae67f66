//! The events and phases of a connection.

use bytes::Bytes;
use http::HeaderMap;
use rudy_message::{Rejection, RequestHead};

/// A decoded part of a request.
#[derive(Debug)]
pub enum Event<'a> {
    /// A request. Unless its body is `Known(0)`, events for pieces and the end of the body follow.
    Request(RequestHead<'a>),
    /// A piece of the request body.
    Body(Bytes),
    /// The end of the request body, with its trailers.
    BodyEnd(Option<HeaderMap>),
}

impl Event<'_> {
    /// Returns the event with a copy of the bytes that it borrows.
    #[must_use]
    pub fn into_owned(self) -> Event<'static> {
        match self {
            Self::Request(head) => Event::Request(head.into_owned()),
            Self::Body(piece) => Event::Body(piece),
            Self::BodyEnd(trailers) => Event::BodyEnd(trailers),
        }
    }
}

/// The phase of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Waiting for the first byte of a request.
    Idle,
    /// A part of a request head has arrived.
    Head,
    /// [`ServerConnection::receive`](super::ServerConnection::receive) has returned a request, and its response is not
    /// finished.
    Exchange,
    /// The response is finished, and the rest of the request body is discarded.
    Drain,
    /// Send the encoded bytes, then close the connection gracefully. Nothing more is read.
    Close,
    /// The connection changes to another protocol: see
    /// [`ServerConnection::into_unread`](super::ServerConnection::into_unread).
    Upgrade,
}

/// What to do about a deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Timeout {
    /// Nothing: the deadline has not passed.
    NotYet,
    /// Close the connection without a response: no request is pending.
    Close,
    /// Send a rejection, then close the connection.
    Reject(Rejection),
}
