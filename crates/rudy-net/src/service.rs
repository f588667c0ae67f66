//! The interface between connections and the service that responds to requests.

use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use rudy_http::h1::{Rejection, RequestHead};

use crate::close::LingerLimits;
use crate::listen::Address;
use crate::{Client, ClientHello, Forwarded, LocalAddress, Peer, Reply, Request, Response, TlsSite};

/// Responds to requests. One value serves many connections concurrently, on every engine.
pub trait Service: Send + Sync + 'static {
    /// Whether a peer is a trusted proxy. The server accepts PROXY protocol headers from trusted proxies
    /// only, and the limits by address do not apply to them.
    fn is_trusted_proxy(&self, _peer: &Peer) -> bool {
        false
    }

    /// Returns the settings for a TLS handshake at a listener, to which a client has connected at `local`. `None` rejects it, because no
    /// site there has the server name.
    fn tls_site(
        &self,
        _hello: &ClientHello,
        _listener: &Address,
        _local: &LocalAddress<'_>,
    ) -> Option<Arc<TlsSite>> {
        None
    }

    /// Whether HTTP/2 clients may request tunnels (RFC 8441). Such a request has the method CONNECT, a path, and the protocol in the
    /// field Upgrade. A 2xx response opens the tunnel: the bodies are its two directions.
    fn accepts_tunnels(&self) -> bool {
        false
    }

    /// Returns the client for which a trusted proxy forwards a request. Called once for each request, before
    /// the other methods. `None` means that the peer itself is the client.
    fn forwarded(&self, _head: &RequestHead<'_>, _peer: &Peer) -> Option<Forwarded> {
        None
    }

    /// Creates the observer of an exchange, before the service responds. `None` costs nothing. [`Self::call`] gets it in
    /// [`Client::observer`], and can set one there if there is none.
    fn observe(&self, _head: &RequestHead<'_>, _client: &Client<'_>) -> Option<Arc<dyn Observer>> {
        None
    }

    /// Responds to a request. Must not block: use [`Reply::Later`] to wait.
    fn call(&self, request: Request<'_>, client: &Client<'_>) -> Reply;

    /// Creates the observer of a request that waits and has none, for a report of the exchanges in progress. `head` is the
    /// [copy](Client::head) that the service has made.
    fn observe_waiting(
        &self,
        _head: &Arc<RequestHead<'static>>,
        _client: &Client<'_>,
    ) -> Option<Arc<dyn Observer>> {
        None
    }

    /// Returns the response to a request that the connection rejects, such as a page, instead of a text. The head
    /// is `None` if it is malformed or incomplete. Only a response whose body is in memory is sent.
    fn respond_to_rejected(
        &self,
        _rejection: Rejection,
        _head: Option<&RequestHead<'_>>,
        _client: &Client<'_>,
    ) -> Option<Response> {
        None
    }

    /// Returns the limits for the next request of each connection. Shared, so that an exchange holds its
    /// limits without the service.
    fn limits(&self) -> &Arc<Limits>;

    /// Reports that a TLS handshake has failed. `reason` may contain words of the peer behind its first colon.
    fn handshake_failed(&self, _peer: &Peer, _reason: &str) {}

    /// Reports that the server rejected a peer before there was a complete request (an invalid head, a
    /// timeout). `reason` is a readable explanation.
    fn rejected(&self, client: &Client<'_>, reason: &str, outcome: &ExchangeOutcome);
}

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
    /// How long a closing connection may keep sending before it is dropped, once its peer has acknowledged the response.
    pub linger_timeout: Duration,
    /// How many bytes a closing connection may still send.
    pub linger_bytes: u64,
    /// How long a trusted proxy may take from the accept to the end of its PROXY protocol header, if the
    /// listener requires one.
    pub proxy_header_timeout: Duration,
}

impl Limits {
    /// Returns the limits for closing a connection.
    #[must_use]
    pub fn linger(&self) -> LingerLimits {
        let rudy_http::Limits { send_stall_timeout, send_rate_min, rate_grace, .. } = self.http;
        let (time, bytes) = (self.linger_timeout, self.linger_bytes);
        LingerLimits { time, bytes, send_stall_timeout, send_rate_min, rate_grace }
    }
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
