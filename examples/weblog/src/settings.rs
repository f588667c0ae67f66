//! The settings: `weblog.toml`.

use std::fs;
use std::path::Path;

use rudy_units::Timeout;
use serde::Deserialize;

/// What `weblog.toml` contains.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Settings {
    pub(crate) title: String,
    pub(crate) description: String,
    pub(crate) author: String,
    /// Where readers find the weblog, without a slash at the end: feeds need whole links.
    pub(crate) url: String,
    /// The services in the sidebar.
    #[serde(default)]
    pub(crate) sidebar: Vec<Service>,
}

/// A service that returns a list in JSON. Its paths are JSON pointers (RFC 6901).
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Service {
    /// The heading in the sidebar.
    pub(crate) title: String,
    pub(crate) url: String,
    /// The path of the list in the response; empty if the response is the list.
    #[serde(default)]
    pub(crate) items: String,
    /// The path of the text in an item.
    pub(crate) text: String,
    /// The path of the link in an item.
    pub(crate) link: Option<String>,
    /// How many items are shown.
    #[serde(default = "five")]
    pub(crate) shows: usize,
    /// The pause between polls, such as "15m".
    pub(crate) interval: Option<Timeout>,
    /// Maximum number of polls in 24 hours.
    pub(crate) per_day: Option<u32>,
}

fn five() -> usize {
    5
}

impl Settings {
    /// Reads the settings. The error is a message for the operator.
    pub(crate) fn read(path: &Path) -> Result<Self, String> {
        let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        toml::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))
    }
}
