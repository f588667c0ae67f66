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
    /// The text with the values of all queries masked.
    pub(crate) fn masked(self, text: &str) -> String {
        if self == Self::Shown {
            return text.to_owned();
        }
        let mut parts = text.split('?');
        let mut masked = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let end = part.find(|c: char| c.is_whitespace() || "\"'<>#,;".contains(c)).unwrap_or(part.len());
            masked.push('?');
            masked.push_str(&query(&part[..end]));
            masked.push_str(&part[end..]);
        }
        masked
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

fn query(query: &str) -> String {
    let pair = |pair: &str| match pair.split_once('=') {
        Some((name, _)) => format!("{name}={MASK}"),
        None if pair.is_empty() => String::new(),
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
            ("/a?b=c?d=e", "/a?b=***?d=***"),
            ("?", "?"),
        ] {
            assert_eq!(Values::Masked.masked(text), masked);
            assert_eq!(Values::Shown.masked(text), text);
        }
        assert_eq!(Values::Masked.field("x-api-key", "a"), "***");
        assert_eq!(Values::Masked.field("referer", "http://a/?b=c"), "http://a/?b=***");
    }
}
