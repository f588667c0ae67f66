//! The upstreams of a proxy: their connections, and the attempts to send a request to them.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use http::{Method, StatusCode};
use parking_lot::Mutex;
use rudy_client::{
    Checkout, CheckoutError, Endpoint, Outgoing, Resolver, Selection, Start, Upload, Upstream,
    UpstreamOptions, Wanted, entry_of,
};
use rudy_config::Int;
use rudy_message::client::{RequestFields, RequestHead};
use rudy_pipeline::debug_request;
use rudy_pipeline::exchange::trace::{self, TRACEPARENT};
use rudy_runtime::clock;
use rudy_service::Observer;
use rudy_system::watched_files::Watched;
use rudy_upstream::MemberOptions;
use tokio::task::JoinSet;

use super::connection::{Connection, Connections, Speaks};
use super::ejection::FailureStatuses;
use super::exchange::{Exchange, Http, Timeouts};
use super::failure::{Attempt, Cause, Failure, HttpCause, Phase};
use super::received::Head;
use super::table::{ProxyTable, UpstreamTable};
use super::tls::UpstreamTls;
use super::upgrade::Offer;
use super::url::{Destination, UpstreamUrl};

/// The priority of backups, above those of SRV records.
pub(super) const BACKUP: u32 = 1 << 16;

/// The upstreams of one table.
#[derive(Debug)]
pub struct ProxyPool {
    pub(super) upstream: Arc<Upstream<Connection>>,
    retry_non_idempotent: bool,
    /// The statuses of responses after which another upstream gets the request.
    retry_statuses: Box<[u16]>,
    /// The statuses of responses that are failures of the upstream.
    failure_statuses: FailureStatuses,
    /// The URLs of the table. Members have the index of theirs in their id: see [`entry_of`].
    pub(super) urls: Arc<[UpstreamUrl]>,
    /// What resolves names.
    pub(super) resolver: Resolver,
    /// Why no member is known, if the last lookup of SRV records has failed.
    pub(super) unresolved: ArcSwapOption<String>,
    /// What the operator has drained. Targets of SRV records may leave and return.
    pub(super) drained: Mutex<BTreeSet<String>>,
    /// What `https` upstreams need.
    tls: Option<Arc<UpstreamTls>>,
    /// The health checks, and the lookups of SRV records. They end with the pool.
    pub(super) tasks: OnceLock<JoinSet<()>>,
}

impl ProxyPool {
    /// Creates the pool of a table for this number of workers; `tls` has what `https` upstreams need. No connection is opened yet.
    pub(super) fn new(
        table: &ProxyTable,
        tls: Option<Arc<UpstreamTls>>,
        resolver: Resolver,
        workers: usize,
    ) -> Arc<Self> {
        let options = UpstreamOptions {
            workers,
            queue: table.queue.as_usize(),
            queue_timeout: table.queue_timeout.0,
            connect_timeout: table.connect_timeout.0,
            idle_timeout: table.idle_timeout.0,
            requests_per_member: None,
            choice: table.choice.of_pool(table.hash_balance_factor.map(Int::as_u32)),
            circuit: table.ejection.circuit(table.slow_start.map_or(Duration::ZERO, |time| time.0)),
        };
        let tls_of = |url: &UpstreamUrl| tls.as_ref().and_then(|tls| tls.of(url));
        let versions = table.urls().map(|url| match tls_of(url) {
            Some(tls) => Speaks::Negotiated(tls.with_http2()),
            None if url.is_http2() => Speaks::Http2,
            None => Speaks::Http1,
        });
        let connections = Connections::new(versions.collect());
        let tls_of_members = table.urls().map(tls_of).collect();
        let upstream = Arc::new(Upstream::new(options, None, connections).with_tls(tls_of_members));
        for (id, UpstreamTable { url, weight, backup }) in (0..).zip(table.upstreams()) {
            let Destination::Address(address) = &url.destination else { continue };
            let member = MemberOptions {
                limit: table.connections.as_usize(),
                weight: weight.as_u32(),
                hash: rudy_upstream::hash(url.to_string().as_bytes()),
                priority: priority_of(*backup),
                is_retired: false,
            };
            upstream.pool().add(id, Endpoint::new(address, &resolver), member, clock::now());
        }
        Arc::new(Self {
            upstream,
            retry_non_idempotent: table.retry_non_idempotent,
            retry_statuses: table.retry_statuses().map(|status| status.as_u16()).collect(),
            failure_statuses: table.ejection.statuses(),
            urls: table.urls().cloned().collect(),
            resolver,
            unresolved: ArcSwapOption::empty(),
            drained: Mutex::default(),
            tls,
            tasks: OnceLock::new(),
        })
    }

    /// Returns whether one of its upstreams uses TLS.
    pub(super) fn uses_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// Returns whether upstreams come from SRV records.
    pub(super) fn has_service(&self) -> bool {
        self.urls.iter().any(|url| url.service().is_some())
    }

    /// Returns the URL to which a member belongs.
    pub(super) fn url_of(&self, member: u64) -> Option<&UpstreamUrl> {
        self.urls.get(entry_of(member))
    }

    /// Returns an error if no upstream gets requests, because the operator has drained all or none is known.
    pub(super) fn check_members(&self) -> Result<(), Cause> {
        let pool = self.upstream.pool();
        if pool.is_retired() {
            return Err(CheckoutError::Drained.into());
        }
        let unresolved = self.unresolved.load_full().filter(|_| pool.member_count() == 0);
        unresolved.map_or(Ok(()), |why| Err(CheckoutError::Unresolved(why).into()))
    }

    /// Sends a request and waits for the head of the response: see [`Upstream::send`]. `offer` is a request for a tunnel, and `selection` has
    /// the key that selects the upstream: see [`UpstreamChoice`](super::UpstreamChoice).
    ///
    /// # Errors
    ///
    /// There is no connection, or no response.
    pub(super) async fn send(
        &self,
        head: &RequestHead<'_>,
        upload: &mut Upload,
        offer: Option<&Offer>,
        selection: &mut Selection,
        timeouts: &Timeouts,
        observer: Option<&Arc<dyn Observer>>,
    ) -> Result<(Head, Box<Exchange>), Failure> {
        let request = Attempts { pool: self, head, offer, timeouts: *timeouts, observer };
        selection.wanted = if request.is_repeatable() { Wanted::Any } else { Wanted::Alive };
        self.upstream.send(&request, upload, selection).await
    }

    fn is_h2c(&self, member: u64) -> bool {
        self.url_of(member).is_some_and(UpstreamUrl::is_http2)
    }

    /// Returns a connection on which the upstream accepts a tunnel: that of HTTP/2, or else one of HTTP/1.1.
    async fn accept_tunnels(
        &self,
        mut checkout: Checkout<Connection>,
        method: &Method,
        start: Start,
    ) -> Result<Checkout<Connection>, Failure> {
        let Connection::Http2(stream) = checkout.connection() else { return Ok(checkout) };
        // A tunnel takes the place of the body that a POST has.
        if stream.accepts_tunnels() && *method != Method::POST {
            return Ok(checkout);
        }
        if !stream.is_https() {
            return Err(not_connected(HttpCause::NoTunnels.into(), start));
        }
        let reopened = self.upstream.reopen(checkout).await;
        reopened.map_err(|error| not_connected(error.into(), start))
    }
}

/// The attempts to send a request.
struct Attempts<'a> {
    pool: &'a ProxyPool,
    head: &'a RequestHead<'a>,
    offer: Option<&'a Offer>,
    timeouts: Timeouts,
    observer: Option<&'a Arc<dyn Observer>>,
}

impl Outgoing for Attempts<'_> {
    type Protocol = Http;

    fn observer(&self) -> Option<&Arc<dyn Observer>> {
        self.observer
    }

    fn is_repeatable(&self) -> bool {
        self.head.method.is_idempotent() || self.pool.retry_non_idempotent
    }

    fn has_others(&self) -> bool {
        self.pool.upstream.pool().member_count() > 1
    }

    fn rejects(&self, status: StatusCode) -> bool {
        self.pool.retry_statuses.contains(&status.as_u16())
    }

    async fn checkout<'a>(
        &'a self,
        selection: &'a mut Selection,
        start: Start,
    ) -> Result<Checkout<Connection>, Failure> {
        let Self { pool, head, offer, observer, .. } = *self;
        let checkout = pool.upstream.checkout(selection, observer, || pool.check_members()).await;
        let mut checkout = checkout.map_err(|cause| not_connected(cause, start))?;
        let (method, attempt) = (head.method, start.attempt);
        debug_request!(target: "proxy", observer, attempt, "{method} request to {}", checkout.endpoint());
        if offer.is_some() {
            checkout = Box::pin(pool.accept_tunnels(checkout, method, start)).await?;
        }
        Ok(checkout)
    }

    fn begin(
        &self,
        checkout: Checkout<Connection>,
        upload: Upload,
        start: Start,
    ) -> Result<Box<Exchange>, Failure> {
        let Self { pool, head, offer, timeouts, observer } = *self;
        let of_attempt = trace::value_of_attempt(observer, "http");
        let fields = of_attempt.and_then(|value| {
            let RequestFields::Head(head) = head.fields else { return None };
            let mut head = head.clone();
            head.add_text(&TRACEPARENT, &value);
            Some(head)
        });
        let head = RequestHead { fields: fields.as_ref().map_or(head.fields, Into::into), ..*head };
        Ok(Http::begin(checkout, &head, upload, offer, timeouts, pool.failure_statuses, start)?)
    }

    fn log_attempt(&self, Start { attempt, .. }: Start, failure: &Failure) {
        debug_request!(target: "proxy", self.observer, attempt, "{} request: {failure}", self.head.method);
    }

    fn is_possible(&self, member: u64, failure: &Failure) -> bool {
        // Without TLS, the upstream does not choose its version.
        !failure.cause.needs_own_connection() || !self.pool.is_h2c(member)
    }
}

/// Returns the priority of an upstream, to which that of a target of SRV records is added: all backups come after all others.
pub(super) fn priority_of(is_backup: bool) -> u32 {
    if is_backup { BACKUP } else { 0 }
}

fn not_connected(cause: Cause, start: Start) -> Failure {
    let Start { at, attempt: number } = start;
    let attempt = Attempt { number, endpoint: None, phase: Phase::Connecting, elapsed: clock::since(at) };
    Failure { cause, attempt: Some(Box::new(attempt)) }
}

impl Watched for ProxyPool {
    /// Replaces what `https` upstreams need, and closes the connections that were made with the old settings, after their requests.
    fn update(&self) -> Option<Result<String, String>> {
        let name = self.urls.first()?;
        let replaced = self.tls.as_ref()?.replace_changed(name);
        if let Some(Ok(_)) = replaced {
            self.upstream.pool().renew();
            self.upstream.shared().shut_down();
        }
        replaced
    }
}
