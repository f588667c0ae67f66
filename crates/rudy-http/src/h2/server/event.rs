//! The events of a connection.

use http::HeaderMap;
use rudy_message::{Rejection, RequestHead};

use crate::h2::{ErrorCode, Priority};

/// What a client has sent.
#[derive(Debug)]
pub enum Event<'a> {
    /// A request. Unless its body is `Known(0)`, events for pieces and the end of the body follow.
    Request {
        /// The stream.
        stream: u32,
        /// The head.
        head: RequestHead<'a>,
        /// The priority of the response.
        priority: Priority,
    },
    /// A request that is rejected. Respond with [`ServerConnection::reject`](super::ServerConnection::reject).
    Rejected {
        /// The stream.
        stream: u32,
        /// Why.
        rejection: Rejection,
        /// The head, in the form of HTTP/1.1, as far as it was accepted. `None` if the body is rejected.
        head: Option<&'a [u8]>,
    },
    /// A piece of a request body. Call [`ServerConnection::pass_on`](super::ServerConnection::pass_on) when it is no longer stored.
    Data {
        /// The stream.
        stream: u32,
        /// The piece.
        data: &'a [u8],
        /// Whether the body ends with the piece.
        ends: bool,
    },
    /// The end of a request body, after its last piece.
    End {
        /// The stream.
        stream: u32,
        /// The trailer fields.
        trailers: Option<HeaderMap>,
    },
    /// The stream has ended: the client has cancelled it, or its body is malformed. It needs no response.
    Reset {
        /// The stream.
        stream: u32,
        /// Why.
        code: ErrorCode,
        /// What is wrong with the request; `None` if the client has cancelled it.
        reason: Option<&'static str>,
    },
    /// The client accepts more of a body, after it had no window.
    Window {
        /// The stream; 0 for all streams.
        stream: u32,
    },
    /// The client has changed the priority of a response (RFC 9218 §7.1).
    Priority {
        /// The stream.
        stream: u32,
        /// The new priority.
        priority: Priority,
    },
}
