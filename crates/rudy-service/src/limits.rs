//! The limits of connections.

use std::time::Duration;

/// The limits of connections: of each, and of all together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// The limits of each connection.
    pub http: rudy_http::Limits,
    /// Maximum number of open connections. Above it, a new connection evicts the longest-idle connection of
    /// the address with the most connections; if none is idle, the new one receives 503 and is closed. `None`
    /// means as many as the descriptor limit allows.
    pub connections: Option<usize>,
    /// Maximum number of open connections from one address. `None` (the default) means no limit, because many
    /// users may share an address.
    pub connections_per_address: Option<usize>,
    /// Maximum number of unfinished TLS handshakes of a worker thread. Above it, the oldest one is closed.
    pub handshakes: usize,
    /// Number of unfinished handshakes of a worker from which on a client of HTTP/3 must first show that it receives at its address.
    pub http3_retry: usize,
    /// Maximum of what all connections of HTTP/3 together may have in transit, beyond 64 KiB each, in bytes.
    pub http3_in_transit: u64,
    /// Whether connections of HTTP/3 find out the bandwidth (BBR), instead of reacting to loss (CUBIC).
    pub http3_uses_bbr: bool,
    /// How long a closing connection may keep sending before it is dropped, once its peer has acknowledged the response.
    pub linger_timeout: Duration,
    /// How many bytes a closing connection may still send.
    pub linger_bytes: u64,
    /// How long a trusted proxy may take from the accept to the end of its PROXY protocol header, if the
    /// listener requires one.
    pub proxy_header_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            http: rudy_http::Limits::default(),
            connections: None,
            connections_per_address: None,
            // A client takes one or two round trips: with this number it may take a second on a worker that serves
            // thousands of new clients per second.
            handshakes: 4096,
            // A client with a lost packet takes a second, in which as many others connect at this rate. A retry costs each a round trip.
            http3_retry: 512,
            // 16 connections at 10 Gbit/s and 10 ms.
            http3_in_transit: 256 * 1024 * 1024,
            http3_uses_bbr: false,
            linger_timeout: Duration::from_secs(5),
            // As large as the default body limit. A client that sends an unread body reads the response only
            // after sending it; an earlier close would be a reset, which destroys the response.
            linger_bytes: 16 * 1024 * 1024,
            // A proxy sends its header at once, from the same network. This allows for a packet that is lost
            // twice.
            proxy_header_timeout: Duration::from_secs(5),
        }
    }
}
