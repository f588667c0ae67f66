//! Limits on the memory and time that one peer can use.

pub(crate) mod http2;

use std::time::Duration;

use rudy_message::MessageLimits;

/// The limits of one HTTP connection: how much a peer may send, how slowly, and for how long.
///
/// Each limit is configurable and has a default. Together they bound the memory of a connection, regardless of the input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Maximum size of a request head in bytes, including empty lines before it (431). 16 KiB is twice what browsers with
    /// many cookies need; nginx allows 4 × 8 KiB, Apache 8 KiB per line.
    pub head_bytes: usize,
    /// Maximum number of fields in a head or a trailer section (431). 100, as in Apache; more than 6000 are always rejected.
    pub head_fields: usize,
    /// Maximum size of the request target in bytes (414). RFC 9112 §3 recommends at least 8000.
    pub target_bytes: usize,
    /// Maximum size of a request body in bytes (413). Raise it for handlers that accept large uploads.
    pub body_bytes: u64,
    /// Maximum total size of the chunk extensions in one body, in bytes (400). No known client needs them, and they are
    /// cheap for an attacker.
    pub chunk_extension_bytes: usize,
    /// Maximum number of request body bytes to read and discard after an early response, to keep the connection alive.
    /// Beyond this limit the connection is closed (RFC 9112 §9.3).
    pub drain_bytes: u64,
    /// Timeout from the first byte of a head to its end (408).
    pub head_timeout: Duration,
    /// Timeout from accepting a connection to the first byte of its first request (closed without a response). It is shorter
    /// than `idle_timeout`: a client connects because it has a request, and silent connections cost an attacker nothing.
    pub first_request_timeout: Duration,
    /// Timeout between a response and the next request (closed without a response).
    pub idle_timeout: Duration,
    /// Minimum average rate of a request body in bytes per second, after `rate_grace` (408).
    pub body_rate_min: u32,
    /// Minimum average rate at which a client reads a response, in bytes per second, after `rate_grace` (connection closed).
    pub send_rate_min: u32,
    /// How long a body or a response may be slower than its minimum rate: mobile networks pause for seconds. A transfer that
    /// was faster before may pause for at most three times as long.
    pub rate_grace: Duration,
    /// Timeout for a response that makes no progress at all (connection closed).
    pub send_stall_timeout: Duration,
    /// Timeout for a request whose client has closed its sending side, while no byte of the response is written (cancelled).
    /// A client that has gone looks the same as a client that still waits for its response.
    pub half_close_timeout: Duration,
    /// Maximum number of requests on one connection before it is closed; `None` is unlimited.
    pub requests_per_connection: Option<u64>,
    /// The limits of HTTP/2 connections.
    pub http2: http2::Limits,
}

impl Limits {
    /// Returns the limits of one message.
    #[must_use]
    #[inline]
    pub fn of_message(&self) -> MessageLimits {
        let Self { head_bytes, head_fields, target_bytes, body_bytes, .. } = *self;
        MessageLimits { head_bytes, head_fields, target_bytes, body_bytes }
    }

    /// Returns the limits for a client. A [`ClientConnection`](crate::h1::client::ClientConnection) checks only the sizes of
    /// heads, bodies and chunk extensions; its caller handles timeouts. Bodies are unlimited, because a client stores none.
    #[must_use]
    pub fn for_responses() -> Self {
        Self {
            head_bytes: MessageLimits::RESPONSE_HEAD_BYTES,
            head_fields: MessageLimits::RESPONSE_HEAD_FIELDS,
            body_bytes: u64::MAX,
            // Some servers send an extension with each chunk, and a stream has any number of chunks.
            chunk_extension_bytes: 1024 * 1024,
            http2: http2::Limits::FOR_RESPONSES,
            ..Self::default()
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        let MessageLimits { head_bytes, head_fields, target_bytes, body_bytes } = MessageLimits::DEFAULT;
        Self {
            head_bytes,
            head_fields,
            target_bytes,
            body_bytes,
            chunk_extension_bytes: 1024,
            drain_bytes: 256 * 1024,
            head_timeout: Duration::from_secs(10),
            first_request_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(75),
            body_rate_min: 500,
            send_rate_min: 500,
            rate_grace: Duration::from_secs(10),
            send_stall_timeout: Duration::from_secs(30),
            half_close_timeout: Duration::from_secs(15),
            requests_per_connection: None,
            http2: http2::Limits::default(),
        }
    }
}
