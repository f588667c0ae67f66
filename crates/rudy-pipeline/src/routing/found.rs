//! A route that was found for a request.

use http::HeaderName;
use rudy_message::semantics::path::{PathBelow, PathError, RequestPath};

use super::{Route, SCRIPTS_MAX, Site, last_script};
use crate::conditions::Met;
use crate::patterns::PathPattern;

/// The place of a route and of its pattern in a router. What waits keeps it: a request must not get another route by what a step has
/// changed, such as its host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RouteId {
    pub(super) site: usize,
    pub(super) route: InSite,
    pub(super) pattern: usize,
    /// The conditions of the site that the request meets.
    pub(super) met: Met,
}

/// The place of a route in its site.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum InSite {
    Listed(usize),
    Redirects,
    Outer,
}

/// The route that matches a request, and the pattern that matched.
#[derive(Debug)]
pub struct RouteMatch<'r, H> {
    /// Where the route is.
    pub id: RouteId,
    /// The pattern that matches the path.
    pub pattern: &'r PathPattern,
    /// What responds to the request.
    pub handler: &'r H,
    /// The port of HTTPS, if requests over plain HTTP are redirected there.
    pub https_port: Option<u16>,
    /// Whether there is no certificate for the host yet, so that HTTPS fails.
    pub awaits_certificate: bool,
    /// Whether the site requires client certificates, which plain HTTP has none of.
    pub needs_certificate: bool,
    pub(super) site: &'r Site<H>,
}

impl<'r, H> RouteMatch<'r, H> {
    /// Returns the numbers of the site and of the route in it, which is `None` for those that the server adds.
    #[must_use]
    pub fn numbers(&self) -> (usize, Option<usize>) {
        let route = if let InSite::Listed(number) = self.id.route { Some(number) } else { None };
        (self.id.site, route)
    }

    /// Returns the route of the site for responses of the server itself.
    #[must_use]
    pub fn outer(&self) -> RouteMatch<'r, H> {
        self.site.route_match(RouteId { route: InSite::Outer, pattern: 0, ..self.id })
    }

    /// Returns the part of a request's path that the handler uses: below the folder for `/docs/*`, the whole path for others.
    #[must_use]
    pub fn below<'p>(&self, path: &'p RequestPath<'_>) -> PathBelow<'p> {
        path.below(self.pattern.mount())
    }

    /// Returns the numbers of the routes before this one that match the path, but whose conditions the request does not meet.
    pub fn passed_over(&self, path: &RequestPath<'_>) -> impl Iterator<Item = usize> {
        let last = if let InSite::Listed(number) = self.id.route { number } else { self.site.routes.len() };
        let routes = self.site.routes[..last].iter().enumerate();
        let is_passed = |route: &Route<H>| route.matches(path.as_bytes()) && !route.is_for(self.id.met);
        routes.filter(move |(_, route)| is_passed(route)).map(|(number, _)| number)
    }

    /// Calls `visit` for each field of the request that has an effect on which route it gets, some several times.
    pub fn choosing_fields(&self, path: &RequestPath<'_>, visit: &mut impl FnMut(HeaderName)) {
        // A script before a path info, or a path with a decoded slash, has a route as well.
        let names_script = |route: &Route<H>| {
            route
                .script_suffix
                .as_ref()
                .is_some_and(|suffix| last_script(path.as_bytes(), 0, suffix).is_some())
        };
        let has_other_reading =
            !matches!(path.with_slashes_decoded(), Ok(None)) || self.site.routes.iter().any(names_script);
        let last = if let InSite::Listed(number) = self.id.route { number } else { usize::MAX };
        for (number, route) in self.site.routes.iter().enumerate() {
            let is_tried = number <= last && route.matches(path.as_bytes()) || has_other_reading;
            if let Some(condition) = route.condition.filter(|_| is_tried) {
                self.site.conditions.fields(condition, visit);
            }
        }
    }

    /// Returns `value` if the site has other routes.
    pub fn if_has_other_routes<T>(&self, value: T) -> Option<T> {
        (self.site.routes.len() > 1).then_some(value)
    }

    /// Checks that the path also leads to this route for applications that remove the parameters of each segment, such as Tomcat and
    /// Jetty: for them, `/admin;x/y` is `/admin/y`. It may lead to a route whose handler `is_harmless`, and a pattern that contains
    /// parameters is an exception.
    pub fn check_parameters(
        &self,
        path: &RequestPath<'_>,
        is_harmless: impl Fn(&H) -> bool,
    ) -> Result<(), PathError> {
        let Some(bare) = path.without_parameters()?.filter(|_| !self.pattern.has_parameters()) else {
            return Ok(());
        };
        let route = self.site.governing(bare.as_bytes(), self.id.met.into(), SCRIPTS_MAX);
        let is_safe = |number: usize| {
            self.id.route == InSite::Listed(number) || is_harmless(&self.site.routes[number].handler)
        };
        if route.is_ok_and(|(number, _)| is_safe(number)) { Ok(()) } else { Err(PathError::Parameters) }
    }

    /// Returns the path in the site of a file in the handler's folder if another route matches it.
    #[must_use]
    pub fn path_on_other_route(&self, path: &RequestPath<'_>, file: &str) -> Option<RequestPath<'static>> {
        let mount = std::str::from_utf8(&path.as_bytes()[..self.pattern.mount()]).ok()?;
        let target = RequestPath::from_decoded(format!("{mount}/{file}"));
        // This route has the request for its own path, also after another one has passed it on.
        if target.as_bytes() == path.as_bytes() {
            return None;
        }
        let (number, _) = self.site.first(target.as_bytes(), self.id.met.into())?;
        (self.id.route != InSite::Listed(number)).then_some(target)
    }
}
