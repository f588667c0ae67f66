//! What path info means for the routes of a site: which restricted paths are still reachable as the `PATH_INFO` of a script, and which
//! routes of scripts decide about it.

use rudy_config::OrOff;
use rudy_pipeline::HandlerConfig as _;
use rudy_pipeline::routing::PathPattern;

use super::HandlerTable;
use super::{Config, Route, Site};

/// The front controller of most PHP applications.
const FRONT_CONTROLLER: &str = "/index.php";

impl Config {
    /// Notices for restricted routes such as `/admin/*` before a PHP route with a front controller: `/index.php/admin/x` runs it with
    /// `PATH_INFO=/admin/x`. Whether the application uses `PATH_INFO` is unknown.
    pub(super) fn reachable_as_path_info(&self) -> impl Iterator<Item = String> {
        self.sites.iter().flat_map(reachable_in)
    }

    /// Notices for routes such as `*.php` with 404 before a PHP route: they also have its front controller, so all pages of the application
    /// get 404.
    pub(super) fn closed_front_controllers(&self) -> impl Iterator<Item = String> {
        self.sites.iter().flat_map(closed_in)
    }

    /// Notices for routes of scripts, such as `/xmlrpc.php`, that also have the paths below the script. These belonged to the route that
    /// matches them, so files that were written before mean something else now.
    pub(super) fn with_path_info(&self) -> impl Iterator<Item = String> {
        self.sites.iter().flat_map(with_path_info_in)
    }
}

fn reachable_in(site: &Site) -> Vec<String> {
    let mut notices = Vec::new();
    for (number, route) in site.routes.iter().enumerate().filter(|(_, route)| has_front_controller(route)) {
        let restricted: Vec<_> = site.routes[..number].iter().filter(|route| is_restricted(route)).collect();
        for mount in route.paths.iter().filter(|path| path.is_prefix()) {
            for path in restricted.iter().flat_map(|route| &route.paths) {
                let Some(second) = through_script(mount, path) else { continue };
                let is_restricted =
                    |path: &PathPattern| second.parse().is_ok_and(|second| path.covers(&second));
                if !restricted.iter().flat_map(|route| &route.paths).any(is_restricted) {
                    notices.push(format!(
                        "\"{path}\" is restricted, but \"{second}\" can reach the same page of the app, as PATH_INFO of index.php: restrict it too, \
                         with path = [\"{path}\", \"{second}\"]"
                    ));
                }
            }
        }
    }
    notices
}

fn closed_in(site: &Site) -> Vec<String> {
    let routes = site.routes.iter().enumerate();
    let php = routes
        .filter(|(_, route)| matches!(route.handler, HandlerTable::Php(_)) && has_front_controller(route));
    let mut notices = Vec::new();
    for (number, route) in php {
        for mount in route.paths.iter().filter(|path| path.is_prefix()) {
            let script = format!("{}{FRONT_CONTROLLER}", mount.to_string().trim_end_matches("/*"));
            // The first route that matches the script decides.
            let mut earlier = site.routes[..number]
                .iter()
                .flat_map(|route| route.paths.iter().map(move |path| (route, path)));
            if let Some((closing, path)) = earlier.find(|(_, path)| path.matches(script.as_bytes()))
                && closing.rejects()
            {
                notices.push(format!(
                    "\"{path}\" also closes \"{script}\", the front controller of \"{mount}\": all its pages get the response of \"{path}\"; \
                     add a route with path = \"{script}\" and the same `php` before it"
                ));
            }
        }
    }
    notices
}

fn with_path_info_in(site: &Site) -> Vec<String> {
    let mut notices = Vec::new();
    for (number, route) in site.routes.iter().enumerate() {
        let Some(suffix) = route.handler.script_suffix(&route.paths) else { continue };
        let other_routes = site.routes.iter().enumerate().filter(|(other, _)| *other != number);
        for (other, path) in
            other_routes.flat_map(|(other, route)| route.paths.iter().map(move |path| (other, path)))
        {
            let Some(pattern) =
                route.paths.iter().find(|pattern| loses(pattern, path, suffix, other < number))
            else {
                continue;
            };
            // The operator has decided about these paths.
            let below = format!("{path}/*").parse::<PathPattern>();
            let is_covered = below.is_ok_and(|below| {
                site.routes[..number].iter().flat_map(|route| &route.paths).any(|path| path.covers(&below))
            });
            let notice = format!(
                "\"{path}\" also decides about the script with path info (\"{path}/...\"), no longer \"{pattern}\""
            );
            if !is_covered && !notices.contains(&notice) {
                notices.push(notice);
            }
        }
    }
    notices
}

/// Whether a pattern of a route that runs scripts loses the paths below a script to the route of the script, whose pattern is `path`.
fn loses(pattern: &PathPattern, path: &PathPattern, suffix: &str, is_earlier: bool) -> bool {
    let of_script = path.to_string();
    // A regular expression with an end, and the letters of the suffix: `\.php$`.
    let is_regex_of_scripts = || {
        let letters = suffix.trim_start_matches('.');
        of_script.strip_prefix("regex:").is_some_and(|text| text.ends_with('$') && text.contains(letters))
    };
    // Of a pattern for names, and of a regular expression, the folder is unknown.
    let may_overlap = || path.literal().is_empty() || format!("{of_script}/").starts_with(pattern.literal());
    // A pattern without a wildcard matches no other path.
    let is_exact = pattern.literal() == pattern.to_string();
    let is_exception = !is_earlier && (pattern.is_prefix() || pattern.covers(path));
    (of_script.ends_with(suffix) || is_regex_of_scripts()) && may_overlap() && !is_exact && !is_exception
}

fn has_front_controller(route: &Route) -> bool {
    let table = match &route.handler {
        HandlerTable::Php(php) => &php.0,
        HandlerTable::Fastcgi(table) => table,
        _ => return false,
    };
    table.root.as_ref().is_some_and(|root| root.join(&FRONT_CONTROLLER[1..]).is_file())
}

/// Whether the route rejects some or all requests.
fn is_restricted(route: &Route) -> bool {
    route.rejects() || matches!(route.steps.admission.authorize, Some(OrOff::On(_)))
}

impl Route {
    /// Whether it rejects all requests.
    pub(crate) fn rejects(&self) -> bool {
        matches!(&self.handler, HandlerTable::Respond(table) if table.status.0 >= 400)
    }
}

/// The pattern of the path as `PATH_INFO` of the front controller: `/index.php/admin/*`.
fn through_script(mount: &PathPattern, path: &PathPattern) -> Option<String> {
    let (text, mount) = (path.to_string(), mount.to_string());
    let mount = mount.strip_suffix("/*")?;
    let rest = text.strip_prefix(mount).filter(|rest| rest.starts_with('/'))?;
    // A script itself has no second path, and `/**/private/*` already matches it.
    (!rest.starts_with(FRONT_CONTROLLER) && !rest.starts_with("/**"))
        .then(|| format!("{mount}{FRONT_CONTROLLER}{rest}"))
}
