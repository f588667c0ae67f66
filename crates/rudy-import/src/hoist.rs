//! Moves settings that all routes of a site have in common to the site.

use crate::site::Site;
use crate::toml::Table;

/// Settings of a site that its routes inherit as they are.
const SHARED: [&str; 16] = [
    "response_headers",
    "cache_control",
    "error_pages",
    "intercept_errors",
    "allow",
    "deny",
    "access",
    "basic_auth",
    "forward_auth",
    "rate_limit",
    "concurrent_requests",
    "bandwidth",
    "body_bytes",
    "compression",
    "media_types",
    "charset",
];

/// Those without an effect on redirects and fixed responses.
const OF_CONTENT: [&str; 5] = ["body_bytes", "compression", "media_types", "charset", "intercept_errors"];

fn has_content(route: &Table) -> bool {
    ["files", "proxy", "fastcgi", "status"].iter().any(|handler| route.get(handler).is_some())
}

pub(crate) fn hoist(site: &mut Site) {
    for key in SHARED {
        let Some(value) = site.routes.iter().find_map(|route| route.get(key)).cloned() else { continue };
        let has_it = |route: &Table| {
            route.get(key) == Some(&value)
                || route.get(key).is_none() && OF_CONTENT.contains(&key) && !has_content(route)
        };
        if site.routes.iter().all(has_it) {
            site.routes.iter_mut().for_each(|route| _ = route.remove(key));
            site.table.set(key, value);
        }
    }
    site.routes.iter_mut().for_each(handler_last);
}

/// The handler is behind the path, and its settings follow.
fn handler_last(route: &mut Table) {
    for key in ["when", "path"] {
        if let Some(value) = route.remove(key) {
            route.set_first(key, value);
        }
    }
}
