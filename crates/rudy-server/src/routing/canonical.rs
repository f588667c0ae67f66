//! A request's path in the one spelling that routes are compared with.

use std::borrow::Cow;

use rudy_http::semantics::path::{PathError, RelativePath, encode};

/// A request's path in the one spelling that routes are compared with: decoded once, single slashes, no `.` or `..`.
#[derive(Debug)]
pub(crate) struct CanonicalPath<'a>(Cow<'a, str>);

impl<'a> CanonicalPath<'a> {
    /// Reads the path of a request target. Costs one look at it where nothing is encoded or repeated.
    pub(crate) fn parse(path: &'a str) -> Result<Self, PathError> {
        if is_canonical(path.as_bytes()) {
            return Ok(Self(Cow::Borrowed(path)));
        }
        let relative = RelativePath::parse(path)?;
        let folder = relative.names_directory() && !relative.as_str().is_empty();
        Ok(Self(Cow::Owned(format!("/{}{}", relative.as_str(), if folder { "/" } else { "" }))))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// A piece of it, encoded for a URI.
    pub(crate) fn encoded(&self, piece: &'a str) -> Cow<'a, str> {
        match self.0 {
            Cow::Borrowed(_) => Cow::Borrowed(piece),
            Cow::Owned(_) => Cow::Owned(encode(piece)),
        }
    }
}

/// Whether a path begins with a slash, has only characters that stand for themselves in a URI's path (RFC 3986 §3.3), no
/// empty part, and none that begins with a dot (`.` and `..` among them).
fn is_canonical(path: &[u8]) -> bool {
    let mut slash_before = false;
    for &byte in path {
        if !STANDS_FOR_ITSELF[usize::from(byte)] || slash_before && (byte == b'/' || byte == b'.') {
            return false;
        }
        slash_before = byte == b'/';
    }
    path.first() == Some(&b'/')
}

static STANDS_FOR_ITSELF: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte: u8 = 0;
    while byte < 128 {
        table[byte as usize] = byte.is_ascii_alphanumeric();
        byte += 1;
    }
    let others = b"-._~!$&'()*+,;=:@/";
    let mut index = 0;
    while index < others.len() {
        table[others[index] as usize] = true;
        index += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn paths_come_in_one_spelling() {
        for (path, canonical) in [
            ("/a/b", "/a/b"),
            ("/a/", "/a/"),
            ("/", "/"),
            ("//", "/"),
            ("//a", "/a"),
            ("/a//b/", "/a/b/"),
            ("/%61", "/a"),
            ("/.well-known/x", "/.well-known/x"),
            ("/caf%C3%A9", "/café"),
        ] {
            assert_eq!(CanonicalPath::parse(path).unwrap().as_str(), canonical, "{path}");
        }
        for path in ["/..", "/a/./b", "/%2e%2e/a", "/a%2Fb", "/a\\b", "/%", "/%00"] {
            assert!(CanonicalPath::parse(path).is_err(), "{path}");
        }
    }

    proptest! {
        /// No spelling of a path gets around the route that takes it.
        #[test]
        fn the_short_way_and_the_long_way_agree(path in "/[a-c./%21~:]{0,12}") {
            if is_canonical(path.as_bytes()) {
                let relative = RelativePath::parse(&path).unwrap();
                let end = if relative.names_directory() && !relative.as_str().is_empty() { "/" } else { "" };
                prop_assert_eq!(format!("/{}{}", relative.as_str(), end), path);
            }
        }
    }
}
