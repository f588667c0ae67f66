//! A request target that a [`Uri`](http::Uri) cannot hold.

use bytes::{BufMut, Bytes, BytesMut};

use crate::semantics::percent::escape;

/// The original bytes of a request target that an [`http::Uri`] cannot hold.
///
/// A `Uri` rejects `<`, `>` and backticks in a path, `"`, `<` and `>` in a query, and bytes that are not UTF-8. A request
/// with such a target has a `RawTarget` in its extensions, and its URI has these bytes percent-encoded (`%3C`). Without a
/// `RawTarget`, the URI is exactly what the client sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawTarget(Bytes);

impl RawTarget {
    /// Creates a raw target from bytes that a URI cannot hold.
    #[must_use]
    pub fn new(target: Bytes) -> Self {
        Self(target)
    }

    /// Returns the whole target: a path with its query or, in the absolute form, a URI (RFC 9112 §3.2).
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns the path and the query, as [`http::Uri::path_and_query`] does for a URI.
    #[must_use]
    pub fn path_and_query(&self) -> &[u8] {
        &self.0[self.path_start().unwrap_or(self.0.len())..]
    }

    /// Returns the query: the part after the first question mark.
    #[must_use]
    pub fn query(&self) -> Option<&[u8]> {
        let at = memchr::memchr(b'?', &self.0)?;
        Some(&self.0[at + 1..])
    }

    /// Returns the target with a percent-encoded path and query (RFC 3986 §2). `None` if there is no path: an authority is
    /// not encoded, so an invalid one stays invalid.
    #[must_use]
    pub fn escaped(&self) -> Option<Bytes> {
        let (before, path_and_query) = self.0.split_at(self.path_start()?);
        let mut escaped = BytesMut::with_capacity(self.0.len() + 32);
        escaped.put_slice(before);
        for &byte in path_and_query {
            if byte >= 0x80 || b"\"<>\\^`{|}".contains(&byte) {
                escaped.put_slice(&escape(byte));
            } else {
                escaped.put_u8(byte);
            }
        }
        Some(escaped.freeze())
    }

    /// Returns the start of the path, or of the query if there is no path.
    fn path_start(&self) -> Option<usize> {
        let authority = match memchr::memmem::find(&self.0, b"://") {
            _ if self.0.first() == Some(&b'/') => 0,
            Some(colon) => colon + 3,
            None => return None,
        };
        memchr::memchr2(b'/', b'?', &self.0[authority..]).map(|at| authority + at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_and_the_query_are_unchanged() {
        for (target, path_and_query, query) in [
            ("/a<b?c\"d", "/a<b?c\"d", Some("c\"d")),
            ("/a<b://c", "/a<b://c", None),
            ("/<?", "/<?", Some("")),
            ("http://h:80/a`?b?c", "/a`?b?c", Some("b?c")),
            ("http://h?<", "?<", Some("<")),
        ] {
            let raw = RawTarget::new(Bytes::from(target));
            assert_eq!(raw.as_bytes(), target.as_bytes());
            assert_eq!(raw.path_and_query(), path_and_query.as_bytes(), "{target}");
            assert_eq!(raw.query(), query.map(str::as_bytes), "{target}");
        }
    }

    #[test]
    fn only_the_path_and_the_query_are_escaped() {
        let escaped = |target: &'static [u8]| RawTarget::new(Bytes::from(target)).escaped();
        assert_eq!(escaped(b"/<%3c>\xff?\"").as_deref(), Some(&b"/%3C%3c%3E%FF?%22"[..]));
        assert_eq!(escaped(b"http://a<b/<").as_deref(), Some(&b"http://a<b/%3C"[..]));
        assert_eq!(
            escaped(b"/a b\0").as_deref(),
            Some(&b"/a b\0"[..]),
            "bytes that no target may contain are unchanged"
        );
        for without_path in [&b"a<b:80"[..], b"http://a<b", b"*<", b"<"] {
            assert_eq!(escaped(without_path), None);
        }
    }
}
