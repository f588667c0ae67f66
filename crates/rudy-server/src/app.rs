//! A configuration that is ready to handle requests.

#[cfg(test)]
mod head_tests;
#[cfg(test)]
mod other_route_tests;
#[cfg(test)]
mod step_tests;
#[cfg(test)]
mod tests;

use std::io;
use std::sync::Arc;

use http::{StatusCode, header};
use rudy_admin::UpstreamStatus;
use rudy_caching::{Cache, disk_errors};
use rudy_config::Diagnostics;
use rudy_guard::Http3Offers;
use rudy_log::ErrorLog;
use rudy_message::{LazyHead, Rejection, RequestHead};
use rudy_mirror::Fetch;
use rudy_pipeline::client_address::{TrustedProxies, set_forwarded_host};
use rudy_pipeline::exchange::trace::Tracing;
use rudy_pipeline::exchange::{self, LoggedParts, Observers, Recorder, RequestIdTable, RequestInfo};
use rudy_pipeline::network::client_subject;
use rudy_pipeline::routing::Site;
use rudy_pipeline::{Context, Resources, Routes, Start, Target, is_challenge_path};
use rudy_proxy::{Proxy, ProxyPools, TcpProxy};
use rudy_service::listen_address::Address;
use rudy_service::{
    Client, ExchangeOutcome, Forwarded, Limits, LocalAddress, Observer, Peer, Reply, Request, RequestBody,
    Response, Service, Takeover, TlsChoice,
};
use rudy_site_tls::TlsState;
use rudy_tls::ClientHello;
use rudy_watch::access_log::AccessLogs;
use rudy_watch::metrics::{Format, Metrics, Sources, render};
use rudy_watch::status::Activity;
use rudy_watch::traces::{Exporter, Exporters};

use crate::compile::{Compiled, compile};
use crate::config::Config;
use crate::grpc;

/// The app of one configuration: routes, limits and logs. A reload replaces it for the next request; an exchange in progress keeps
/// the parts that it needs of the old one.
#[derive(Debug)]
pub struct App {
    routes: Arc<Routes>,
    /// Whether a handler accepts tunnels. Each HTTP/2 connection asks, and there may be thousands of handlers.
    accepts_tunnels: bool,
    /// Whether a site takes connections. Each connection asks.
    takes_connections: bool,
    limits: Arc<Limits>,
    error_log: Option<ErrorLog>,
    trusted_proxies: Arc<TrustedProxies>,
    activity: Arc<Activity>,
    tls: Arc<TlsState>,
    http3: Http3Offers,
    /// What exports spans. `None` without tracing.
    exporter: Option<Arc<Exporter>>,
}

impl App {
    /// Builds the app: opens folders, reads fixed bodies, encodes fixed heads. The error has all problems. What `resources` has with the
    /// same settings is shared.
    pub fn new(config: &Config, resources: &Resources) -> Result<Self, Diagnostics> {
        let compiled = compile(config, resources)
            .map_err(|problems| Diagnostics::new(config.sources.clone(), problems))?;
        Ok(Self::of_compiled(compiled, config, resources))
    }

    fn of_compiled(compiled: Compiled, config: &Config, resources: &Resources) -> Self {
        let Compiled { router, trusted_proxies } = compiled;
        let accepts_tunnels = router.handlers().any(|target| target.handler.accepts_tunnels());
        let takes_connections = config.sites.iter().any(|site| site.connections.is_some());
        let activity = resources.of::<Activity>();
        let mut observers = Observers {
            recorders: Vec::new(),
            request_id: config.request_id.clone().and_then(RequestIdTable::if_on),
            are_listed: activity.switch().clone(),
            logged: LoggedParts::default(),
            tracing: None,
        };
        let exporter = config.tracing.as_ref().map(|table| resources.of::<Exporters>().get_or_make(table));
        if let (Some(table), Some(exporter)) = (&config.tracing, exporter.clone()) {
            observers.tracing = Some(Tracing {
                sample: table.sample.0,
                trusts_all: table.trust_clients,
                trusted_proxies: trusted_proxies.clone(),
                fields: Arc::new([header::HOST, header::USER_AGENT]),
                recorder: exporter,
            });
        }
        if config.counts_requests() {
            let metrics = resources.of::<Metrics>();
            metrics.keep_routes(router.handlers().map(|target| &*target.name));
            observers.recorders.push(metrics);
        }
        let ports = config.addresses().into_iter().filter(|address| address.tls);
        let ports = ports.filter_map(|address| address.endpoint.port());
        Self {
            routes: Arc::new(Routes {
                router: Arc::new(router),
                observers: Arc::new(observers),
                maps: config.maps.clone(),
            }),
            accepts_tunnels,
            takes_connections,
            limits: Arc::new(config.limits_in_effect()),
            error_log: None,
            trusted_proxies,
            activity,
            tls: resources.of(),
            http3: Http3Offers::new(ports),
            exporter,
        }
    }

    /// Returns the routes of all sites.
    pub(crate) fn routes(&self) -> &Arc<Routes> {
        &self.routes
    }

    /// Adds access logs.
    #[must_use]
    pub fn with_access_logs(mut self, logs: AccessLogs) -> Self {
        let observers = self.observers_mut();
        observers.logged = logs.logged_parts();
        // An exchange has one copy of its head, for logs and spans.
        if let Some(tracing) = &mut observers.tracing {
            let of_logs = logs.request_fields().into_iter().flatten();
            let of_logs = of_logs.filter(|name| !tracing.fields.contains(name)).cloned();
            tracing.fields = tracing.fields.iter().cloned().chain(of_logs).collect();
        }
        observers.recorders.push(Arc::new(logs));
        self
    }

    fn observers_mut(&mut self) -> &mut Observers {
        Arc::make_mut(&mut Arc::make_mut(&mut self.routes).observers)
    }

    /// Adds a log for errors of clients and of the file system.
    #[must_use]
    pub fn with_error_log(self, log: ErrorLog) -> Self {
        Self { error_log: Some(log), ..self }
    }

    /// Starts the background work of handlers for this number of workers: app processes that do not run yet in `resources`. From here
    /// on, handlers log errors to `log`.
    ///
    /// # Errors
    ///
    /// The user of a process does not exist or cannot be used, or the system lacks resources.
    pub fn start(&self, resources: &Resources, workers: usize, log: &ErrorLog) -> io::Result<()> {
        let drained = &resources.of::<ProxyPools>().drained_upstreams();
        let start = Start { resources, log, workers, drained };
        if let Some(exporter) = &self.exporter {
            let cannot = |error: io::Error| {
                io::Error::new(error.kind(), format!("start the thread that exports traces: {error}"))
            };
            exporter.start(log).map_err(cannot)?;
        }
        self.routes.router.handlers().try_for_each(|target| target.start(&start))
    }

    /// Notes the fields of the response that logs show.
    fn with_noted_fields(&self, reply: Reply, client: &Client<'_>) -> Reply {
        let names = &self.routes.observers.logged.response_fields;
        let observer = client.observer.get().filter(|_| !names.is_empty());
        let Some((observer, names)) = observer.cloned().zip(Some(names.clone())) else { return reply };
        reply.map(move |response| {
            exchange::note_response(&observer, &names, &response);
            response
        })
    }

    /// Whether each response has the id of its request.
    fn has_id_in_response(&self) -> bool {
        self.routes.observers.request_id.as_ref().is_some_and(|table| table.response)
    }

    /// Writes the metrics of the process. Takes milliseconds.
    pub(crate) fn metrics(&self, resources: &Resources, format: Format) -> String {
        let caches: Vec<_> = self.caches().collect();
        // Not those that finish their requests after a reload has removed their routes.
        let mut upstreams = self.upstreams(&resources.of());
        upstreams.retain(|upstream| !upstream.routes.is_empty());
        let sources = Sources {
            metrics: &resources.of(),
            buffers: &resources.of(),
            upstreams,
            cache_errors: disk_errors(&caches),
            limits: resources.of::<rudy_guard::Limits>().rejected(),
            exporters: &resources.of(),
        };
        render(&sources, format)
    }

    /// Returns the state of all upstreams; `pools` are those of the process.
    pub(crate) fn upstreams(&self, pools: &ProxyPools) -> Vec<UpstreamStatus> {
        pools.status(self.proxies())
    }

    /// Returns the proxies of all routes.
    fn proxies(&self) -> impl Iterator<Item = &Proxy> {
        self.routes.router.handlers().filter_map(|target| {
            let of_mirror = || target.handler_of::<Fetch>().map(Fetch::proxy);
            let of_connections = || target.handler_of::<TcpProxy>().map(TcpProxy::proxy);
            target.handler_of().or_else(of_mirror).or_else(of_connections)
        })
    }

    /// Returns the caches of all routes.
    pub(crate) fn caches(&self) -> impl Iterator<Item = &Cache> {
        self.routes.router.handlers().flat_map(Target::steps_of)
    }
}

impl Service for App {
    fn is_trusted_proxy(&self, peer: &Peer) -> bool {
        self.trusted_proxies.trusts(peer)
    }

    fn forwarded(&self, head: &RequestHead<'_>, peer: &Peer) -> Option<Forwarded> {
        self.trusted_proxies.forwarded(head, peer)
    }

    fn observe(&self, head: &RequestHead<'_>, client: &Client<'_>) -> Option<Arc<dyn Observer>> {
        self.activity.count(head, client);
        self.routes.observers.observe(head, client, || self.trusted_proxies.trusts(&client.peer))
    }

    fn accepts_tunnels(&self) -> bool {
        self.accepts_tunnels
    }

    fn tls_site(
        &self,
        hello: &ClientHello,
        listener: &Address,
        local: &LocalAddress<'_>,
    ) -> Option<TlsChoice> {
        let (name, router) = (hello.server_name.as_deref(), &self.routes.router);
        let of_challenge = || self.tls.acme().challenges.tls_site(name?);
        if let Some(site) = hello.is_challenge.then(of_challenge).flatten() {
            return Some(TlsChoice::Site(site));
        }
        let is_passed = |(site, _): (&Site<Target>, &Target)| site.tls.is_none();
        if self.takes_connections && router.connection_site(name, listener, local).is_some_and(is_passed) {
            return Some(TlsChoice::Pass);
        }
        let site = router.tls_site(name, listener, local).filter(|_| !hello.is_challenge)?;
        Some(TlsChoice::Site(site))
    }

    fn speaks_http(&self, listener: &Address) -> bool {
        let local = LocalAddress::known(None);
        let is_taken =
            || self.takes_connections && self.routes.router.connection_site(None, listener, &local).is_some();
        !listener.tls && !is_taken()
    }

    fn take_over(&self, client: &Client<'_>, server_name: Option<&str>) -> Option<Takeover> {
        if !self.takes_connections {
            return None;
        }
        let listener = client.listener.as_ref()?;
        let name = server_name.or_else(|| client.tls.as_ref()?.server_name.as_deref());
        let router = &self.routes.router;
        let (_, target) = router.connection_site(name, listener, &client.local_address)?;
        let info = RequestInfo::of_connection(name, &listener.endpoint.to_string());
        let observer = self.routes.observers.observe_connection(info, client, &target.name);
        let upgrade = target.handler.take_over(client, observer.clone())?;
        Some(Takeover { upgrade, observer })
    }

    fn call(&self, mut request: Request<'_>, client: &Client<'_>) -> Reply {
        // Any host: an authority may come through a proxy.
        if is_challenge_path(request.path())
            && let Some(response) = self.tls.acme().challenges.respond(&request)
        {
            return response.into();
        }
        let received = request.received();
        set_forwarded_host(&mut request, client);
        let id = exchange::request_id(client.observer.get());
        if let Some(id) = id {
            id.set_in_request(&mut request);
        }
        let grpc = grpc::media_type(&request);
        let mut reply = Context { received, ..Context::new(client, &self.routes) }.reply(request);
        if let Some(media_type) = grpc {
            reply = reply.map(|response| grpc::without_page(response, media_type));
        }
        if let Some(id) = id.filter(|_| self.has_id_in_response()).cloned() {
            reply = reply.map(|mut response| {
                id.set_in_response(response.headers_mut());
                response
            });
        }
        let reply = self.http3.add(reply, client);
        self.with_noted_fields(reply, client)
    }

    fn observe_waiting(
        &self,
        head: &Arc<RequestHead<'static>>,
        client: &Client<'_>,
    ) -> Option<Arc<dyn Observer>> {
        Context::new(client, &self.routes).observe_unobserved(head);
        client.observer.get().cloned()
    }

    fn respond_to_rejected(
        &self,
        rejection: Rejection,
        head: Option<&RequestHead<'_>>,
        client: &Client<'_>,
    ) -> Option<Response> {
        let mut request = head.map(|head| Request::new(LazyHead::new(head), RequestBody::empty()));
        if let Some(request) = &mut request {
            set_forwarded_host(request, client);
        }
        let grpc = request.as_ref().and_then(grpc::media_type);
        let mut response = Context::new(client, &self.routes).respond_to_rejected(request, rejection)?;
        if let Some(media_type) = grpc {
            response = grpc::without_page(response, media_type);
        }
        if let Some(observer) = client.observer.get() {
            exchange::note_response(observer, &self.routes.observers.logged.response_fields, &response);
        }
        Some(response)
    }

    fn limits(&self) -> &Arc<Limits> {
        &self.limits
    }

    fn handshake_failed(&self, peer: &Peer, reason: &str) {
        if let Some(log) = &self.error_log {
            let kind = format!("TLS handshake: {}", reason.split(':').next().unwrap_or_default());
            log.client(
                (&*kind, &*client_subject(*peer)),
                &format!("the TLS handshake of {peer} failed: {reason}"),
            );
        }
    }

    fn rejected(&self, client: &Client<'_>, reason: &str, outcome: &ExchangeOutcome) {
        for recorder in &self.routes.observers.recorders {
            recorder.rejected(client, reason, outcome);
        }
        if let Some(log) = &self.error_log {
            let status = outcome.status.as_ref().map_or("no response", StatusCode::as_str);
            let kind = (reason, &*client_subject(client.peer));
            log.client(kind, &format!("{} was rejected ({status}): {reason}", client.peer));
        }
    }
}
