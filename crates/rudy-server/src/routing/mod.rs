//! From a request to the handler that answers it: the site by host, the route by path.

mod host;
mod path;

pub use host::HostPattern;
pub(crate) use host::{Hosts, explain_rejected, without_port};
pub use path::PathPattern;

use http::header;
use rudy_http::semantics::path::{PathBelow, PathError, RequestPath};
use rudy_net::Request;

/// The host that a request is for, as it was sent. The authority of an absolute target comes before Host
/// (RFC 9112 §3.2.2).
pub(crate) fn request_host(request: &Request) -> &[u8] {
    if let Some(authority) = request.uri().authority() {
        return authority.as_str().as_bytes();
    }
    request.headers().get(header::HOST).map_or(b"", |host| host.as_bytes())
}

/// The routes of all sites, `H` being what answers.
#[derive(Debug)]
pub(crate) struct Router<H> {
    hosts: Hosts,
    sites: Vec<Vec<Route<H>>>,
}

/// Paths and what answers them.
#[derive(Debug)]
pub(crate) struct Route<H> {
    pub(crate) paths: Vec<PathPattern>,
    pub(crate) handler: H,
}

/// A route that was found, and the pattern of it that took the path.
#[derive(Debug)]
pub(crate) struct RouteMatch<'r, H> {
    pub(crate) pattern: &'r PathPattern,
    pub(crate) handler: &'r H,
    /// All routes of its site.
    site: &'r [Route<H>],
}

impl<H> RouteMatch<'_, H> {
    /// The part of a request's path that the handler looks at: below the folder for `/docs/*`, the whole path for others.
    pub(crate) fn below<'p>(&self, path: &'p RequestPath<'_>) -> PathBelow<'p> {
        path.below(self.pattern.mount())
    }

    /// What is only of use where the site has more than this route.
    pub(crate) fn if_has_other_routes<T>(&self, value: T) -> Option<T> {
        (self.site.len() > 1).then_some(value)
    }

    /// The path of a file in the folder of the handler, if another route of the site takes it.
    pub(crate) fn path_on_other_route(
        &self,
        path: &RequestPath<'_>,
        file: &str,
    ) -> Option<RequestPath<'static>> {
        let mount = std::str::from_utf8(&path.as_bytes()[..self.pattern.mount()]).ok()?;
        let target = RequestPath::from_decoded(format!("{mount}/{file}"));
        let route = self.site.iter().find(|route| route.matching_pattern(&target).is_some())?;
        (!std::ptr::eq(&raw const route.handler, self.handler)).then_some(target)
    }
}

impl<H> Route<H> {
    fn matching_pattern(&self, path: &RequestPath<'_>) -> Option<&PathPattern> {
        self.paths.iter().find(|pattern| pattern.matches(path.as_bytes()))
    }
}

/// Why there is nobody to answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotFound {
    /// No site is for this host.
    Host,
    /// Flags do not allow this host.
    RejectedHost,
    /// The site has no route for this path.
    Path,
    /// The path reads in two ways, and they lead to different routes.
    Ambiguous(PathError),
}

impl<H> Router<H> {
    pub(crate) fn new(hosts: Hosts, sites: Vec<Vec<Route<H>>>) -> Self {
        Self { hosts, sites }
    }

    /// What answers, of all sites.
    pub(crate) fn handlers(&self) -> impl Iterator<Item = &H> {
        self.sites.iter().flatten().map(|route| &route.handler)
    }

    /// The first route of the host's site that takes the path.
    ///
    /// Many applications read an encoded slash as a separator: `/admin%2Fx` is `/admin/x` to them. So that the route
    /// `/admin/*` cannot be passed by, a path with an encoded slash has to lead to the same route in both readings, unless the
    /// pattern that takes it has the encoded slash itself.
    pub(crate) fn find<'h>(
        &self,
        host: impl FnOnce() -> &'h [u8],
        path: &RequestPath<'_>,
    ) -> Result<RouteMatch<'_, H>, NotFound> {
        let not_found = if self.hosts.is_by_flags() { NotFound::RejectedHost } else { NotFound::Host };
        let site = self.hosts.find(host).and_then(|site| self.sites.get(site)).ok_or(not_found)?;
        let first = |path: &RequestPath<'_>| {
            let mut taking = site.iter().filter_map(|route| Some((route, route.matching_pattern(path)?)));
            taking.next().ok_or(NotFound::Path)
        };
        let (route, pattern) = first(path)?;
        if !pattern.has_encoded_slash()
            && let Some(decoded) = path.with_slashes_decoded().map_err(NotFound::Ambiguous)?
            && first(&decoded).is_ok_and(|(other, _)| !std::ptr::eq(other, route))
        {
            return Err(NotFound::Ambiguous(PathError::EncodedSlash));
        }
        Ok(RouteMatch { pattern, handler: &route.handler, site })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn router(sites: &[(&[&str], &[&str])]) -> Router<String> {
        let mut hosts = Hosts::default();
        let mut all = Vec::new();
        for (site, (names, paths)) in sites.iter().enumerate() {
            for name in *names {
                hosts.add(&name.parse().unwrap(), site);
            }
            if names.is_empty() {
                hosts.set_default(site);
            }
            let route =
                |path: &&str| Route { paths: vec![path.parse().unwrap()], handler: format!("{site}{path}") };
            all.push(paths.iter().map(route).collect());
        }
        Router::new(hosts, all)
    }

    #[test]
    fn the_first_route_in_written_order_is_taken() {
        let router = router(&[(&["a.org"], &["/x", "/x/*", "*.php", "/q%2F*", "/*"]), (&[], &["/x"])]);
        for (host, path, handler) in [
            ("a.org", "/x", Ok("0/x")),
            ("a.org", "/%78", Ok("0/x")),
            ("a.org", "//x", Ok("0/x")),
            ("a.org", "/x/y.php", Ok("0/x/*")),
            ("a.org", "/y.ph%70", Ok("0*.php")),
            ("a.org", "/y", Ok("0/*")),
            ("a.org", "/y/../x", Ok("0/x")),
            ("a.org", "/y%2Fz", Ok("0/*")),
            ("a.org", "/x/y%2Fz", Ok("0/x/*")),
            ("a.org", "/q%2Fz", Ok("0/q%2F*")),
            ("a.org", "/x%2Fy", Err(NotFound::Ambiguous(PathError::EncodedSlash))),
            ("a.org", "/y%2F..%2Fx%2Fy", Err(NotFound::Ambiguous(PathError::EncodedSlash))),
            ("a.org", "/x/..%2F..%2F..%2Fy", Err(NotFound::Ambiguous(PathError::AboveRoot))),
            ("b.org", "/x", Ok("1/x")),
            ("b.org", "/y", Err(NotFound::Path)),
        ] {
            let path = RequestPath::parse(path).unwrap();
            let found = router.find(|| host.as_bytes(), &path).map(|found| found.handler.as_str());
            assert_eq!(found, handler, "{host} {path:?}");
        }
    }

    #[test]
    fn a_host_of_nobody_is_not_found_without_a_default_site() {
        let root = RequestPath::parse("/").unwrap();
        assert_eq!(router(&[(&["a.org"], &["/*"])]).find(|| b"b.org", &root).unwrap_err(), NotFound::Host);
    }

    proptest::proptest! {
        /// However a file's path is spelled, the route that takes the file takes the request.
        #[test]
        fn no_spelling_gets_around_a_route(path in "/{1,2}(p|%70|P|q)(a|%61|/|//|%2e|\\.|%2f|\\\\|%00|%|p){0,5}") {
            let router = router(&[(&[], &["/p/*", "/pa", "/*"])]);
            let Ok(path) = RequestPath::parse(&path) else { return Ok(()) };
            let Ok(found) = router.find(|| b"", &path) else { return Ok(()) };
            // What the files handler would open.
            let Ok(file) = path.below(0).in_folder() else { return Ok(()) };
            let expected = match file {
                "/pa" => "0/pa",
                inside if inside == "/p" || inside.starts_with("/p/") => "0/p/*",
                _ => "0/*",
            };
            proptest::prop_assert_eq!(found.handler, expected, "{:?}", path);
        }
    }
}
