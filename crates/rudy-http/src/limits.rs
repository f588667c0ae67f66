//! Every bound on what one peer can make us hold or wait for.

use std::time::Duration;

/// The limits of one HTTP connection: what a peer may send, how slowly, and for how long.
///
/// Each has a name, a default and a reason; each can be set. Nothing a peer sends decides how much memory is taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a request's head, empty lines before it included (431). 16 KiB: what browsers with many cookies
    /// need, twice over; nginx allows 4 × 8 KiB, Apache 8 KiB a line.
    pub head_bytes: usize,
    /// Fields in a head or a trailer section (431). 100, as Apache has it; more than 6000 are refused in any case.
    pub head_fields: usize,
    /// Bytes of the request target (414). 8 KiB: RFC 9112 §3 asks for 8000 octets at least.
    pub target_bytes: usize,
    /// Bytes of a request's body (413). 16 MiB; a handler that takes uploads raises it.
    pub body_bytes: u64,
    /// Bytes of chunk extensions in one body (400). They carry nothing anybody uses, and cost the sender little.
    pub chunk_extension_bytes: usize,
    /// Bytes of a request's body that are read and thrown away after an early answer, so that the connection can go
    /// on; beyond it the connection is closed (RFC 9112 §9.3).
    pub drain_bytes: u64,
    /// From the first byte of a head to its end (408).
    pub head_timeout: Duration,
    /// From the accept to the first byte of the first request (closed silently). Shorter than `idle_timeout`: a client connects because
    /// it has a request, and a connection without one costs an attacker nothing.
    pub first_request_timeout: Duration,
    /// Between a response and the next request (closed silently).
    pub idle_timeout: Duration,
    /// Bytes a second that a request's body must bring on average, once `rate_grace` is over (408).
    pub body_rate_min: u32,
    /// Bytes a second that a peer must take of an answer on average while we wait for it, once `rate_grace` is over (cut).
    pub send_rate_min: u32,
    /// How long a body or an answer may be slower than its minimum rate: mobile networks pause for seconds. One that was
    /// faster before may pause for three times as long, and no longer.
    pub rate_grace: Duration,
    /// How long an answer may make no progress at all (cut).
    pub send_stall_timeout: Duration,
    /// How long a request may wait after its client has closed its sending side, without a byte of the response written
    /// (cancelled). A client that has closed its connection looks the same; one that waits for its response still gets it.
    pub half_close_timeout: Duration,
    /// Requests answered on one connection before it is closed; `None` is no limit.
    pub requests_per_connection: Option<u64>,
}

impl Limits {
    /// For the client role, which looks at the sizes of heads, bodies and chunk extensions alone: when to give up waiting is
    /// its driver's to say. A body may be of any size, because nothing of it is kept.
    #[must_use]
    pub fn for_responses() -> Self {
        Self {
            // Servers that set many long cookies send heads that no browser would.
            head_bytes: 64 * 1024,
            body_bytes: u64::MAX,
            // Some servers have one for each chunk, and a stream may have any number of chunks.
            chunk_extension_bytes: 1024 * 1024,
            ..Self::default()
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            head_bytes: 16 * 1024,
            head_fields: 100,
            target_bytes: 8 * 1024,
            body_bytes: 16 * 1024 * 1024,
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
        }
    }
}
