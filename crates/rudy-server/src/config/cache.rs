//! Notices of `rudy check` about caches.

use rudy_caching::CacheTable;

use super::HandlerTable;
use super::{Config, Route, Site};

impl Config {
    /// Whether a route has a cache.
    pub(crate) fn has_cache(&self) -> bool {
        let mut routes = self.sites.iter().flat_map(|site| &site.routes);
        routes.any(|route| matches!(route.handler, HandlerTable::Mirror(_)))
            || self.cached_routes().next().is_some()
    }

    fn cached_routes(&self) -> impl Iterator<Item = (&Site, &Route, &CacheTable)> {
        let routes = self.sites.iter().flat_map(|site| site.routes.iter().map(move |route| (site, route)));
        routes.filter_map(|(site, route)| Some((site, route, cache_of(site, route)?)))
    }

    /// Caches of routes that decide by the user who may send a request: a response may be for that user alone.
    pub(super) fn caches_for_users(&self) -> impl Iterator<Item = String> {
        self.cached_routes().filter_map(|(site, route, table)| {
            let setting = setting_for_users(self, site, route)?;
            let what = if table.shares_between_users() {
                "`ignore_authorization`: responses to one user are sent to all others who may send the request, unless the application \
                 forbids it"
            } else {
                "only responses with `public`, `s-maxage` or `must-revalidate` are stored; if all responses are the same for all users, \
                 set `cache = { ignore_authorization = true }`"
            };
            let separator = if table.shares_between_users() { " and" } else { ":" };
            Some(format!("{} has `cache` with `{setting}`{separator} {what}", paths(route)))
        })
    }

    /// Caches of PHP applications without cookies that bypass them: most applications have sessions.
    pub(super) fn php_without_bypass(&self) -> impl Iterator<Item = String> {
        let is_php = |route: &Route| matches!(route.handler, HandlerTable::Php(_));
        let unsafe_routes =
            self.cached_routes().filter(move |(_, route, table)| is_php(route) && !table.has_bypass());
        unsafe_routes.map(|(_, route, _)| {
            format!(
                "{} has `cache` and `php` without `bypass_cookies`: a page of a user with a session is stored for everyone unless \
                 the application forbids it; set `cache = {{ bypass_cookies = [\"PHPSESSID\"] }}` with the cookies of its sessions",
                paths(route)
            )
        })
    }
}

fn paths(route: &Route) -> String {
    let paths: Vec<_> = route.paths.iter().map(ToString::to_string).collect();
    paths.join(" ")
}

/// Returns the setting by which a route decides about users, if there is one.
fn setting_for_users(config: &Config, site: &Site, route: &Route) -> Option<&'static str> {
    let of_all = &config.defaults.steps.admission;
    let login = route.steps.admission.login(&site.steps.admission, of_all);
    let authorize = route.steps.admission.authorizers(&site.steps.admission, of_all).next().is_some();
    let settings = [
        ("forward_auth", login.has_authorizer),
        ("authorize", authorize),
        ("basic_auth", login.has_passwords),
        ("client_certificates", site.tls.as_ref().is_some_and(|tls| tls.client_certificates().is_some())),
    ];
    settings.into_iter().find_map(|(name, is_set)| is_set.then_some(name))
}

fn cache_of<'c>(site: &'c Site, route: &'c Route) -> Option<&'c CacheTable> {
    let table = route.caching.cache.as_ref().or(site.caching.cache.as_ref())?;
    (!table.is_off && route.handler.is_cacheable()).then_some(table)
}
