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
    /// Where readers find the weblog: `https://` and its host, in lower case. Feeds need whole links, and forms are accepted from there.
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
    /// Timeout of a poll.
    pub(crate) timeout: Option<Timeout>,
}

fn five() -> usize {
    5
}

impl Settings {
    /// Reads the settings. The error is a message for the operator.
    pub(crate) fn read(path: &Path) -> Result<Self, String> {
        let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let settings: Self = toml::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))?;
        if is_origin(&settings.url) {
            return Ok(settings);
        }
        Err(format!(
            "{}: `url` is {:?}; expected an address such as \"https://notes.example\" or \"http://127.0.0.1:8080\"",
            path.display(),
            settings.url
        ))
    }
}

/// Whether browsers write an origin so (RFC 6454 §6.2).
fn is_origin(url: &str) -> bool {
    let host = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://")).unwrap_or_default();
    let is_of_host = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b':' | b'[' | b']');
    !host.is_empty() && host.bytes().all(is_of_host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_url_is_written_as_browsers_write_an_origin() {
        for url in ["https://notes.example", "http://127.0.0.1:8080", "http://[::1]:8080"] {
            assert!(is_origin(url), "{url}");
        }
        for url in [
            "",
            "https://",
            "notes.example",
            "https://Notes.example",
            "https://a.example/",
            "ftp://a",
            "https://a<b",
        ] {
            assert!(!is_origin(url), "{url}");
        }
    }
}
