//! A request target that no [`Uri`](http::Uri) can hold.

use bytes::{BufMut, Bytes, BytesMut};

use crate::semantics::percent::escape;

/// The target of a request as it was sent, where [`http::Uri`] cannot hold it.
///
/// A `Uri` holds neither `<`, `>` and backtick in a path, nor `"`, `<` and `>` in a query, nor bytes that are not UTF-8. A
/// request with such a target has this among its extensions, and its URI has escapes (`%3C`) in their place, which stand for
/// the same path. A request without this has the target as it was sent for its URI.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawTarget(Bytes);

impl RawTarget {
    /// For a request whose URI cannot be made of these bytes.
    #[must_use]
    pub fn new(target: Bytes) -> Self {
        Self(target)
    }

    /// All of it: a path with its query or, in the absolute form, a URI (RFC 9112 §3.2).
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The path and the query: what [`http::Uri::path_and_query`] is of a URI.
    #[must_use]
    pub fn path_and_query(&self) -> &[u8] {
        &self.0[self.path_start().unwrap_or(self.0.len())..]
    }

    /// What follows the first question mark.
    #[must_use]
    pub fn query(&self) -> Option<&[u8]> {
        let at = memchr::memchr(b'?', &self.0)?;
        Some(&self.0[at + 1..])
    }

    /// The same path and query, in the characters that a URI is made of (RFC 3986 §2). `None` if there is no path: an
    /// authority is never escaped, so that what is wrong with it stays wrong.
    pub(crate) fn escaped(&self) -> Option<Bytes> {
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

    /// Where the path begins, or the query if there is no path.
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
    fn the_path_and_the_query_are_as_sent() {
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
        assert_eq!(escaped(b"/a b\0").as_deref(), Some(&b"/a b\0"[..]), "what no target holds stays");
        for without_path in [&b"a<b:80"[..], b"http://a<b", b"*<", b"<"] {
            assert_eq!(escaped(without_path), None);
        }
    }
}
