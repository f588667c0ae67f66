//! Finds the route of a request, and responds to requests that have none.

use std::sync::Arc;

use http::uri::Scheme;
use http::{HeaderMap, Method, StatusCode, Uri, header};
use http_body::Body as _;
use rudy_message::semantics::path::{PathError, RequestPath};
use rudy_message::{LazyHead, Rejection, RequestHead};
use rudy_service::{Client, Observer, Reply, Request, RequestBody, Response, poll_time};
use rudy_system::file_access::Access;

use super::handler::Call;
use super::passage::{self, Next};
use super::step::Target;
use crate::client_address::set_forwarded_host;
use crate::exchange::{Observers, RouteName, logs_requests, note};
use crate::https_redirect;
use crate::internal_redirect;
use crate::methods::{method_not_allowed, reject_unknown_method, respond_unless_read};
use crate::pages;
use crate::request_state::HasRequestState;
use crate::routing::{
    Hosts, Listeners, Maps, Missing, NotFound, RouteId, RouteMatch, Router, explain_rejected,
};

/// The routes of a configuration. Clones share everything.
#[derive(Debug, Clone)]
pub struct Routes {
    /// Finds the route of a request.
    pub router: Arc<Router<Target>>,
    /// What has records of exchanges.
    pub observers: Arc<Observers>,
    /// What placeholders stand for.
    pub maps: Maps,
}

impl Routes {
    /// No routes, for the tests of handlers.
    #[must_use]
    pub fn none() -> Self {
        let router = Router::new(Listeners::Alike(Hosts::default()), Vec::new());
        Self { router: Arc::new(router), observers: Arc::default(), maps: Maps::default() }
    }
}

/// The context of a request: its client, and the routes of the configuration.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// Who has sent the request.
    pub client: &'a Client<'a>,
    /// The routes of the configuration.
    pub routes: &'a Arc<Routes>,
    /// Whether handlers can wait for the file system.
    pub access: Access,
    /// The head as it was received, until something has waited.
    pub received: Option<&'a RequestHead<'a>>,
}

impl<'a> Context<'a> {
    /// The context of a request on a worker, whose head is not borrowed.
    pub fn new(client: &'a Client<'a>, routes: &'a Arc<Routes>) -> Self {
        Self { client, routes, access: Access::Cached, received: None }
    }

    /// Makes sure that the exchange is among the active requests while it waits: that it has a record with a copy of the head, unless it
    /// gets one for a report.
    pub fn observe_waiting(&self, route: &RouteMatch<'_, Target>) {
        let Self { client, routes, received: Some(head), .. } = self else { return };
        let is_needed = routes.observers.lists_active() && client.head.get().is_none();
        if is_needed && routes.observers.observe_waiting(head, None, client) {
            note_route(client.observer.get(), route);
        }
    }

    /// Returns a request with a copy of what it borrows, for what waits. With the copy, it gets a record only for a report, with the route of
    /// the received head, unless it has one for other reasons. A request that was redirected, and one whose steps are logged, has a record
    /// with its own route.
    pub fn detach(&self, request: Request<'_>, route: &RouteMatch<'_, Target>) -> Request<'static> {
        let Self { client, routes, received, .. } = self;
        let has_record =
            client.observer.get().is_some() || internal_redirect::is_redirected(&request) || logs_requests();
        let request = request.sharing(&client.head);
        if let (true, Some(head)) = (has_record && routes.observers.lists_active(), received)
            && routes.observers.observe_waiting(head, request.shared(), client)
        {
            note_route(client.observer.get(), route);
        }
        request
    }

    /// Makes the record of an exchange that waits with this head, for a report.
    pub fn observe_unobserved(&self, head: &Arc<RequestHead<'static>>) {
        let Self { client, routes, .. } = self;
        if !routes.observers.lists_active() {
            return;
        }
        routes.observers.observe_waiting(head, Some(head), client);
        let mut request = Request::new(LazyHead::new(head), RequestBody::empty());
        set_forwarded_host(&mut request, client);
        let path = path_or_root(&request);
        if let Ok(route) = routes.router.find(&request, &path, client) {
            note_route(client.observer.get(), &route);
        }
    }

    /// Makes sure that a request with a body is among the active requests.
    fn observe_body(&self, request: &Request<'_>, route: &RouteMatch<'_, Target>) {
        let is_observed = self.client.observer.get().is_some();
        if !request.body().is_end_stream() && !is_observed {
            self.observe_waiting(route);
            self.client.observer.get().into_iter().for_each(|observer| request.body().set_observer(observer));
        }
    }

    /// Responds to a request of a client, or to a local redirect of an app.
    pub fn reply(self, request: Request<'_>) -> Reply {
        // RFC 9110 §9.3.7: `OPTIONS *` is about the whole server.
        if request.path() == b"*" && request.method() == Method::OPTIONS {
            return respond_unless_read(&request)
                .unwrap_or_else(|| Response::new(StatusCode::NO_CONTENT))
                .into();
        }
        // RFC 9110 §7.4: a request for an https URL over an unencrypted connection MUST be rejected.
        if request.is_absolute()
            && request.uri().scheme() == Some(&Scheme::HTTPS)
            && self.client.scheme() != Scheme::HTTPS
        {
            let explanation = "This connection does not use TLS, so it cannot serve an https URL.";
            let response = pages::error(StatusCode::MISDIRECTED_REQUEST, request.headers(), explanation);
            let outer = self.routes.router.outer(|| request.host(), self.client);
            let path = path_or_root(&request);
            return self.respond(request, &path, response, outer);
        }
        self.route(request, None)
    }

    /// Responds to a request that the connection has rejected. It is `None` if its head is malformed or incomplete. No handler is
    /// called, so an error page that is a path of the site is not used.
    pub fn respond_to_rejected(self, request: Option<Request<'_>>, rejection: Rejection) -> Option<Response> {
        let router = &self.routes.router;
        let outer = match &request {
            Some(request) => router.outer(|| request.host(), self.client),
            None => router.outer_of_connection(self.client),
        };
        let mut request = request.unwrap_or_default();
        let status = rejection.status();
        // As if the request were one for a page: then no other request is made for its page.
        request.state_mut().error_page_for = Some(status);
        let explanation = format!("Request rejected: {rejection}.");
        let mut response = pages::error(status, request.headers(), &explanation);
        if let Some(allow) = rejection.fields().remove(header::ALLOW) {
            response.headers_mut().insert(header::ALLOW, allow);
        }
        let path = path_or_root(&request);
        match self.respond(request, &path, response, outer) {
            Reply::Now(response) => Some(response),
            // No step waits before it has called a handler.
            Reply::Later(_) => None,
        }
    }

    /// Redirects a request internally to another path of the site.
    pub fn redirect(self, request: Request<'_>, path: RequestPath<'static>) -> Reply {
        let fields = request.headers().clone();
        let Some(next) = internal_redirect::same_request(request) else {
            return too_many_redirects(&fields);
        };
        self.route(next, Some(path))
    }

    /// Passes a request on from its route to the next one of the site that matches the path.
    pub(super) fn to_next_route(self, request: Request<'_>, path: &RequestPath<'_>, from: RouteId) -> Reply {
        let found = self.routes.router.next(from, path, internal_redirect::is_redirected(&request));
        let fields = request.headers().clone();
        let Some(request) = internal_redirect::same_request(request) else {
            return too_many_redirects(&fields);
        };
        let reply = match found {
            Ok(found) => self.enter(request, path, &found),
            Err(missing) => self.reject(request, path, missing),
        };
        reply.map(internal_redirect::mark)
    }

    /// Responds to a failed request with an error page at another path of the site.
    pub fn page_of(self, failed: Response, request: Request<'_>, path: RequestPath<'static>) -> Reply {
        match internal_redirect::for_page(request, failed.status()) {
            Some(next) => internal_redirect::with_page(failed, self.route(next, Some(path))),
            // The error page itself has an error page: a loop.
            None => failed.into(),
        }
    }

    /// Responds to a failed request as another path of the site does, with its status.
    pub fn instead_of(
        self,
        failed: Response,
        request: Request<'_>,
        (uri, path): (Uri, RequestPath<'static>),
    ) -> Reply {
        match internal_redirect::for_page(request, failed.status()) {
            Some(mut next) => {
                internal_redirect::rewrite(&mut next, uri);
                self.route(next, Some(path))
            }
            None => failed.into(),
        }
    }

    /// Responds to the request for its path, or for `instead` after an internal redirect. Routes, steps and handlers use the same
    /// path.
    fn route(self, request: Request<'_>, instead: Option<RequestPath<'static>>) -> Reply {
        let is_redirected = internal_redirect::is_redirected(&request);
        // The path of a received head may be borrowed while the request is passed on.
        let known = instead.or_else(|| request.received_path().and_then(RequestPath::canonical));
        let parse = || RequestPath::parse(request.path()).map(RequestPath::into_owned);
        let reply = match known.map_or_else(parse, Ok) {
            Ok(path) => self.pass_on(request, &path),
            Err(error) => {
                let outer = self.routes.router.outer(|| request.host(), self.client);
                let response = reject_path(&request, error);
                self.respond(request, &RequestPath::from_decoded("/".to_owned()), response, outer)
            }
        };
        if is_redirected { reply.map(internal_redirect::mark) } else { reply }
    }

    fn pass_on(self, request: Request<'_>, path: &RequestPath<'_>) -> Reply {
        match self.routes.router.find(&request, path, self.client) {
            Ok(found) => self.enter(request, path, &found),
            Err(missing) => self.reject(request, path, missing),
        }
    }

    /// Passes a request through the steps of its route.
    fn enter(self, request: Request<'_>, path: &RequestPath<'_>, found: &RouteMatch<'_, Target>) -> Reply {
        note_route(self.client.observer.get(), found);
        let RouteName { site, path: route, .. } = &*found.handler.name;
        let (method, client) = (request.method(), self.client.address());
        tracing::debug!(target: "route", site, route, "{method} {} from {client}", path.encoded_from(0));
        self.observe_body(&request, found);
        let reply = match self.refuse(&request, path, found) {
            Some(response) => self.respond(request, path, response, Some(found.outer())),
            None => Next(0).call(request, Call { path, route: found, context: self }),
        };
        if !matches!(&reply, Reply::Now(response) if !response.takes_time()) {
            self.observe_waiting(found);
        }
        reply
    }

    fn reject(self, request: Request<'_>, path: &RequestPath<'_>, missing: Missing<'_, Target>) -> Reply {
        let response = not_found(&request, missing.reason);
        if let Some(outer) = &missing.outer {
            note_route(self.client.observer.get(), outer);
        }
        self.respond(request, path, response, missing.outer)
    }

    /// Responds with a response of the server itself, and the steps of a site around it.
    fn respond(
        self,
        request: Request<'_>,
        path: &RequestPath<'_>,
        response: Response,
        outer: Option<RouteMatch<'_, Target>>,
    ) -> Reply {
        match outer {
            Some(route) => passage::respond(request, response, Call { path, route: &route, context: self }),
            None => response.into(),
        }
    }

    /// Returns the response to a request that must not reach its route like this.
    fn refuse(
        &self,
        request: &Request<'_>,
        path: &RequestPath<'_>,
        found: &RouteMatch<'_, Target>,
    ) -> Option<Response> {
        // An internal redirect continues a request that may stay, or finds the page of its error.
        let is_first = !internal_redirect::is_redirected(request);
        if let Some(port) = found.https_port.filter(|_| is_first && self.client.scheme() == Scheme::HTTP)
            && let Some(redirect) = https_redirect::redirect(request, path, port, found.awaits_certificate)
        {
            return Some(redirect);
        }
        // RFC 8470 §4: a third party may have recorded the request and sent it again.
        if self.client.tls.as_ref().is_some_and(|tls| tls.is_early) && !request.method().is_safe() {
            return Some(not_found(request, NotFound::TooEarly));
        }
        if found.needs_certificate {
            return Some(not_found(request, NotFound::NeedsCertificate));
        }
        // A response to TRACE repeats the request, including credentials that proxies add (RFC 9110 §9.3.8).
        let Target { handler, allow_trace, .. } = found.handler;
        let explanation = match *request.method() {
            Method::TRACE if !allow_trace => "Method not allowed. TRACE is disabled.",
            // A 2xx would tell the client that a tunnel is open (RFC 8441 §4).
            Method::CONNECT if !handler.accepts_tunnels() => "Method not allowed. There is no tunnel here.",
            _ => return None,
        };
        Some(method_not_allowed(request, handler.methods(), explanation))
    }
}

fn too_many_redirects(fields: &HeaderMap) -> Reply {
    let explanation = "Too many internal redirects.";
    pages::error(StatusCode::INTERNAL_SERVER_ERROR, fields, explanation).into()
}

fn note_route(observer: Option<&Arc<dyn Observer>>, found: &RouteMatch<'_, Target>) {
    note(observer, |notes| notes.reached(&found.handler.name, poll_time()));
}

/// Returns the path of a request without a route, for its header fields: the root if the path is invalid.
fn path_or_root(request: &Request<'_>) -> RequestPath<'static> {
    let path = Some(request.path()).filter(|path| path.starts_with(b"/")).unwrap_or(b"/");
    RequestPath::parse(path)
        .map_or_else(|_| RequestPath::from_decoded("/".to_owned()), RequestPath::into_owned)
}

fn reject_path(request: &Request<'_>, error: PathError) -> Response {
    // An unknown method gets 501 for every path.
    reject_unknown_method(request).unwrap_or_else(|| {
        pages::error(StatusCode::BAD_REQUEST, request.headers(), &format!("Bad request: {error}."))
    })
}

fn not_found(request: &Request<'_>, reason: NotFound) -> Response {
    let page = |status, explanation: &str| pages::error(status, request.headers(), explanation);
    let misdirected = |explanation: &str| page(StatusCode::MISDIRECTED_REQUEST, explanation);
    let not_found = || match reason {
        // RFC 9110 §7.4: a request for an unknown host is misdirected.
        NotFound::Host => misdirected("No site is configured for this host."),
        NotFound::OtherSite => misdirected(
            "This connection was made to another host, so it cannot serve this one. Use a new connection.",
        ),
        NotFound::TooEarly => page(
            StatusCode::TOO_EARLY,
            "This request must not be sent as early data. Send it again after the handshake.",
        ),
        NotFound::NeedsCertificate => {
            misdirected("This site requires a client certificate, so it is served over HTTPS only.")
        }
        NotFound::RejectedHost => misdirected(&explain_rejected(request.host())),
        NotFound::Path | NotFound::Internal => {
            page(StatusCode::NOT_FOUND, "The requested URL was not found on this server.")
        }
        NotFound::Ambiguous(error) => page(StatusCode::BAD_REQUEST, &format!("Bad request: {error}.")),
    };
    // An unknown method gets 501 for every path, but an app may know it.
    let unknown = (reason != NotFound::TooEarly).then(|| reject_unknown_method(request)).flatten();
    unknown.unwrap_or_else(not_found)
}
