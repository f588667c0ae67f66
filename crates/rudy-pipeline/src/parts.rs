//! Parts of requests by name.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use rudy_config::written_as_text;
use rudy_message::LazyHead;
use rudy_message::semantics::field::{FieldLines, KnownField};
use rudy_message::syntax::is_token;
use rudy_units::visible;

/// Returns the values of the cookies with a name (RFC 6265 §5.4).
pub fn cookies<'h>(head: &'h LazyHead<'_>, name: &str) -> impl Iterator<Item = &'h [u8]> {
    let pairs = head.lines(KnownField::Cookie).flat_map(|line| line.split(|byte| *byte == b';'));
    pairs.filter_map(move |pair| pair.trim_ascii().strip_prefix(name.as_bytes())?.strip_prefix(b"="))
}

/// Returns the values of the parameters with a name in the query, both decoded as those of a form.
pub fn parameters(head: &LazyHead<'_>, name: &str) -> impl Iterator<Item = Vec<u8>> {
    let pairs = form_urlencoded::parse(head.query().unwrap_or_default());
    pairs.filter_map(move |(key, value)| (key == name).then(|| Cow::into_owned(value).into_bytes()))
}

/// The name of a cookie: `upstream`, a token (RFC 6265 §4.1.1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CookieName(pub String);

impl FromStr for CookieName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if !text.is_empty() && text.bytes().all(is_token) {
            return Ok(Self(text.to_owned()));
        }
        Err(format!("\"{}\" is not a cookie name: write letters, digits, \"-\" and \"_\"", visible(text)))
    }
}

impl fmt::Display for CookieName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

written_as_text!(CookieName, "the name of a cookie (\"upstream\")", {
    doc: "The name of a cookie.",
    pattern: "^[!#$%&'*+.^_`|~0-9A-Za-z-]+$",
    examples: ["upstream"],
});
