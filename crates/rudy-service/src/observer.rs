//! The observer of an exchange, and what it reports: the outcome.

use std::any::Any;
use std::fmt::Debug;
use std::time::Duration;

use http::StatusCode;

/// Observes an exchange. The service and the connection share it.
pub trait Observer: Any + Debug + Send + Sync {
    /// Called when `bytes` of the request body have arrived for the service.
    fn body_received(&self, bytes: u64) {
        let _ = bytes;
    }

    /// Called once, at the end of the exchange.
    fn finished(&self, outcome: &ExchangeOutcome);
}

/// The outcome of an exchange.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExchangeOutcome {
    /// The status sent; `None` if the peer was gone before the response.
    pub status: Option<StatusCode>,
    /// Bytes of the response body without framing. For an aborted response this includes bytes that were
    /// ready but not sent.
    pub body_bytes: u64,
    /// Bytes of the response as sent: its head and its body with their framing, before TLS.
    pub sent_bytes: u64,
    /// Bytes of the request body that are only framing: the sizes of chunks, and trailers.
    pub request_framing_bytes: u64,
    /// Time from the complete request head to the first byte of the response.
    pub wait: Duration,
    /// Time from the complete request head to the last byte of the response.
    pub duration: Duration,
    /// Why the exchange ended.
    pub end_reason: EndReason,
}

/// Why an exchange ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndReason {
    /// The kernel has the whole response.
    Completed,
    /// The peer closed or reset the connection.
    PeerGone,
    /// The peer did not read, or read too slowly.
    PeerStalled,
    /// The response body failed on the server's side, so the response was aborted.
    Aborted,
    /// The server stopped during the exchange.
    ServerStopped,
    /// An operator ended the exchange.
    Killed,
}
