//! The events of a connection.

use http::HeaderMap;
use rudy_message::client::ResponseHead;

use crate::h3::ErrorCode;

/// What a server has sent.
#[derive(Debug)]
pub enum Event<'a> {
    /// An interim response (RFC 9110 §15.2). The response follows.
    Informational {
        /// The stream.
        stream: u64,
        /// The head.
        head: ResponseHead<'a>,
    },
    /// The head of a response. Unless the response ends with it, events for its body and its end follow.
    Head {
        /// The stream.
        stream: u64,
        /// The head.
        head: ResponseHead<'a>,
        /// Whether the response ends with the head.
        ends: bool,
    },
    /// A piece of a body.
    Data {
        /// The stream.
        stream: u64,
        /// The piece.
        data: &'a [u8],
        /// Whether the response ends with the piece.
        ends: bool,
    },
    /// The end of a response, after its last piece.
    End {
        /// The stream.
        stream: u64,
        /// The trailer fields.
        trailers: Option<HeaderMap>,
    },
    /// The stream has ended without the end of its response, or of the body of its request: the server has reset it, its response is
    /// malformed, or the server does not process it after GOAWAY.
    Reset {
        /// The stream.
        stream: u64,
        /// Why. [`ErrorCode::REQUEST_REJECTED`] means that the server has not processed the request, which can be repeated whatever its
        /// method is (RFC 9114 §4.1.1).
        code: ErrorCode,
        /// What is wrong with the response; `None` if the server has reset the stream.
        reason: Option<&'static str>,
    },
    /// The server accepts no further requests (GOAWAY). Streams before `rejected_from` get their responses. An event
    /// [`Reset`](Self::Reset) with [`ErrorCode::REQUEST_REJECTED`] follows for each other one.
    GoAway {
        /// The first stream that the server does not process.
        rejected_from: u64,
    },
    /// The settings of the server have arrived.
    Settings,
}
