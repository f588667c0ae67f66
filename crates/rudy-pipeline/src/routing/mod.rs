//! Finds the handler for a request: the site by host, then the route by path.

mod found;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use arc_swap::ArcSwap;
use rudy_message::semantics::path::{PathError, RequestPath};
use rudy_service::listen_address::Address;
use rudy_service::{Client, LocalAddress, Request};
use rudy_tls::{Tls, TlsSite};

use self::found::InSite;
pub use self::found::{RouteId, RouteMatch};
use crate::conditions::{Examined, Met, SiteConditions};
use crate::hosts::includes;
pub use crate::hosts::{HostPattern, Hosts, Listeners};
pub use crate::hosts::{explain_rejected, machine_name, own_hosts, with_name, without_port};
use crate::internal_redirect;
pub use crate::patterns::{MapTable, Maps, PathPattern, template};

/// The routes of all sites, with handlers of type `H`.
#[derive(Debug)]
pub struct Router<H> {
    listeners: Listeners,
    sites: Vec<Site<H>>,
}

/// The routes of a site, and its TLS settings.
#[derive(Debug)]
pub struct Site<H> {
    /// The routes in their order: the first that matches has the request.
    pub routes: Vec<Route<H>>,
    /// The route of responses that the server makes before it has found another one.
    pub outer: Route<H>,
    /// Redirects of single paths, before the routes, and their route.
    pub redirects: Option<(Arc<dyn ExactPaths>, Route<H>)>,
    /// The conditions on the routes.
    pub conditions: SiteConditions,
    /// `None` for a site without TLS.
    pub tls: Option<Arc<ArcSwap<TlsSite>>>,
    /// Whether an authority signs the certificates: some may be missing.
    pub is_auto: bool,
    /// Whether its only route takes connections, which do not speak HTTP.
    pub takes_connections: bool,
    /// The port of HTTPS, if requests over plain HTTP are redirected there.
    pub https_port: Option<u16>,
}

/// A set of paths, such as those that a file of redirects names.
pub trait ExactPaths: fmt::Debug + Send + Sync {
    /// Whether a path is one of them.
    fn contains(&self, path: &RequestPath<'_>) -> bool;
}

/// Paths and their handler.
#[derive(Debug)]
pub struct Route<H> {
    /// The paths.
    pub paths: Vec<PathPattern>,
    /// The suffix of the scripts that the handler runs, each of which also has the paths below its own.
    pub script_suffix: Option<String>,
    /// The number of the conditions of the site that requests have to meet besides.
    pub condition: Option<u8>,
    /// Whether only internal redirects lead here. For a request of a client, there is nothing at the path, whatever later routes have.
    pub is_internal: bool,
    /// What responds to their requests.
    pub handler: H,
}

/// The most scripts that the path of a request may name, such as two in `/a.php/b.php/c`. The title of a wiki page may end with
/// `.php`; more are a burden, because each needs a search of its own.
const SCRIPTS_MAX: usize = 8;

/// The routes that are tried for a request.
#[derive(Debug, Clone, Copy)]
struct Tried {
    /// The number of the first one.
    from: usize,
    /// The conditions that the request meets.
    met: Met,
}

impl From<Met> for Tried {
    /// All routes.
    fn from(met: Met) -> Self {
        Self { from: 0, met }
    }
}

impl<H> Route<H> {
    /// A route for all paths, without conditions.
    #[must_use]
    pub fn everything(handler: H) -> Self {
        Self {
            paths: vec![PathPattern::everything()],
            script_suffix: None,
            condition: None,
            is_internal: false,
            handler,
        }
    }

    fn matching_pattern(&self, path: &[u8]) -> Option<usize> {
        self.paths.iter().position(|pattern| pattern.matches(path))
    }

    fn is_for(&self, met: Met) -> bool {
        self.condition.is_none_or(|number| met.contains(number))
    }

    fn matches(&self, path: &[u8]) -> bool {
        self.matching_pattern(path).is_some()
    }
}

/// A request without a route.
#[derive(Debug)]
pub struct Missing<'r, H> {
    /// Why there is no route.
    pub reason: NotFound,
    /// The route for responses of the server itself, if there is a site for them.
    pub outer: Option<RouteMatch<'r, H>>,
}

/// Why a request has no route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotFound {
    /// No site has this host.
    Host,
    /// Flags do not allow this host.
    RejectedHost,
    /// The handshake of the connection was not with the site of this host, or with a certificate for it.
    OtherSite,
    /// The request is early data, which the site does not accept, or not with this method.
    TooEarly,
    /// The site requires client certificates, and the connection is not encrypted.
    NeedsCertificate,
    /// The site has no route for this path.
    Path,
    /// Only internal redirects lead to the route.
    Internal,
    /// The path can be read in two ways that lead to different routes, or one of them to none.
    Ambiguous(PathError),
}

impl fmt::Display for NotFound {
    /// The status of the response, and why.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host => f.write_str("421: no site has this host"),
            Self::RejectedHost => f.write_str("421: the flags do not allow this host"),
            Self::OtherSite => f.write_str("421: the connection belongs to another site"),
            Self::TooEarly => f.write_str("425: the request is early data"),
            Self::NeedsCertificate => f.write_str("421: the site requires client certificates"),
            Self::Path => f.write_str("404: no route has this path"),
            Self::Internal => f.write_str("404: only internal redirects lead to the route for this path"),
            Self::Ambiguous(error) => write!(f, "400: {error}"),
        }
    }
}

impl<H> Site<H> {
    fn route(&self, place: InSite) -> &Route<H> {
        match (place, &self.redirects) {
            (InSite::Listed(number), _) => &self.routes[number],
            (InSite::Redirects, Some((_, route))) => route,
            (InSite::Redirects, None) | (InSite::Outer, _) => &self.outer,
        }
    }

    fn route_match(&self, id: RouteId) -> RouteMatch<'_, H> {
        let route = self.route(id.route);
        RouteMatch {
            id,
            pattern: &route.paths[id.pattern],
            handler: &route.handler,
            https_port: self.https_port,
            awaits_certificate: false,
            needs_certificate: false,
            site: self,
        }
    }

    /// Returns the place of the route of a path, and the number of its pattern that matches.
    ///
    /// Many applications decode an encoded slash: for them, `/admin%2Fx` is `/admin/x`. A path with an encoded slash must lead to
    /// the same route in both readings, so that it can neither bypass the route `/admin/*` nor leave its own route. A pattern that
    /// contains the encoded slash itself is an exception.
    fn find(&self, path: &RequestPath<'_>, tried: Tried) -> Result<(InSite, usize), NotFound> {
        if self.redirects.as_ref().is_some_and(|(map, _)| map.contains(path)) {
            return Ok((InSite::Redirects, 0));
        }
        let (number, pattern) = self.governing(path.as_bytes(), tried, SCRIPTS_MAX)?;
        if let Some(decoded) = path.with_slashes_decoded().transpose()
            && !self.routes[number].paths[pattern].has_encoded_slash()
        {
            let decoded = decoded.map_err(NotFound::Ambiguous)?;
            if !self.governing(decoded.as_bytes(), tried, SCRIPTS_MAX).is_ok_and(|(other, _)| other == number)
            {
                return Err(NotFound::Ambiguous(PathError::EncodedSlash));
            }
        }
        Ok((InSite::Listed(number), pattern))
    }

    /// Returns the numbers of the first route that matches the path and whose conditions are met, and of the pattern that matches.
    fn first(&self, path: &[u8], tried: Tried) -> Option<(usize, usize)> {
        let routes = self.routes.iter().enumerate().skip(tried.from);
        let mut routes = routes.filter(|(_, route)| route.is_for(tried.met));
        routes.find_map(|(number, route)| Some((number, route.matching_pattern(path)?)))
    }

    /// Returns the first route that matches the path, unless the path is a script with path info: `/x.php/info` runs `/x.php`, and
    /// must not pass by a rule for it. Then, of the routes of the path and of the script,
    ///
    /// - that of the path is used if it is an exception: the other one also matches the path, or its pattern names the script;
    /// - that of the script is used if the script is an exception: the other one also matches the script;
    /// - none is used otherwise, because neither rule includes the other.
    ///
    /// Whether the script exists is not checked: the route would depend on the file system. So the rule also applies to a folder
    /// with the name of a script.
    fn governing(&self, path: &[u8], tried: Tried, scripts_max: usize) -> Result<(usize, usize), NotFound> {
        let found = self.first(path, tried).ok_or(NotFound::Path)?;
        let route = &self.routes[found.0];
        let pattern = &route.paths[found.1];
        let script =
            route.script_suffix.as_ref().and_then(|suffix| last_script(path, pattern.mount(), suffix));
        let Some(script) = script.filter(|script| !pattern.names_path_info_of(script)) else {
            return Ok(found);
        };
        let left = scripts_max.checked_sub(1).ok_or(NotFound::Path)?;
        let of_script = self.governing(script, tried, left)?;
        if of_script.0 == found.0 || self.routes[of_script.0].matches(path) {
            Ok(found)
        } else if route.matches(script) {
            Ok(of_script)
        } else {
            Err(NotFound::Path)
        }
    }

    fn has_early_data(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.load().has_early_data)
    }

    fn requires_certificates(&self) -> bool {
        let usage = self.tls.as_ref().and_then(|tls| tls.load().client_certificates);
        usage.is_some_and(|usage| usage.is_required)
    }

    fn has_certificate_for(&self, host: &[u8]) -> bool {
        let name = String::from_utf8_lossy(without_port(host)).to_ascii_lowercase();
        self.tls.as_ref().is_some_and(|tls| tls.load().has_certificate_for(name.trim_matches(['[', ']'])))
    }

    /// Whether a request for this host may use a connection. The client must have been accepted by the same policy. A client that
    /// sent a server name must have received a certificate that is valid for the host (RFC 9110 §7.4); one that sent none has accepted
    /// the certificate for other reasons.
    fn may_use(&self, tls: &Tls, host: &[u8]) -> bool {
        let Some(own) = &self.tls else { return false };
        own.load().policy == tls.policy
            && tls.server_name.as_deref().is_none_or(|name| {
                name.as_bytes().eq_ignore_ascii_case(without_port(host)) || includes(&tls.names, host)
            })
    }
}

/// Returns the longest start of a path that is the path of a script, and is followed by a slash. What a route's folder contains is
/// not searched.
fn last_script<'p>(path: &'p [u8], mount: usize, suffix: &str) -> Option<&'p [u8]> {
    let ends = (mount + 1..path.len()).rev().filter(|end| path[*end] == b'/');
    ends.map(|end| &path[..end]).find(|script| script[mount..].ends_with(suffix.as_bytes()))
}

impl<H> Router<H> {
    /// Returns the TLS settings of a listener for a server name, or for a client that sent none and has connected to `local`. A name without
    /// a site of its own gets the default site if its certificate is valid for the name.
    #[must_use]
    pub fn tls_site(
        &self,
        server_name: Option<&str>,
        listener: &Address,
        local: &LocalAddress<'_>,
    ) -> Option<Arc<TlsSite>> {
        let hosts = self.listeners.hosts_at(Some(listener))?;
        let Some(name) = server_name else {
            return Some(self.sites.get(Self::unnamed_site(hosts, local)?)?.tls.as_ref()?.load_full());
        };
        let (number, is_default) = hosts.find_or_default(name)?;
        let site = self.sites.get(number)?;
        let tls = site.tls.as_ref()?.load_full();
        (!(is_default || site.is_auto) || tls.has_certificate_for(name)).then_some(tls)
    }

    /// Returns the site of a listener for connections that do not speak HTTP, and its handler: by the server name, or for a client that
    /// sent none and has connected to `local`.
    #[must_use]
    pub fn connection_site(
        &self,
        server_name: Option<&str>,
        listener: &Address,
        local: &LocalAddress<'_>,
    ) -> Option<(&Site<H>, &H)> {
        let hosts = self.listeners.hosts_at(Some(listener))?;
        let number = match server_name {
            Some(name) => hosts.find_or_default(name)?.0,
            None => Self::unnamed_site(hosts, local)?,
        };
        let site = self.sites.get(number).filter(|site| site.takes_connections)?;
        Some((site, &site.routes.first()?.handler))
    }

    /// The routes of these sites, which the listeners find by number.
    #[must_use]
    pub fn new(listeners: Listeners, sites: Vec<Site<H>>) -> Self {
        Self { listeners, sites }
    }

    /// Returns a route that was found in this router.
    #[must_use]
    pub fn at(&self, id: RouteId) -> RouteMatch<'_, H> {
        self.sites[id.site].route_match(id)
    }

    /// Returns the hosts of each listener.
    #[must_use]
    pub fn listeners(&self) -> &Listeners {
        &self.listeners
    }

    /// Iterates over the handlers of all sites.
    pub fn handlers(&self) -> impl Iterator<Item = &H> {
        self.sites.iter().flat_map(|site| site.routes.iter().chain([&site.outer])).map(|route| &route.handler)
    }

    /// Returns the hosts that the listener of a client serves.
    fn hosts(&self, client: &Client<'_>) -> Option<&Hosts> {
        self.listeners.hosts_at(client.listener.as_ref().map(|address| &***address))
    }

    /// Returns the number of the site of a host, even if a connection must not be used for it.
    fn site<'h>(&self, host: &impl Fn() -> &'h [u8], client: &Client<'_>) -> Result<usize, NotFound> {
        let hosts = self.hosts(client).ok_or(NotFound::Host)?;
        let not_found = if hosts.is_by_flags() { NotFound::RejectedHost } else { NotFound::Host };
        hosts.find(host).filter(|site| *site < self.sites.len()).ok_or(not_found)
    }

    /// Whether the listener of a client serves a host.
    pub fn has_site(&self, host: &str, client: &Client<'_>) -> bool {
        self.site(&|| host.as_bytes(), client).is_ok()
    }

    /// Returns the number of the site for clients that name none: that of the address to which they have connected, because an address is never sent
    /// as a server name (RFC 6066 §3), or the default site, or the only one.
    fn unnamed_site(hosts: &Hosts, local: &LocalAddress<'_>) -> Option<usize> {
        let of_address = || hosts.at_address(local.get()?.ip());
        of_address().or_else(|| hosts.find(|| b"")).or_else(|| hosts.only())
    }

    fn outer_of(&self, site: usize) -> Option<RouteMatch<'_, H>> {
        Some(self.sites.get(site)?.route_match(RouteId {
            site,
            route: InSite::Outer,
            pattern: 0,
            met: Met::default(),
        }))
    }

    /// Returns the route of the host's site for responses of the server itself.
    pub fn outer<'h>(&self, host: impl Fn() -> &'h [u8], client: &Client<'_>) -> Option<RouteMatch<'_, H>> {
        let site = self.site(&host, client);
        site.map_or_else(|_| self.outer_of_connection(client), |site| self.outer_of(site))
    }

    /// Returns the route for responses to requests whose host is unknown, or has no site: that of the site to which the connection was
    /// made, as far as that is known.
    pub fn outer_of_connection(&self, client: &Client<'_>) -> Option<RouteMatch<'_, H>> {
        let hosts = self.hosts(client)?;
        let name = client.tls.as_ref().and_then(|tls| tls.server_name.as_deref());
        let named = name.and_then(|name| Some(hosts.find_or_default(name)?.0));
        named
            .or_else(|| Self::unnamed_site(hosts, &client.local_address))
            .and_then(|site| self.outer_of(site))
    }

    /// Returns the first route of the host's site that matches the path, and whose conditions the request meets. Only sites that the
    /// listener of the client serves are found.
    pub fn find(
        &self,
        request: &Request<'_>,
        path: &RequestPath<'_>,
        client: &Client<'_>,
    ) -> Result<RouteMatch<'_, H>, Missing<'_, H>> {
        let host = || request.host();
        let number = match self.site(&host, client) {
            Ok(number) => number,
            Err(reason) => return Err(Missing { reason, outer: self.outer_of_connection(client) }),
        };
        let (site, missing) =
            (&self.sites[number], |reason| Missing { reason, outer: self.outer_of(number) });
        let tls = client.tls.as_deref();
        if tls.is_some_and(|tls| !site.may_use(tls, host())) {
            return Err(missing(NotFound::OtherSite));
        }
        if tls.is_some_and(|tls| tls.is_early) && !site.has_early_data() {
            return Err(missing(NotFound::TooEarly));
        }
        let met = if site.conditions.is_empty() {
            Met::default()
        } else {
            site.conditions.of(&Examined { request, path, client, listeners: &self.listeners })
        };
        Ok(RouteMatch {
            awaits_certificate: tls.is_none() && site.is_auto && !site.has_certificate_for(host()),
            needs_certificate: tls.is_none() && site.requires_certificates(),
            ..self.find_in(number, path, met.into(), internal_redirect::is_redirected(request))?
        })
    }

    /// Returns the next route after another one of its site that matches the path, and whose conditions the request meets. `is_redirected` is
    /// whether an internal redirect led to that one.
    pub fn next(
        &self,
        from: RouteId,
        path: &RequestPath<'_>,
        is_redirected: bool,
    ) -> Result<RouteMatch<'_, H>, Missing<'_, H>> {
        let after = if let InSite::Listed(number) = from.route { number + 1 } else { usize::MAX };
        self.find_in(from.site, path, Tried { from: after, met: from.met }, is_redirected)
    }

    fn find_in(
        &self,
        number: usize,
        path: &RequestPath<'_>,
        tried: Tried,
        is_redirected: bool,
    ) -> Result<RouteMatch<'_, H>, Missing<'_, H>> {
        let (site, met) = (&self.sites[number], tried.met);
        let found = site.find(path, tried).and_then(|(route, pattern)| {
            let is_hidden = site.route(route).is_internal && !is_redirected;
            if is_hidden { Err(NotFound::Internal) } else { Ok((route, pattern)) }
        });
        let (route, pattern) = found.map_err(|reason| {
            let outer = RouteId { site: number, route: InSite::Outer, pattern: 0, met };
            Missing { reason, outer: Some(site.route_match(outer)) }
        })?;
        Ok(site.route_match(RouteId { site: number, route, pattern, met }))
    }
}
