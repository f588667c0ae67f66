//! HTTP Strict Transport Security (RFC 6797): browsers use only HTTPS for the site from now on.

use rudy_config::Table;
use rudy_units::Time;

/// Tells browsers to use only HTTPS for this site, for a time.
#[derive(Debug, Clone, PartialEq, Eq, Table)]
#[setting(short(max_age), what = "a time (\"365d\") or a table")]
pub struct HstsTable {
    /// How long browsers remember it, from each response on. `0s` makes them forget.
    #[setting(example = "365d")]
    pub max_age: Time,
    /// Whether it applies to all names below the host, too.
    #[setting(default)]
    pub include_subdomains: bool,
    /// Whether the site may be in browsers' built-in lists, which are slow to leave. Needs `include_subdomains` and a year.
    #[setting(default)]
    pub preload: bool,
}
