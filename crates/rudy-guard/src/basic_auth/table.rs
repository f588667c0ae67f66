//! The settings of basic authentication.

use std::fmt;
use std::str::FromStr;

use http::HeaderValue;
use rudy_config::{FilePath, Table, written_as_text};

/// Basic authentication: a file of users, or a table.
#[derive(Debug, Clone, PartialEq, Eq, Table)]
#[setting(short(file), what = "a file (\"htpasswd\") or a table")]
pub struct BasicAuthTable {
    /// htpasswd file with a line `user:hash` for each user, relative to the configuration file. `rudy hash-password` writes it.
    /// Rudy reads it again when it changes.
    #[setting(example = "/etc/rudy/htpasswd")]
    pub file: FilePath,
    /// Text that browsers show when they ask for the password, and by which they remember it.
    #[setting(default)]
    pub realm: Realm,
}

/// A text that names what a password is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Realm(String);

impl Realm {
    /// Returns the value of `WWW-Authenticate`.
    pub(super) fn challenge(&self) -> HeaderValue {
        let quoted = self.0.replace('\\', "\\\\").replace('"', "\\\"");
        // RFC 7617 §2.1: names and passwords are in UTF-8.
        let challenge = format!("Basic realm=\"{quoted}\", charset=\"UTF-8\"");
        HeaderValue::try_from(challenge).unwrap_or(HeaderValue::from_static("Basic realm=\"restricted\""))
    }
}

impl Default for Realm {
    fn default() -> Self {
        Self("restricted".to_owned())
    }
}

impl FromStr for Realm {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.is_empty() || text.contains(|letter: char| !matches!(letter, ' '..='~')) {
            return Err("expected a text of ASCII characters, such as \"staff only\"".to_owned());
        }
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for Realm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

written_as_text!(Realm, "a text (\"staff only\")", {
    doc: "A text of ASCII characters.",
    examples: ["staff only"],
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_realm_is_quoted() {
        let challenge = |text: &str| text.parse::<Realm>().map(|realm| realm.challenge());
        assert_eq!(challenge("staff").unwrap(), "Basic realm=\"staff\", charset=\"UTF-8\"");
        assert_eq!(challenge("a \"b\\").unwrap(), "Basic realm=\"a \\\"b\\\\\", charset=\"UTF-8\"");
        for text in ["", "a\nb", "é"] {
            assert!(challenge(text).is_err(), "{text:?}");
        }
    }
}
