//! Values that are not for everyone who reads a report.

/// What replaces a value.
const MASK: &str = "***";

/// Maximum number of characters of a value in a report.
const SHOWN_CHARS_MAX: usize = 100;

/// Header fields of requests that show who a user is.
const SECRET_NAMES: [&str; 5] = ["auth", "cookie", "token", "secret", "key"];

/// Whether values of queries, cookies and credentials are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Values {
    /// They are masked.
    #[default]
    Masked,
    /// They are shown.
    Shown,
}

impl Values {
    /// The text with the values of all queries masked, and those in fragments, which may have tokens.
    pub(crate) fn masked(self, text: &str) -> String {
        if self == Self::Shown {
            return text.to_owned();
        }
        let mut masked = String::new();
        for (index, part) in text.split_inclusive(['?', '#']).enumerate() {
            let (part, separator) = match part.strip_suffix(['?', '#']) {
                Some(start) => (start, &part[start.len()..]),
                None => (part, ""),
            };
            let end = part.find(|c: char| c.is_whitespace() || "\"<>".contains(c)).unwrap_or(part.len());
            let is_query = masked.ends_with('?');
            let start = &part[..end];
            masked.push_str(&if index == 0 { start.to_owned() } else { query(start, is_query) });
            masked.push_str(&part[end..]);
            masked.push_str(separator);
        }
        masked
    }

    /// The target of a request. All that follows the first `?` is its query.
    pub(crate) fn target(self, target: &str) -> String {
        match target.split_once('?') {
            Some((path, text)) if self == Self::Masked => format!("{path}?{}", query(text, true)),
            _ => target.to_owned(),
        }
    }

    /// The value of a header field of a request.
    pub(crate) fn field(self, name: &str, value: &str) -> String {
        let is_secret = SECRET_NAMES.iter().any(|secret| name.contains(secret));
        if is_secret && self == Self::Masked { MASK.to_owned() } else { self.masked(value) }
    }

    /// A body.
    pub(crate) fn body(self, body: &[u8]) -> String {
        if self == Self::Masked { MASK.to_owned() } else { String::from_utf8_lossy(body).into_owned() }
    }
}

/// A query or a fragment. A query without names is a value, a fragment is a place in a page.
fn query(query: &str, is_query: bool) -> String {
    let pair = |pair: &str| match pair.split_once('=') {
        Some((name, _)) => format!("{name}={MASK}"),
        None if pair.is_empty() || !is_query => pair.to_owned(),
        None => MASK.to_owned(),
    };
    query.split('&').map(pair).collect::<Vec<_>>().join("&")
}

/// The start of a text.
pub(crate) fn shortened(text: &str) -> String {
    match text.char_indices().nth(SHOWN_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_queries_are_masked_wherever_they_are() {
        for (text, masked) in [
            ("/a", "/a"),
            ("/a?b=c&d=e#f", "/a?b=***&d=***#f"),
            ("/a?token", "/a?***"),
            ("</a?b=c>; rel=x, </d?e=f>", "</a?b=***>; rel=x, </d?e=***>"),
            ("/a?b=c,d;e'f g", "/a?b=*** g"),
            ("/a?b=c?d=e", "/a?b=***?d=***"),
            ("?", "?"),
            ("/a#b", "/a#b"),
            ("/a#token=b&c", "/a#token=***&c"),
        ] {
            assert_eq!(Values::Masked.masked(text), masked);
            assert_eq!(Values::Shown.masked(text), text);
        }
        assert_eq!(Values::Masked.target("/a?b=<c d\"e&f"), "/a?b=***&***");
        assert_eq!(Values::Masked.field("x-api-key", "a"), "***");
        assert_eq!(Values::Masked.field("referer", "http://a/?b=c"), "http://a/?b=***");
    }
}
