//! HTTP Strict Transport Security (RFC 6797): browsers use only HTTPS for the site from now on.

use rudy_config::short_form;
use rudy_units::Time;
use schemars::JsonSchema;
use serde::Deserialize;

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
