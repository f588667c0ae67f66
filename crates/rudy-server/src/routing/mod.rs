//! From a request to the handler that answers it: the site by host, the route by path.

mod canonical;
mod host;
mod path;

pub(crate) use canonical::CanonicalPath;
pub use host::HostPattern;
pub(crate) use host::{Hosts, without_port};
pub use path::PathPattern;

use std::borrow::Cow;

use http::header;
use rudy_http::semantics::path::PathError;
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
pub(crate) struct Found<'r, H> {
    pub(crate) pattern: &'r PathPattern,
    pub(crate) handler: &'r H,
}

impl<H> Found<'_, H> {
    /// The part of a request's path that the handler looks at, still encoded: below the folder for `/docs/*`, the whole
    /// path for others. Empty or beginning with a slash.
    pub(crate) fn path_below<'p>(&self, path: &'p str) -> Cow<'p, str> {
        self.pattern.strip(path)
    }
}

/// Why there is nobody to answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotFound {
    /// No site is for this host.
    Host,
    /// The site has no route for this path.
    Path,
    /// The path cannot be compared with anything.
    BadPath(PathError),
}

impl<H> Router<H> {
    pub(crate) fn new(hosts: Hosts, sites: Vec<Vec<Route<H>>>) -> Self {
        Self { hosts, sites }
    }

    /// What answers, of all sites.
    pub(crate) fn handlers(&self) -> impl Iterator<Item = &H> {
        self.sites.iter().flatten().map(|route| &route.handler)
    }

    /// The first route of the host's site that takes the path. A site whose first route takes everything is answered
    /// without a look at the path.
    pub(crate) fn find<'h>(
        &self,
        host: impl FnOnce() -> &'h [u8],
        path: &str,
    ) -> Result<Found<'_, H>, NotFound> {
        let routes = self.hosts.find(host).and_then(|site| self.sites.get(site)).ok_or(NotFound::Host)?;
        if let Some(Route { paths, handler }) = routes.first()
            && let [pattern] = paths.as_slice()
            && pattern.is_everything()
        {
            return Ok(Found { pattern, handler });
        }
        let path = CanonicalPath::parse(path).map_err(NotFound::BadPath)?;
        routes
            .iter()
            .flat_map(|route| route.paths.iter().map(|pattern| Found { pattern, handler: &route.handler }))
            .find(|found| found.pattern.matches(path.as_str()))
            .ok_or(NotFound::Path)
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
        let router = router(&[(&["a.org"], &["/x", "/x/*", "*.php", "/*"]), (&[], &["/x"])]);
        for (host, path, handler) in [
            ("a.org", "/x", Ok("0/x")),
            ("a.org", "/%78", Ok("0/x")),
            ("a.org", "//x", Ok("0/x")),
            ("a.org", "/x/y.php", Ok("0/x/*")),
            ("a.org", "/y.ph%70", Ok("0*.php")),
            ("a.org", "/y", Ok("0/*")),
            ("a.org", "/y/../x", Err(NotFound::BadPath(PathError::DotSegment))),
            ("b.org", "/x", Ok("1/x")),
            ("b.org", "/y", Err(NotFound::Path)),
        ] {
            let found = router.find(|| host.as_bytes(), path).map(|found| found.handler.as_str());
            assert_eq!(found, handler, "{host} {path}");
        }
    }

    #[test]
    fn a_host_of_nobody_is_not_found_without_a_default_site() {
        assert_eq!(router(&[(&["a.org"], &["/*"])]).find(|| b"b.org", "/").unwrap_err(), NotFound::Host);
    }

    proptest::proptest! {
        /// However a file's path is spelled, the route that takes the file takes the request.
        #[test]
        fn no_spelling_gets_around_a_route(path in "/{1,2}(p|%70|P|q)(a|%61|/|//|%2e|\\.|%2f|\\\\|%00|%){0,4}") {
            let router = router(&[(&[], &["/p/*", "/pa", "/*"])]);
            let Ok(found) = router.find(|| b"", &path) else { return Ok(()) };
            // What the files handler would open.
            let file = rudy_http::semantics::path::RelativePath::parse(&path).unwrap();
            let expected = match file.as_str() {
                "pa" if !file.names_directory() => "0/pa",
                inside if inside == "p" || inside.starts_with("p/") => "0/p/*",
                _ => "0/*",
            };
            proptest::prop_assert_eq!(found.handler, expected, "{}", path);
        }
    }
}
