//! The settings of basic authentication.

use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::str::FromStr;

use http::HeaderValue;
use rudy_config::{FilePath, short_form, written_as_text};
use schemars::JsonSchema;
use serde::Deserialize;

/// Basic authentication: a file of users, or a table.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, remote = "Self")]
#[schemars(transform = Self::with_short_form)]
pub struct BasicAuthTable {
    /// htpasswd file with a line `user:hash` for each user, relative to the configuration file. `rudy hash-password` writes it.
    /// Rudy reads it again when it changes.
    #[schemars(extend("examples" = ["/etc/rudy/htpasswd"]))]
    pub file: FilePath,
    /// Text that browsers show when they ask for the password, and by which they remember it.
    #[serde(default)]
    pub realm: Realm,
}

short_form!(BasicAuthTable, SHORT_PATH, "a file (\"htpasswd\") or a table", r#"{ "type": "string", "minLength": 1 }"#, {
    visit_bytes(path: &[u8]) => {
        let file = FilePath(std::ffi::OsStr::from_bytes(path).into());
        Ok(BasicAuthTable { file, realm: Realm::default() })
    };
});

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

impl serde::Serialize for Realm {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

written_as_text!(Realm, "a text (\"staff only\")",
    { "type": "string", "minLength": 1, "description": "A text of ASCII characters.", "examples": ["staff only"] });

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
