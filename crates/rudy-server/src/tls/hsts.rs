//! HTTP Strict Transport Security (RFC 6797): browsers use only HTTPS for the site from now on.

use std::time::Duration;

use http::HeaderValue;
use rudy_config::{Problem, short_form};
use rudy_units::Time;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::config::{Config, Site};

/// What browsers' built-in lists require (hstspreload.org).
const PRELOAD_MIN: Duration = Duration::from_hours(365 * 24);

/// Tells browsers to use only HTTPS for this site, for a time.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, remote = "Self")]
#[schemars(transform = Self::with_short_form)]
pub struct HstsTable {
    /// How long browsers remember it, from each response on. `0s` makes them forget.
    #[schemars(extend("examples" = ["365d"]))]
    pub max_age: Time,
    /// Whether it applies to all names below the host, too.
    #[serde(default)]
    pub include_subdomains: bool,
    /// Whether the site may be in browsers' built-in lists, which are slow to leave. Needs `include_subdomains` and a year.
    #[serde(default)]
    pub preload: bool,
}

short_form!(HstsTable, SHORT, "a time (\"365d\") or a table", r#"{ "type": "string" }"#, {
    visit_str(time: &str) => {
        let max_age = time.parse().map_err(serde::de::Error::custom)?;
        Ok(HstsTable { max_age, include_subdomains: false, preload: false })
    };
});

/// Returns the value of `Strict-Transport-Security` for a site.
pub(crate) fn hsts(config: &Config, site: &Site, problems: &mut Vec<Problem>) -> Option<HeaderValue> {
    let table = site.hsts.as_ref()?;
    let location = site.location.key("hsts");
    // A trusted proxy may provide HTTPS.
    if site.tls.is_none() && config.client_address.trusted_proxies.is_empty() {
        let problem = Problem::key(&location, "`hsts` has no effect without HTTPS").label("needs HTTPS");
        problems.push(problem.help("add `tls` to the site, or `trusted_proxies` if a proxy provides HTTPS"));
    }
    if table.preload && (!table.include_subdomains || table.max_age.0 < PRELOAD_MIN) {
        let problem = Problem::value(&location.key("preload"), "browsers would not list this site");
        problems.push(problem.label("needs `include_subdomains = true` and `max_age = \"365d\"` or more"));
    }
    let subdomains = if table.include_subdomains { "; includeSubDomains" } else { "" };
    let preload = if table.preload { "; preload" } else { "" };
    HeaderValue::try_from(format!("max-age={}{subdomains}{preload}", table.max_age.0.as_secs())).ok()
}
