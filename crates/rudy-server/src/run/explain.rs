//! `rudy check --explain`: which site, route and steps a request would meet.

use std::borrow::Cow;
use std::fmt::Write;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use http::{HeaderMap, Method, Request, Uri};
use rudy_config::OneOrMany;
use rudy_message::semantics::path::RequestPath;
use rudy_pipeline::internal_redirect::REDIRECTS_MAX;
use rudy_pipeline::request_state::HasRequestState;
use rudy_pipeline::routing::RouteMatch;
use rudy_pipeline::routing::template::Subject;
use rudy_pipeline::{
    Call, Context, Explained, HandlerConfig, Resources, Routes, Target, explain as explain_steps,
};
use rudy_service::{Client, Forwarded, Peer, RequestBody};

use super::exit::{Exit, Failure};
use super::print;
use crate::App;
use crate::config::HandlerTable;
use crate::config::{self, Config};

/// A request to explain.
#[derive(Debug, Clone)]
pub struct ExplainedRequest {
    /// The URL. A path alone is a URL of the first site.
    pub url: String,
    /// The address of the client. Without it, no access rule is decided.
    pub from: Option<IpAddr>,
    /// The method.
    pub method: Method,
    /// The header fields.
    pub fields: HeaderMap,
}

/// Prints what a request would meet.
#[must_use]
pub fn explain(path: &Path, request: &ExplainedRequest) -> Exit {
    let config = match Config::load(path) {
        Ok(config) => config,
        Err(diagnostics) => return Failure::Config(diagnostics).print(),
    };
    let app = match App::new(&config, &Resources::default()) {
        Ok(app) => app,
        Err(diagnostics) => return Failure::Config(diagnostics).print(),
    };
    let explanation = Explanation { config: &config, routes: app.routes(), request, text: String::new() };
    match explanation.of(&request.url) {
        Ok(text) => print(text.as_bytes()),
        Err(why) => Failure::Cannot(format!("explain this request: {why}")).print(),
    }
}

struct Explanation<'c> {
    config: &'c Config,
    routes: &'c Arc<Routes>,
    request: &'c ExplainedRequest,
    text: String,
}

impl<'c> Explanation<'c> {
    fn of(mut self, url: &str) -> Result<String, String> {
        let mut uri = self.url(url)?;
        let client = self.client(&uri);
        if let Some(listener) = client.listener.as_ref().filter(|_| self.config.has_separate_listeners()) {
            self.line("Listener", &listener.to_string());
        }
        for redirects in 0..=REDIRECTS_MAX {
            match self.step_to(&uri, redirects, &client)? {
                Some(next) => uri = next,
                None => return Ok(self.text),
            }
        }
        self.line("Stopped", "after ten internal redirects: the response is 500");
        Ok(self.text)
    }

    /// Completes a path with the host of the first site.
    fn url(&self, url: &str) -> Result<Uri, String> {
        let host = self
            .config
            .sites
            .iter()
            .flat_map(|site| &site.hosts)
            .map(ToString::to_string)
            .find(|host| !host.contains('*'));
        let whole = match url.strip_prefix('/') {
            Some(_) => format!("http://{}{url}", host.unwrap_or_else(|| "localhost".to_owned())),
            None if url.contains("://") => url.to_owned(),
            None => format!("http://{url}"),
        };
        let uri: Uri = whole.parse().map_err(|error| format!("\"{url}\" is not a URL: {error}"))?;
        if uri.host().is_none() {
            return Err(format!("\"{url}\" has no host: expected for example https://example.org/path"));
        }
        Ok(uri)
    }

    /// Returns a client of the listener that has the port of the URL. The URL may lead through a proxy, or be a path alone: then the
    /// listener is one that serves the host.
    fn client(&self, uri: &Uri) -> Client<'static> {
        let port = uri.port_u16().unwrap_or(if uri.scheme_str() == Some("https") { 443 } else { 80 });
        let host = uri.authority().map_or("", |authority| authority.as_str());
        let has_port = !self.request.url.starts_with('/');
        let address = self.request.from.map_or(Peer::Unnamed(None), |address| Peer::Ip((address, 0).into()));
        let forwarded = Some(Arc::new(Forwarded { address, scheme: uri.scheme().cloned(), host: None }));
        let any = Client { forwarded, ..Client::new(address, 1, 1) };
        let clients = self.config.addresses().into_iter().map(|address| {
            let has_other_port = has_port && address.endpoint.port() != Some(port);
            let client = Client { listener: Some(Cow::Owned(Arc::new(address))), ..any.clone() };
            (has_other_port, !self.routes.router.has_site(host, &client), client)
        });
        let best = clients.min_by_key(|(has_other_port, has_no_site, _)| (*has_other_port, *has_no_site));
        best.map_or(any, |(_, _, client)| client)
    }

    fn line(&mut self, name: &str, value: &str) {
        // Writing to a string does not fail.
        let _ = writeln!(self.text, "{name:9} {value}");
    }

    /// Explains one route. Returns the URL that it rewrites the request to.
    fn step_to(&mut self, uri: &Uri, redirects: u32, client: &Client<'_>) -> Result<Option<Uri>, String> {
        self.line("Request", &format!("{} {uri}", self.request.method));
        let path = match RequestPath::parse(uri.path()) {
            Ok(path) => path.into_owned(),
            Err(error) => {
                self.line("Response", &format!("400: {error}"));
                return Ok(None);
            }
        };
        self.line("Path", &path.encoded_from(0));
        let mut request = Request::builder().method(&self.request.method).uri(uri).body(RequestBody::empty());
        if let Ok(request) = &mut request {
            request.headers_mut().extend(self.request.fields.clone());
        }
        let mut request = rudy_service::Request::from(request.map_err(|error| error.to_string())?);
        request.state_mut().redirects = redirects;
        let found = match self.routes.router.find(&request, &path, client) {
            Ok(found) => found,
            Err(missing) => {
                if let Some(outer) = missing.outer {
                    self.passed_over(&outer, &path);
                    self.route(&outer);
                    self.steps(&outer);
                }
                self.line("Response", &missing.reason.to_string());
                return Ok(None);
            }
        };
        if self.are_connections(&found) {
            return Ok(None);
        }
        self.passed_over(&found, &path);
        let route = self.route(&found);
        if found.https_port.is_some() && uri.scheme_str() == Some("http") {
            self.line("Response", "a redirect to HTTPS. Over HTTPS, the request goes on:");
        }
        self.steps(&found);
        self.settings(&found, route);
        if self.is_responded(request.copy_head(), &path, &found) {
            return Ok(None);
        }
        let Some(table) = route.map(|route| &route.handler) else {
            self.line("Response", "a redirect by a line of `redirects`");
            return Ok(None);
        };
        self.line("Handler", &format!("{}: {}", table.key(), table.describe()));
        let HandlerTable::Rewrite(rewrite) = table else { return Ok(None) };
        self.text.push('\n');
        let subject = Subject {
            request: &request,
            path: &path,
            pattern: found.pattern,
            client,
            maps: &self.routes.maps,
            listeners: self.routes.router.listeners(),
        };
        rewrite.target(&subject).map(|(uri, _)| Some(uri))
    }

    /// Names the upstreams if connections for the host do not speak HTTP, and so have no route.
    fn are_connections(&mut self, found: &RouteMatch<'_, Target>) -> bool {
        let site = &self.config.sites[found.numbers().0];
        let Some(connections) = &site.connections else { return false };
        let place =
            self.config.sources.place(&site.location).map_or_else(String::new, |at| format!(" ({at})"));
        let upstreams = connections.proxy.proxy().describe();
        self.line("TCP", &format!("connections go to {upstreams}{place}, whatever their protocol is"));
        true
    }

    /// Shows what the steps make of a request of the client. Returns whether one of them responds.
    fn is_responded(
        &mut self,
        request: rudy_service::Request<'_>,
        path: &RequestPath<'_>,
        found: &RouteMatch<'_, Target>,
    ) -> bool {
        let Some(address) = self.request.from else { return false };
        let client = Client::new(Peer::Ip((address, 0).into()), 1, 1);
        let call = Call { path, route: found, context: Context::new(&client, self.routes) };
        let mut is_responded = false;
        for explained in explain_steps(request, &call) {
            match explained {
                Explained::Skipped(what) => self.line("Skipped", what),
                Explained::Allowed(why) => self.line("Allowed", &format!("by {why}")),
                Explained::Responded(status, why) => {
                    let why = why.map_or_else(String::new, |why| format!(": {why}"));
                    self.line("Response", &format!("{}{why}", status.as_str()));
                    is_responded = true;
                }
            }
        }
        is_responded
    }

    /// Names the routes for the path whose conditions the request does not meet.
    fn passed_over(&mut self, found: &RouteMatch<'_, Target>, path: &RequestPath<'_>) {
        let site = &self.config.sites[found.numbers().0];
        for number in found.passed_over(path) {
            let route = &site.routes[number];
            let conditions = route.when.iter().flat_map(OneOrMany::as_slice);
            let conditions = conditions.map(ToString::to_string).collect::<Vec<_>>().join("; or ");
            let place =
                self.config.sources.place(&route.location).map_or_else(String::new, |at| format!(" ({at})"));
            self.line("Not", &format!("route{place}, which is for: {conditions}"));
        }
    }

    /// Names the site and the route, and returns the route unless the server has added it.
    fn route(&mut self, found: &RouteMatch<'_, Target>) -> Option<&'c config::Route> {
        let (site, route) = found.numbers();
        let site = &self.config.sites[site];
        let place =
            |location| self.config.sources.place(location).map_or_else(String::new, |at| format!(" ({at})"));
        let hosts: Vec<_> = site.hosts.iter().map(ToString::to_string).collect();
        let name = if hosts.is_empty() { "the default site".to_owned() } else { hosts.join(", ") };
        let site_line = format!("{name}{}", place(&site.location));
        let route = route.map(|number| &site.routes[number]);
        let route_line = route.map(|route| format!("{}{}", found.pattern, place(&route.location)));
        self.line("Site", &site_line);
        self.line("Route", route_line.as_deref().unwrap_or("none"));
        route
    }

    /// Shows where the settings around the handler are written.
    fn settings(&mut self, found: &RouteMatch<'_, Target>, route: Option<&config::Route>) {
        let Some(route) = route else { return };
        let rows = self.config.origins(&self.config.sites[found.numbers().0], route);
        let width = rows.iter().map(|[name, _]| name.len()).max().unwrap_or(0);
        for (number, [name, places]) in rows.iter().enumerate() {
            self.line(if number == 0 { "Settings" } else { "" }, &format!("{name:width$}  {places}"));
        }
    }

    fn steps(&mut self, found: &RouteMatch<'_, Target>) {
        let steps: Vec<_> = found.handler.steps.iter().flat_map(|step| step.describe()).collect();
        for (number, step) in steps.iter().enumerate() {
            self.line(if number == 0 { "Steps" } else { "" }, step);
        }
    }
}
