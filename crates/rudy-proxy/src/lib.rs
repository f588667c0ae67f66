//! The `proxy` handler passes requests to an application over HTTP, and its responses to the client.
//!
//! The lifecycle of a request:
//!
//! 1. [`mod@target`] determines the path. [`fields`] removes what belongs to the client's connection, [`forwarded`] and [`via`] add what the
//!    application should know, and [`max_forwards`] counts this proxy.
//! 2. [`buffer`](rudy_client::buffer) stores the start of the body, so that a slow client occupies no connection.
//! 3. [`pool`] provides a [`connection`] to an upstream ([`choice`]): idle, new, or after a wait in the queue. It carries one request at a time.
//!    A name with SRV records has several upstreams ([`service`]). After some failures, there is another attempt
//!    ([`upstream`](rudy_client)). Over HTTP/2, a connection carries many ([`http2`]).
//! 4. [`exchange`] sends the request with its body as it comes in ([`sending`]), and receives the response ([`received`]).
//! 5. [`response`] turns the response into that for the client. It passes the body on as it arrives, and reads ahead if the client is
//!    slower than the upstream. Or the upstream names a [`replacement`]: a file, or another path of the site.
//! 6. Or both change to another protocol ([`upgrade`]), such as WebSocket, and bytes pass through a [`tunnel`].
//! 7. A request in early data that the upstream does not serve is sent again after the handshake ([`too_early`]).
//! 8. If there is no response, [`failure`] determines the status and the log line. An upstream that fails gets no requests for a
//!    while ([`ejection`]). Requests of Rudy itself notice failures, too ([`health`]).
//!
//! Connections that do not speak HTTP use the same pools and tunnels ([`tcp`]).

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod background;
mod build;
mod choice;
mod connection;
mod ejection;
mod exchange;
mod failure;
mod fields;
mod forwarded;
mod health;
mod http1;
mod http2;
mod max_forwards;
mod names;
mod pool;
mod pools;
mod received;
mod replacement;
mod response;
mod rewrite;
mod sending;
mod service;
mod status;
mod sticky;
mod subrequest;
mod table;
mod target;
mod tcp;
mod tls;
mod too_early;
mod tunnel;
mod upgrade;
mod url;
mod via;

use std::io;
use std::sync::{Arc, OnceLock};

use http::{HeaderValue, Method, StatusCode, Version, header};
use http_body::Body as _;
use rudy_client::buffer::Buffers;
use rudy_client::{
    CheckoutError, RequestInfo, Resolver, Selection, Upload, Wanted, is_incremental, may_be_endless,
};
use rudy_config::OneOrMany;
use rudy_files::replacement::Replacements;
use rudy_log::ErrorLog;
use rudy_message::client::RequestHead;
use rudy_message::semantics::field::KnownField;
use rudy_message::{BodyLength, LazyHead};
use rudy_net::proxy_header::{self, ProxiedClient};
use rudy_pipeline::exchange::trace;
use rudy_pipeline::methods::{APP_METHODS, method_not_allowed};
use rudy_pipeline::request_state::HasRequestState;
use rudy_pipeline::{Call, Handler, Start};
use rudy_service::{Client, Observer, Peer, Reply, Request, RequestBody, Response};
use rudy_system::watched_files::WatchedFiles;
use rudy_tls::PendingHandshake;

pub use self::build::name_of;
pub use self::choice::{HashKey, UpstreamChoice};
pub use self::ejection::EjectionTable;
use self::exchange::{Exchange, Timeouts};
use self::failure::{Cause, Failure, HttpCause};
pub use self::health::{HealthCheckPath, HealthCheckTable};
pub use self::pool::ProxyPool;
pub use self::pools::ProxyPools;
use self::received::Head;
use self::replacement::Origin;
use self::rewrite::Rewrites;
pub use self::status::UpstreamChange;
pub use self::sticky::StickyKey;
pub use self::sticky::{SameSite, StickyTable};
use self::sticky::{Stickiness, Sticky};
pub use self::subrequest::{Subrequest, Subresponse};
pub use self::table::{HostSource, ProxyTable, RequestBuffering, UpstreamTable};
use self::target::reject_path;
use self::target::target;
pub use self::target::{Prefixes, reject_other_path, target_of_uri};
pub use self::tcp::{TcpHealthCheckTable, TcpProxy, TcpProxyTable, TcpUpstreamTable};
use self::tls::UpstreamTls;
use self::tunnel::TunnelLimits;
use self::upgrade::Offer;
pub use self::upgrade::UpgradeProtocol;
pub use self::url::UpstreamUrl;

/// A proxy with its settings. Clones share everything.
#[derive(Debug, Clone)]
pub struct Proxy(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    table: ProxyTable,
    tls: Option<Arc<UpstreamTls>>,
    resolver: Resolver,
    /// Whether all upstreams speak HTTP/2 by configuration, so that a slow request occupies no connection.
    is_http2: bool,
    timeouts: Timeouts,
    tunnel_limits: TunnelLimits,
    prefixes: Prefixes,
    rewrites: Option<Rewrites>,
    /// What the upstreams may name instead of a response of their own.
    replacements: Replacements,
    /// The first host and path of the route.
    route: String,
    /// The name in the log: the first upstream.
    name: Arc<str>,
    /// `Host` of each request, unless that of the client is passed on.
    host: Option<HeaderValue>,
    /// `Host` of requests without one (HTTP/1.0).
    default_host: HeaderValue,
    /// Opened when a server starts, but not when a configuration is only checked.
    pool: OnceLock<Arc<ProxyPool>>,
    /// The cookies of sticky upstreams, set together with the pool.
    sticky: OnceLock<Sticky>,
    /// Set when a server starts.
    buffers: OnceLock<Buffers>,
    log: OnceLock<ErrorLog>,
}

impl Shared {
    /// Creates the pool for this number of workers. No connection is opened yet.
    fn new_pool(&self, workers: usize) -> Arc<ProxyPool> {
        ProxyPool::new(&self.table, self.tls.clone(), self.resolver.clone(), workers)
    }

    /// Returns the buffers of the process. A proxy that was not started has its own.
    fn buffers(&self) -> &Buffers {
        self.buffers.get_or_init(Buffers::default)
    }

    /// Returns the pool.
    ///
    /// # Errors
    ///
    /// The proxy was not started. A pool that a request opened would have no lookups, no health checks and no log.
    fn pool(&self) -> Result<&Arc<ProxyPool>, CheckoutError> {
        self.pool.get().ok_or(CheckoutError::NotStarted)
    }
}

/// A request for an upstream.
struct ProxyRequest {
    shared: Arc<Shared>,
    client: Peer,
    /// The target, unless it is that of the client.
    target: Option<Box<str>>,
    /// The folder of the route in a URL, if references in the response are rewritten.
    folder: Option<Box<str>>,
    /// The head with the fields for the upstream.
    head: LazyHead<'static>,
    /// The request for another protocol.
    offer: Option<Box<Offer>>,
    /// What the cookie of a sticky upstream says.
    stickiness: Option<Stickiness>,
    /// The PROXY protocol header for the connection.
    preamble: Option<Arc<[u8]>>,
    /// The handshake, if the request has arrived before its end.
    handshake: Option<Arc<PendingHandshake>>,
    /// The observer of the exchange with the client.
    observer: Option<Arc<dyn Observer>>,
    /// What a replacement of the response needs, if the upstreams may name one.
    origin: Option<Box<Origin>>,
    /// Whether a cache sends the request, for all that wait for the response.
    is_in_flight: bool,
}

impl Handler for Proxy {
    fn call(&self, request: Request<'_>, call: Call<'_>) -> Reply {
        let more = self.0.table.upgrade_protocols.as_ref().map_or(&[][..], OneOrMany::as_slice);
        let (method, body) = (request.method(), request.body());
        // Over HTTP/2, the tunnel takes the place of the body.
        let may_have_body = *method == Method::POST && !self.0.is_http2;
        let offer = upgrade::offer(&request, more)
            .filter(|offer| offer.is_connect || may_have_body || body.is_end_stream());
        // A gateway is no forward proxy (RFC 9110 §9.3.6).
        if *request.method() == Method::CONNECT && offer.is_none() {
            return method_not_allowed(
                &request,
                APP_METHODS,
                "Method not allowed. This is no forward proxy.",
            )
            .into();
        }
        if let Some(rejected) = reject_path(&call, &request, &self.0.prefixes) {
            return rejected.into();
        }
        if let Some(response) = max_forwards::response(&request) {
            return response.into();
        }
        if via::is_loop(&request) {
            return via::loop_detected(request.headers()).into();
        }
        let request = call.detach(request);
        let origin = (!self.0.replacements.is_empty()).then(|| Box::new(Origin::new(&request, &call)));
        let is_in_flight = request.state().is_in_flight;
        let (head, body) = request.into_parts();
        // In a box of its own: the future would be too large for the free blocks that the allocator caches.
        let request = Box::new(ProxyRequest { origin, is_in_flight, ..self.prepare(head, offer, &call) });
        // By reference: the future of a method that takes `self` would store it twice.
        Reply::Later(Box::pin(async move { request.respond(body).await }))
    }

    fn start(&self, start: &Start<'_>) -> io::Result<()> {
        let Shared { table, log, pool, sticky, buffers, name, .. } = &*self.0;
        log.get_or_init(|| start.log.clone());
        buffers.get_or_init(|| Buffers::clone(&start.resources.of()));
        self.0.replacements.log_to(start.log);
        let pools = start.resources.of::<ProxyPools>();
        let opened = pools.get_or_open(table, || {
            let pool = self.0.new_pool(start.workers);
            // A reload with another setting does not end the operator's work on an upstream.
            pool.drain(start.drained);
            // Other routes may use it, too.
            pool.start(table, &start.log.of_server())?;
            if pool.uses_tls() {
                start.resources.of::<WatchedFiles>().add(&pool);
            }
            Ok(pool)
        });
        let cannot =
            |error: io::Error| io::Error::new(error.kind(), format!("start a proxy: {name}: {error}"));
        let opened = opened.map_err(cannot)?;
        pool.get_or_init(|| opened);
        if let Some(of_table) = &table.sticky {
            sticky.get_or_init(|| Sticky::new(of_table, table.urls(), pools.sticky_key(start.log)));
        }
        Ok(())
    }

    fn accepts_tunnels(&self) -> bool {
        true
    }

    fn methods(&self) -> &'static str {
        APP_METHODS
    }
}

impl Proxy {
    /// Prepares the pool of a table with at least one upstream, for a route with this name. No connection is opened yet.
    fn new(
        table: &ProxyTable,
        tls: Option<Arc<UpstreamTls>>,
        resolver: Resolver,
        replacements: Replacements,
        route: String,
    ) -> Self {
        let first = table.urls().next();
        let default_host = first.map_or(HeaderValue::from_static("localhost"), UpstreamUrl::host);
        let host = (table.host == HostSource::Upstream).then(|| default_host.clone());
        let name = first.map(ToString::to_string).unwrap_or_default().into();
        let timeouts = Timeouts { response: table.response_timeout.0, stall: Some(table.stall_timeout.0) };
        let tunnel_limits = TunnelLimits::of_http(
            table.tunnel_idle_timeout.0,
            table.tunnel_lifetime.map(|lifetime| lifetime.0),
        );
        let added = table.add_prefix.as_ref().map(|prefix| prefix.trim_end_matches('/').to_owned());
        let (strips, decodes) = (table.strip_prefix, table.decode_path);
        let prefixes = Prefixes { strips, added: added.unwrap_or_default(), decodes };
        let (pool, sticky, buffers, log) = Default::default();
        Self(Arc::new(Shared {
            table: table.clone(),
            tls,
            resolver,
            is_http2: table.urls().all(UpstreamUrl::is_http2),
            timeouts,
            tunnel_limits,
            rewrites: Rewrites::new(table, &prefixes),
            prefixes,
            replacements,
            route,
            name,
            host,
            default_host,
            pool,
            sticky,
            buffers,
            log,
        }))
    }

    /// Starts a proxy that is no handler, for this number of workers: its log, and the lookups of the names of its upstreams.
    pub fn start_alone(&self, log: &ErrorLog, workers: usize) -> io::Result<()> {
        let Shared { table, log: of_proxy, pool, .. } = &*self.0;
        of_proxy.get_or_init(|| log.clone());
        let opened = self.0.new_pool(workers);
        opened.start(table, log)?;
        pool.get_or_init(|| opened);
        Ok(())
    }

    /// Returns the buffers of the process.
    #[must_use]
    pub fn buffers(&self) -> &Buffers {
        self.0.buffers()
    }

    /// Turns a request of a client into one for an upstream.
    fn prepare(&self, mut head: LazyHead<'static>, offer: Option<Offer>, call: &Call<'_>) -> ProxyRequest {
        let client = call.context.client;
        let mount = call.below().mount().len();
        let target = target(&head, call.path, mount, &self.0.prefixes).map(String::into_boxed_str);
        let folder = self.0.rewrites.as_ref().map(|_| call.path.encoded(0..mount).into_boxed_str());
        fields::remove_connection_fields(&mut head);
        max_forwards::count_hop(&mut head);
        if let Some(offer) = &offer {
            if offer.is_connect {
                head.set_method(Method::GET);
            }
            offer.set_fields(&mut head);
        }
        via::add_via(&mut head);
        fields::set_host_of_target(&mut head);
        forwarded::set_forwarded(&mut head, client, self.0.table.forwarded);
        let stickiness = self.0.sticky.get().map(|sticky| sticky.of(&head, client));
        let handshake = too_early::mark(&mut head, client);
        trace::prepare(&mut head, &call.context.routes.observers, client);
        self.set_host(&mut head);
        ProxyRequest {
            shared: self.0.clone(),
            client: client.address(),
            target,
            folder,
            head,
            offer: offer.map(Box::new),
            stickiness,
            preamble: self.0.table.send_proxy_protocol.then(|| preamble(client)),
            handshake,
            observer: client.observer.get().cloned(),
            origin: None,
            is_in_flight: false,
        }
    }

    fn set_host(&self, head: &mut LazyHead<'_>) {
        if let Some(host) = &self.0.host {
            head.set(header::HOST, host.clone());
        } else if head.first(KnownField::Host).is_none_or(<[u8]>::is_empty) {
            head.set(header::HOST, self.0.default_host.clone());
        }
    }
}

/// Returns the PROXY protocol header for the connection of a request.
fn preamble(client: &Client<'_>) -> Arc<[u8]> {
    let source = match client.address() {
        Peer::Ip(address) => ProxiedClient::Address(address),
        Peer::Unix | Peer::Unnamed(_) => ProxiedClient::Unknown,
    };
    proxy_header::encode(source, client.local_address.get()).into()
}

impl ProxyRequest {
    async fn respond(&self, body: RequestBody) -> Response {
        match self.response(body).await {
            Ok(response) => response,
            Err(failure) => {
                self.info().log_failure(&failure);
                failure.response(self.head.headers())
            }
        }
    }

    /// Returns the request for the log.
    fn info(&self) -> RequestInfo {
        let Self { shared, head, client, observer, .. } = self;
        let (upstream, log) = (shared.name.clone(), shared.log.get().cloned());
        let (method, uri) = (head.method().clone(), head.uri().clone());
        let trace = trace::of_exchange(observer.as_ref());
        RequestInfo { upstream, method, uri, client: *client, trace, log }
    }

    async fn response(&self, body: RequestBody) -> Result<Response, Failure> {
        let Self { shared, head, folder, offer, .. } = self;
        let (mut upload, client) = match offer {
            // The body is a direction of the tunnel. In a box: other requests need no room for it in the future.
            Some(offer) if offer.is_connect => (Upload::default(), Some(Box::new(body))),
            _ => (self.receive(body).await?, None),
        };
        let mut received = self.send(head, &mut upload).await?;
        if let Some(handshake) = &self.handshake
            && received.0.status() == StatusCode::TOO_EARLY
        {
            received = Box::pin(self.send_after(handshake, received)).await?;
        }
        if let (Some(sticky), Some(stickiness)) = (shared.sticky.get(), self.stickiness) {
            sticky.set(received.0.fields.headers_mut(), stickiness, received.1.member());
        }
        if let (Some(rewrites), Some(folder)) = (&shared.rewrites, folder) {
            rewrites.apply(received.0.fields.headers_mut(), folder);
        }
        if let Some(offer) = offer {
            let status = received.0.status();
            if status == StatusCode::SWITCHING_PROTOCOLS {
                let client = client.map_or_else(RequestBody::empty, |body| *body);
                return response::into_tunnel(received, offer, client, shared.tunnel_limits);
            }
            // For the client, a 2xx opens a tunnel (RFC 8441 §5), and its body would be what the upstream sends through it.
            if offer.is_connect && status.is_success() {
                return Err(received.1.failure(HttpCause::NoTunnel(status).into()));
            }
        }
        if received.0.replacement().is_some() {
            return Box::pin(self.replace(received)).await;
        }
        let limit = shared.table.response_buffer.0;
        let instructions = received.0.instructions.take();
        let is_unbuffered = instructions.as_ref().is_some_and(|instructions| instructions.is_unbuffered);
        let limit = if is_unbuffered { 0 } else { limit };
        let response =
            response::into_response(received, head.method(), self.shared.buffers(), limit, || self.info())?;
        Ok(self.follow(instructions.as_deref(), response))
    }

    /// Sends the request with this head, and waits for that of the response.
    async fn send(
        &self,
        of_client: &LazyHead<'static>,
        upload: &mut Upload,
    ) -> Result<(Head, Box<Exchange>), Failure> {
        let Self { shared, target, offer, preamble, .. } = self;
        // Without a target of its own, the one of the client is plain.
        let sent = || str::from_utf8(of_client.path_and_query()).unwrap_or("/");
        let head = RequestHead {
            method: of_client.method(),
            target: target.as_deref().unwrap_or_else(sent),
            version: Version::HTTP_11,
            fields: of_client.into(),
            // Only a chunked body has trailers.
            body: match upload.length() {
                Some(length) if upload.trailers().is_none() => BodyLength::Known(length),
                _ => BodyLength::Chunked,
            },
        };
        let pool = shared.pool().map_err(Cause::from)?;
        let key = shared.table.choice.key(self.client, of_client);
        let (preferred, preamble) = (self.stickiness.and_then(|of| of.preferred), preamble.clone());
        let mut selection = Selection { key, preferred, preamble, ..Selection::from(Wanted::Any) };
        pool.send(&head, upload, offer.as_deref(), &mut selection, &shared.timeouts, self.observer.as_ref())
            .await
    }

    /// Receives as much of the body as the settings demand before a connection to an upstream is used. The futures are in boxes, because
    /// most requests have no body.
    async fn receive(&self, mut body: RequestBody) -> Result<Upload, Cause> {
        let Self { shared, head, offer, .. } = self;
        let buffers = self.shared.buffers();
        if body.is_end_stream() {
            return Ok(Upload::of_client(body));
        }
        // The client can use the other protocol only after the end of its request (RFC 9110 §7.8).
        if offer.is_some() {
            return Ok(Upload::stored(Box::pin(buffers.store(body)).await?));
        }
        if may_be_endless(head) {
            return Ok(Upload::of_client(body));
        }
        Ok(match shared.table.request_buffering {
            RequestBuffering::Off => Upload::of_client(body),
            RequestBuffering::Full => Upload::stored(Box::pin(buffers.store(body)).await?),
            RequestBuffering::Auto if shared.is_http2 || is_incremental(head) => Upload::repeatable(body),
            // Many applications read no chunked body, such as those of WSGI: they respond as if there was none.
            RequestBuffering::Auto if body.size_hint().exact().is_none() => {
                let (stored, trailers) = Box::pin(buffers.store_with_trailers(body)).await?;
                Upload::begun(stored, trailers, RequestBody::empty())
            }
            RequestBuffering::Auto => {
                let received = Box::pin(buffers.store_start(&mut body)).await;
                let (start, trailers) = received.map_err(Cause::Client)?;
                Upload::begun(start, trailers, body)
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The allocator caches no free blocks above 1,032 bytes, and a thousand requests may wait at a time.
    #[test]
    fn a_waiting_request_has_a_small_future() {
        let Proxy(shared) = Proxy::new(
            &ProxyTable::from_iter(["http://a".parse().unwrap()]),
            None,
            Resolver::System,
            Replacements::none(),
            "a/*".into(),
        );
        let request = Box::new(ProxyRequest {
            shared,
            client: Peer::Unix,
            target: None,
            folder: None,
            head: LazyHead::default(),
            offer: None,
            stickiness: None,
            preamble: None,
            handshake: None,
            observer: None,
            origin: None,
            is_in_flight: false,
        });
        let future = async move { request.respond(RequestBody::empty()).await };
        let sizes = [size_of_val(&future), size_of::<ProxyRequest>(), size_of::<Exchange>()];
        assert!(sizes.iter().all(|size| *size <= 1032), "{sizes:?}");
    }
}
