//! Notices of `rudy check` about caches.

use super::{Config, Route, Site};
use crate::cache::CacheTable;
use crate::handlers::HandlerTable;

impl Config {
    /// Whether a route has a cache.
    pub(crate) fn has_cache(&self) -> bool {
        let mut routes = self.sites.iter().flat_map(|site| &site.routes);
        routes.any(|route| matches!(route.handler, HandlerTable::Mirror(_)))
            || self.cached_routes().next().is_some()
    }

    fn cached_routes(&self) -> impl Iterator<Item = (&Route, &CacheTable)> {
        let routes = self.sites.iter().flat_map(|site| site.routes.iter().map(move |route| (site, route)));
        routes.filter_map(|(site, route)| Some((route, cache_of(site, route)?)))
    }

    /// Caches of PHP applications without cookies that bypass them: most applications have sessions.
    pub(super) fn php_without_bypass(&self) -> impl Iterator<Item = String> {
        let is_php = |route: &Route| matches!(route.handler, HandlerTable::Php(_));
        let unsafe_routes =
            self.cached_routes().filter(move |(route, table)| is_php(route) && !table.has_bypass());
        unsafe_routes.map(|(route, _)| {
            let paths: Vec<_> = route.paths.iter().map(ToString::to_string).collect();
            format!(
                "{} has `cache` and `php` without `bypass_cookies`: a page of a user with a session is stored for everyone unless \
                 the application forbids it; set `cache = {{ bypass_cookies = [\"PHPSESSID\"] }}` with the cookies of its sessions",
                paths.join(" ")
            )
        })
    }
}

fn cache_of<'c>(site: &'c Site, route: &'c Route) -> Option<&'c CacheTable> {
    let table = route.steps.cache.as_ref().or(site.steps.cache.as_ref())?;
    (!table.is_off && route.handler.is_cacheable()).then_some(table)
}
