//! The line between the connections below and the sites above.

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use rudy_http::h1::RequestHead;

use crate::close::LingerLimits;
use crate::{Client, Forwarded, Peer, Reply, Request, Response};

/// Answers requests. One value serves many connections at once, on every engine.
pub trait Service: Send + Sync + 'static {
    /// Whether a peer is a proxy that is trusted: connections with the PROXY protocol are accepted from it, and the limits by
    /// address do not count its connections together.
    fn is_trusted_proxy(&self, _peer: &Peer) -> bool {
        false
    }

    /// What a trusted proxy says of a request that it passes on, asked once a request and before anything else. `None`: the
    /// request is the peer's own.
    fn forwarded(&self, _head: &RequestHead<'_>, _peer: &Peer) -> Option<Forwarded> {
        None
    }

    /// Makes the observer of an exchange, before the request is answered. `None` costs nothing.
    fn observe(&self, _head: &RequestHead<'_>, _client: &Client<'_>) -> Option<Box<dyn Observer>> {
        None
    }

    /// Answers a request without a body from its head alone, if that can be done at once: the service is then spared the request,
    /// whose fields cost more than all else about a small response. `None`: [`Self::call`] answers it. Not called where a proxy
    /// names another host than the head does.
    fn call_head(&self, _head: &RequestHead<'_>) -> Option<Response> {
        None
    }

    /// Answers one request. Must not block: what has to wait goes into [`Reply::Later`].
    fn call(&self, request: Request, client: &Client<'_>) -> Reply;

    /// The limits for the next request of each connection. Shared, so that an exchange keeps them and not the service.
    fn limits(&self) -> &Arc<Limits>;

    /// A peer was refused before there was a request to answer (a bad head, a timeout); `reason` says why, in words.
    fn rejected(&self, client: &Client<'_>, reason: &str, outcome: &ExchangeOutcome);
}

/// Receives how an exchange went, once, however it ended: the access log.
pub trait Observer: Send {
    /// The exchange is over.
    fn finished(self: Box<Self>, outcome: &ExchangeOutcome);
}

/// How an exchange went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExchangeOutcome {
    /// The status sent, `None` where the peer was gone before there was one.
    pub status: Option<StatusCode>,
    /// Bytes of the answer's body, framing not counted: all that were sent, and of one that broke off also those that were
    /// ready to be.
    pub body_bytes: u64,
    /// From the whole request head to the first byte of the answer: what came before the answer.
    pub wait: Duration,
    /// From the whole request head to the last byte of the answer.
    pub duration: Duration,
    /// Whether it came to its end.
    pub end_reason: EndReason,
}

/// Whether an answer came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndReason {
    /// The whole answer was handed to the kernel.
    Completed,
    /// The peer went away.
    PeerGone,
    /// The peer did not read, or too slowly.
    PeerStalled,
    /// The body failed on our side after the answer had begun: it was cut.
    Aborted,
    /// The server was stopped in the middle.
    ServerStopped,
}

/// The limits of a server's connections, alone and taken together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// What holds for each connection by itself.
    pub http: rudy_http::Limits,
    /// Connections open at once; beyond it an idle one is closed for a new one, the longest idle of the address that has most, or
    /// else the new one is answered 503 and closed. `None`: as many as the descriptor limit leaves room for.
    pub connections: Option<usize>,
    /// Connections open at once from one address; off by default (`None`), because many people share one.
    pub connections_per_address: Option<usize>,
    /// How long a connection that is being closed may go on sending before it is dropped.
    pub linger_timeout: Duration,
    /// How many bytes it may go on sending.
    pub linger_bytes: u64,
    /// How long a trusted proxy may take from the accept to the end of its PROXY protocol header, where one is required.
    pub proxy_header_timeout: Duration,
}

impl Limits {
    /// What a close waits for.
    #[must_use]
    pub fn linger(&self) -> LingerLimits {
        LingerLimits { time: self.linger_timeout, bytes: self.linger_bytes }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            http: rudy_http::Limits::default(),
            connections: None,
            connections_per_address: None,
            linger_timeout: Duration::from_secs(5),
            // As much as a body may have: a client that sends one which nobody takes reads its answer only after it, and a
            // close before would be a reset that destroys the answer.
            linger_bytes: 16 * 1024 * 1024,
            // A proxy sends it at once, from the same network; long enough for a packet that is lost twice.
            proxy_header_timeout: Duration::from_secs(5),
        }
    }
}
