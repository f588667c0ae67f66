//! The interface between connections and the service that responds to requests.

use std::ops::Deref;
use std::sync::Arc;

use rudy_message::{Rejection, RequestHead};
use rudy_tls::ClientHello;

use crate::client::{Client, Forwarded, Peer};
use crate::limits::Limits;
use crate::listen_address::Address;
use crate::local_address::LocalAddress;
use crate::message::{Reply, Request, Response};
use crate::observer::{ExchangeOutcome, Observer};
use crate::upgrade::{Takeover, TlsChoice};

/// Responds to requests. One value serves many connections concurrently, on every engine.
pub trait Service: Send + Sync + 'static {
    /// Whether a peer is a trusted proxy. The server accepts PROXY protocol headers from trusted proxies
    /// only, and the limits by address do not apply to them.
    fn is_trusted_proxy(&self, _peer: &Peer) -> bool {
        false
    }

    /// Returns what to do with a TLS handshake at a listener, to which a client has connected at `local`. `None` rejects it, because no
    /// site there has the server name.
    fn tls_site(
        &self,
        _hello: &ClientHello,
        _listener: &Address,
        _local: &LocalAddress<'_>,
    ) -> Option<TlsChoice> {
        None
    }

    /// Whether connections to a listener speak HTTP, so that one over a limit gets a response. The others are only closed.
    fn speaks_http(&self, listener: &Address) -> bool {
        !listener.tls
    }

    /// Returns what takes a connection that does not speak HTTP. Called once for each connection, after its handshake, before anything else
    /// is read from it. `server_name` is that of a handshake that [another server](TlsChoice::Pass) will make; the result of one that was made
    /// here is in `client`.
    fn take_over(&self, _client: &Client<'_>, _server_name: Option<&str>) -> Option<Takeover> {
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

/// Provides the current service. An engine calls it for each accepted connection and each request head, so a
/// reload takes effect on all connections. An exchange in progress continues with its service.
pub trait ServiceSource: Send + Sync + 'static {
    /// The type of the service.
    type Service: Service;
    /// A handle to the service for one request: an `Arc`, or a cheaper guard.
    type Current: Deref<Target = Self::Service>;

    /// Returns the current service. Called for every request, on the connection's thread: must be cheap, and
    /// must not block.
    fn current(&self) -> Self::Current;
}
