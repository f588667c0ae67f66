//! The events of a connection.

use http::HeaderMap;
use rudy_message::{Rejection, RequestHead};

use crate::h3::{ErrorCode, Priority};

/// What a client has sent.
#[derive(Debug)]
pub enum Event<'a> {
    /// A request. Unless its body is `Known(0)`, events for pieces and the end of the body follow.
    Request {
        /// The stream.
        stream: u64,
        /// The head.
        head: RequestHead<'a>,
        /// The priority of the response.
        priority: Priority,
    },
    /// A request that is rejected. Respond with [`ServerConnection::reject`](super::ServerConnection::reject).
    Rejected {
        /// The stream.
        stream: u64,
        /// Why.
        rejection: Rejection,
        /// The head, in the form of HTTP/1.1, as far as it was accepted. `None` if the body is rejected.
        head: Option<&'a [u8]>,
    },
    /// A piece of a request body.
    Data {
        /// The stream.
        stream: u64,
        /// The piece.
        data: &'a [u8],
        /// Whether the body ends with the piece.
        ends: bool,
    },
    /// The end of a request body, after its last piece.
    End {
        /// The stream.
        stream: u64,
        /// The trailer fields.
        trailers: Option<HeaderMap>,
    },
    /// The stream has ended: the client has cancelled it, or its request is malformed. It needs no response.
    Reset {
        /// The stream.
        stream: u64,
        /// Why.
        code: ErrorCode,
        /// What is wrong with the request; `None` if the client has cancelled it.
        reason: Option<&'static str>,
    },
    /// The client has changed the priority of a response (RFC 9218 §7.2).
    Priority {
        /// The stream.
        stream: u64,
        /// The new priority.
        priority: Priority,
    },
}
