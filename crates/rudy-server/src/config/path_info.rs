//! Closed folders that a script behind them opens again by its `PATH_INFO`.

use super::{Config, Route, RouteAuthorize, Site};
use crate::handlers::HandlerTable;
use crate::routing::PathPattern;

/// The script that answers for all paths of most PHP applications.
const FRONT_CONTROLLER: &str = "/index.php";

impl Config {
    /// A closed route, `/admin/*`, before a route of PHP whose front controller many applications also ask by its `PATH_INFO`:
    /// `/index.php/admin/x` runs it with `/admin/x`. Whether the application looks at that cannot be known.
    pub(super) fn reopened_folders(&self) -> impl Iterator<Item = String> {
        self.sites.iter().flat_map(reopened_in)
    }
}

fn reopened_in(site: &Site) -> Vec<String> {
    let mut notices = Vec::new();
    for (number, route) in site.routes.iter().enumerate().filter(|(_, route)| has_front_controller(route)) {
        let closed: Vec<_> = site.routes[..number].iter().filter(|route| is_closed(route)).collect();
        for mount in route.paths.iter().filter(|path| path.is_prefix()) {
            for path in closed.iter().flat_map(|route| &route.paths) {
                let Some(second) = through_script(mount, path) else { continue };
                let is_closed = |path: &PathPattern| second.parse().is_ok_and(|second| path.covers(&second));
                if !closed.iter().flat_map(|route| &route.paths).any(is_closed) {
                    notices.push(format!(
                        "\"{path}\" is closed, but \"{second}\" runs the script with the same path as PATH_INFO: close that too, \
                         by path = [\"{path}\", \"{second}\"]"
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

/// Whether a route is there to keep requests out, or some of them.
fn is_closed(route: &Route) -> bool {
    let refuses = matches!(&route.handler, HandlerTable::Respond(table) if table.status.0 >= 400);
    refuses || matches!(route.authorize, Some(RouteAuthorize::App(_)))
}

/// The pattern for the same path behind the front controller of a mount: `/index.php/admin/*`.
fn through_script(mount: &PathPattern, path: &PathPattern) -> Option<String> {
    let (text, mount) = (path.to_string(), mount.to_string());
    let mount = mount.strip_suffix("/*")?;
    let rest = text.strip_prefix(mount).filter(|rest| rest.starts_with('/'))?;
    // A script itself has no second path, and `/**/private/*` takes it as well.
    (!rest.starts_with(FRONT_CONTROLLER) && !rest.starts_with("/**"))
        .then(|| format!("{mount}{FRONT_CONTROLLER}{rest}"))
}
