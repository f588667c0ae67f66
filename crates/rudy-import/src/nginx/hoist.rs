//! Moves settings that all routes of a site have in common to the site.

use super::Site;
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

pub(super) fn hoist(site: &mut Site) {
    for key in SHARED {
        let Some(value) = site.routes.first().and_then(|route| route.get(key)).cloned() else { continue };
        if site.routes.iter().all(|route| route.get(key) == Some(&value)) {
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
