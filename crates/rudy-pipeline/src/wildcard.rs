//! Texts in which an asterisk matches any characters.

use std::fmt;
use std::str::FromStr;

use rudy_config::written_as_text;

/// A pattern: `*` matches any characters, or none; all others match themselves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wildcard(String);

impl Wildcard {
    /// Returns whether the whole text matches, where `*` matches only characters for which `may_match` is true.
    pub fn matches(&self, text: &[u8], may_match: impl Fn(u8) -> bool) -> bool {
        let Some((start, rest)) = self.0.split_once('*') else { return self.0.as_bytes() == text };
        let Some(mut text) = text.strip_prefix(start.as_bytes()) else { return false };
        // Between two asterisks, the first place is as good as any: it leaves the most to the others.
        let (middle, end) = rest.rsplit_once('*').unwrap_or(("", rest));
        for part in middle.split('*').map(str::as_bytes) {
            let Some(at) = find(text, part) else { return false };
            if !text[..at].iter().copied().all(&may_match) {
                return false;
            }
            text = &text[at + part.len()..];
        }
        text.strip_suffix(end.as_bytes()).is_some_and(|matched| matched.iter().copied().all(may_match))
    }

    /// Returns the pattern as it was written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn find(text: &[u8], part: &[u8]) -> Option<usize> {
    memchr::memmem::find(text, part)
}

impl FromStr for Wildcard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err("expected a text, in which `*` matches any characters".to_owned());
        }
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for Wildcard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

written_as_text!(Wildcard, "a pattern (\"*example*\")", {
    doc: "A text in which `*` matches any characters.",
    examples: ["*"],
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_asterisk_matches_any_characters() {
        for (pattern, text, expected) in [
            ("a", "a", true),
            ("a", "ab", false),
            ("*", "", true),
            ("*", "anything", true),
            ("a*", "a", true),
            ("a*", "ba", false),
            ("*a", "ba", true),
            ("*a", "ab", false),
            ("a*a", "a", false),
            ("a*a", "aa", true),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-c-b", false),
            ("*bot*", "a bot/1", true),
            ("*bot*", "a robo", false),
            ("a**c", "abc", true),
        ] {
            let pattern: Wildcard = pattern.parse().unwrap();
            assert_eq!(pattern.matches(text.as_bytes(), |_| true), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn an_asterisk_can_be_limited_to_some_characters() {
        let pattern: Wildcard = "https://*.a.org".parse().unwrap();
        let matches = |text: &str| pattern.matches(text.as_bytes(), |byte| byte != b'/');
        assert!(matches("https://b.a.org") && matches("https://c.b.a.org"));
        assert!(!matches("https://evil/.a.org"));
    }
}
