//! A configuration that is ready to handle requests.

#[cfg(test)]
mod tests;

use std::io;
use std::sync::Arc;

use http::StatusCode;
use rudy_config::Diagnostics;
use rudy_http::h1::{LazyHead, Rejection, RequestHead};
use rudy_log::ErrorLog;
use rudy_net::listen::Address;
use rudy_net::{
    Client, ClientHello, ExchangeOutcome, Forwarded, Limits, LocalAddress, Observer, Peer, Reply, Request,
    RequestBody, Response, Service, TlsSite,
};

use crate::Resources;
use crate::access_log::AccessLogs;
use crate::buffer::Buffers;
use crate::cache::Cache;
use crate::client_address::{self, set_forwarded_host};
use crate::compile::compile;
use crate::config::Config;
use crate::dashboard::Live;
use crate::exchange::{self, Observers};
use crate::fastcgi::Apps;
use crate::grpc;
use crate::handlers::Start;
use crate::metrics::Format;
use crate::metrics::Metrics;
use crate::network::client_subject;
use crate::proxy::Proxy;
use crate::routes::{Context, Routes};
use crate::routing::Router;
use crate::status::Activity;
use crate::steps::Target;
use crate::topic::Topics;

/// The app of one configuration: routes, limits and logs. A reload replaces it for the next request; an exchange in progress keeps
/// the parts that it needs of the old one.
#[derive(Debug)]
pub struct App {
    routes: Arc<Routes>,
    /// Whether a handler accepts tunnels. Each HTTP/2 connection asks, and there may be thousands of handlers.
    accepts_tunnels: bool,
    limits: Arc<Limits>,
    /// Whether requests are counted by route.
    counts_requests: bool,
    error_log: Option<ErrorLog>,
    client_address: client_address::Options,
}

impl App {
    /// Builds the app: opens folders, reads fixed bodies, encodes fixed heads. The error has all problems. Folders that
    /// `resources` has open with the same options are shared.
    pub fn new(config: &Config, resources: &Resources) -> Result<Self, Diagnostics> {
        let router = compile(config, resources)
            .map_err(|problems| Diagnostics::new(config.sources.clone(), problems))?;
        Ok(Self::with_router(router, config, resources))
    }

    fn with_router(router: Router<Target>, config: &Config, resources: &Resources) -> Self {
        let accepts_tunnels = router.handlers().any(|target| target.handler.accepts_tunnels());
        let routes = Routes {
            router: Arc::new(router),
            metrics: Arc::default(),
            topics: Arc::default(),
            activity: Arc::default(),
            live: Arc::default(),
            buffers: Buffers::default(),
            tls: resources.tls.clone(),
            limits: resources.limits.clone(),
            observers: Arc::new(Observers { request_id: config.request_id.clone(), ..Observers::default() }),
        };
        Self {
            routes: Arc::new(routes),
            accepts_tunnels,
            limits: Arc::new(config.limits_in_effect()),
            counts_requests: config.counts_requests(),
            error_log: None,
            client_address: config.client_address.clone(),
        }
    }

    /// Returns the routes of all sites.
    pub(crate) fn routes(&self) -> &Arc<Routes> {
        &self.routes
    }

    /// Adds access logs.
    #[must_use]
    pub fn with_access_logs(mut self, logs: AccessLogs) -> Self {
        self.observers_mut().recorders.push(Arc::new(logs));
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

    /// Starts the background work of handlers: app processes that do not run yet in `apps`. From here on, handlers log errors to `log`.
    ///
    /// # Errors
    ///
    /// The user of a process does not exist or cannot be used, or the system lacks resources.
    pub fn start(&self, apps: &Apps, log: &ErrorLog) -> io::Result<()> {
        let start = Start { apps, log, drained: &apps.drained_upstreams() };
        self.routes.router.handlers().try_for_each(|target| target.start(&start))
    }

    /// Whether each response has the id of its request.
    fn has_id_in_response(&self) -> bool {
        self.routes.observers.request_id.as_ref().is_some_and(|table| table.response)
    }

    /// Returns the metrics of the process in the text format of Prometheus.
    pub(crate) fn metrics_text(&self) -> String {
        self.routes.metrics_text(Format::Prometheus)
    }

    /// Returns the proxies of all routes.
    pub(crate) fn proxies(&self) -> impl Iterator<Item = &Proxy> {
        self.routes.router.handlers().filter_map(|target| target.handler.proxy())
    }

    /// Returns the caches of all routes.
    pub(crate) fn caches(&self) -> impl Iterator<Item = &Cache> {
        let steps = self.routes.router.handlers().flat_map(|target| &target.steps);
        steps.filter_map(|step| step.cache())
    }

    /// Uses these counters, which outlive the configuration.
    #[must_use]
    pub fn with_metrics(mut self, metrics: Arc<Metrics>) -> Self {
        if self.counts_requests {
            metrics.keep_routes(self.routes.router.handlers().map(|target| &*target.name));
            self.observers_mut().recorders.push(metrics.clone());
        }
        Arc::make_mut(&mut self.routes).metrics = metrics;
        self
    }

    /// Uses these topics, which outlive the configuration.
    #[must_use]
    pub fn with_topics(mut self, topics: Arc<Topics>) -> Self {
        Arc::make_mut(&mut self.routes).topics = topics;
        self
    }

    /// Counts requests and lists the active ones here, and shows them to viewers of a dashboard. Both outlive the configuration.
    #[must_use]
    pub(crate) fn with_activity(mut self, activity: Arc<Activity>, live: Arc<Live>) -> Self {
        let routes = Arc::make_mut(&mut self.routes);
        (routes.activity, routes.live) = (activity, live);
        self
    }

    /// Uses these buffers, whose limits are shared by the process.
    #[must_use]
    pub fn with_buffers(mut self, buffers: Buffers) -> Self {
        Arc::make_mut(&mut self.routes).buffers = buffers;
        self
    }
}

impl Service for App {
    fn is_trusted_proxy(&self, peer: &Peer) -> bool {
        self.client_address.trusts(peer)
    }

    fn forwarded(&self, head: &RequestHead<'_>, peer: &Peer) -> Option<Forwarded> {
        self.client_address.forwarded(head, peer)
    }

    fn observe(&self, head: &RequestHead<'_>, client: &Client<'_>) -> Option<Arc<dyn Observer>> {
        self.routes.activity.count(head, client);
        self.routes.observers.observe(head, client, || self.client_address.trusts(&client.peer))
    }

    fn accepts_tunnels(&self) -> bool {
        self.accepts_tunnels
    }

    fn tls_site(
        &self,
        hello: &ClientHello,
        listener: &Address,
        local: &LocalAddress<'_>,
    ) -> Option<Arc<TlsSite>> {
        let name = hello.server_name.as_deref();
        if hello.is_challenge {
            return self.routes.tls.acme.challenges.tls_site(name?);
        }
        self.routes.router.tls_site(name, listener, local)
    }

    fn call(&self, mut request: Request<'_>, client: &Client<'_>) -> Reply {
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
        match id.filter(|_| self.has_id_in_response()).cloned() {
            Some(id) => reply.map(|mut response| {
                id.set_in_response(response.headers_mut());
                response
            }),
            None => reply,
        }
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
        let response = Context::new(client, &self.routes).respond_to_rejected(request, rejection)?;
        Some(match grpc {
            Some(media_type) => grpc::without_page(response, media_type),
            None => response,
        })
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
