//! Restricted paths that are still reachable as the `PATH_INFO` of a script.

use super::{Config, OrOff, Route, Site};
use crate::handlers::HandlerTable;
use crate::routing::PathPattern;

/// The front controller of most PHP applications.
const FRONT_CONTROLLER: &str = "/index.php";

impl Config {
    /// Notices for restricted routes such as `/admin/*` before a PHP route with a front controller: `/index.php/admin/x` runs it with
    /// `PATH_INFO=/admin/x`. Whether the application uses `PATH_INFO` is unknown.
    pub(super) fn reachable_as_path_info(&self) -> impl Iterator<Item = String> {
        self.sites.iter().flat_map(reachable_in)
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
    let rejects = matches!(&route.handler, HandlerTable::Respond(table) if table.status.0 >= 400);
    rejects || matches!(route.authorize, Some(OrOff::On(_)))
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
