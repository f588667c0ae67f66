//! The primary key of a stored response (RFC 9111 §2), and the keys that a request invalidates (§4.4).

use std::fmt;

use http::header::{CONTENT_LOCATION, LOCATION};
use http::{Request, Response};
use rudy_message::semantics::reference::resolve;

use crate::policy::Policy;
use crate::query::QueryRules;

/// The target URI of a request, as the primary key (RFC 9111 §2). The method is no part of it: only GET is stored.
///
/// Scheme and host are in lower case, and a default port is omitted (RFC 9110 §4.2.3). Path and query are unchanged: two spellings
/// of a path may be different resources of the origin. The scope of a [`Policy`] is the fragment, which no request has.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Key {
    text: Box<[u8]>,
    /// The length of scheme and authority at the start of the text.
    origin: usize,
}

impl Key {
    /// Creates the key of a request, with its whole query.
    ///
    /// ```
    /// # use rudy_cache::Key;
    /// let key = Key::new(true, b"Example.org:443", b"/a?b");
    /// assert_eq!(key.as_bytes(), b"https://example.org/a?b");
    /// ```
    #[must_use]
    pub fn new(is_secure: bool, host: &[u8], target: &[u8]) -> Self {
        let (scheme, port): (&[u8], &[u8]) =
            if is_secure { (b"https://", b":443") } else { (b"http://", b":80") };
        let host = host.strip_suffix(port).or(host.strip_suffix(b":")).unwrap_or(host);
        let mut text = [scheme, host].concat();
        text.make_ascii_lowercase();
        let origin = text.len();
        if !target.starts_with(b"/") {
            text.push(b'/');
        }
        text.extend_from_slice(target);
        Self { text: text.into(), origin }
    }

    /// Returns the key that [`Key::as_bytes`] returned the bytes of. `None` if they have no scheme and no path.
    #[must_use]
    pub fn from_bytes(text: &[u8]) -> Option<Self> {
        let scheme = text.windows(3).position(|bytes| bytes == b"://")? + 3;
        let origin = scheme + text[scheme..].iter().position(|byte| *byte == b'/')?;
        Some(Self { text: text.into(), origin })
    }

    /// Returns the host, with a port that is not the default of the scheme: the form in which the origin has to receive it, because it
    /// may be a part of the response.
    #[must_use]
    pub fn authority(&self) -> &[u8] {
        let scheme = self.text.iter().position(|byte| *byte == b'/').map_or(0, |slash| slash + 2);
        self.text.get(scheme..self.origin).unwrap_or_default()
    }

    /// Returns the URI, with the scope.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.text
    }

    /// Returns the URI without the scope.
    #[must_use]
    pub fn uri(&self) -> &[u8] {
        let end = self.text.iter().position(|byte| *byte == b'#');
        &self.text[..end.unwrap_or(self.text.len())]
    }

    fn with_scope(self, scope: &str) -> Self {
        if scope.is_empty() {
            return self;
        }
        Self { text: [&self.text, &b"#"[..], scope.as_bytes()].concat().into(), origin: self.origin }
    }

    fn with_query(self, rules: &QueryRules) -> Self {
        let (origin, target) = self.text.split_at(self.origin);
        let text = [origin, &rules.apply(target)].concat();
        Self { text: text.into(), origin: self.origin }
    }

    /// Resolves a reference in a response (RFC 3986 §5). `None` if it is not of the same origin, or not UTF-8.
    fn resolve(&self, reference: &[u8]) -> Option<Self> {
        let reference = std::str::from_utf8(reference).ok()?.split('#').next()?;
        let (origin, target) = self.uri().split_at(self.origin);
        let (scheme, host) = origin.split_at(origin.iter().position(|byte| *byte == b'/')? + 2);
        let key = match reference.split_once("//") {
            Some((before, after)) if is_scheme(before) => {
                let end = after.find(['/', '?']).unwrap_or(after.len());
                let is_secure =
                    if before.is_empty() { scheme == HTTPS } else { before.len() == "https:".len() };
                Self::new(is_secure, &after.as_bytes()[..end], resolve("/", &after[end..]).as_bytes())
            }
            // Relative. A URI with another scheme also ends here: it becomes the key of a path that does not exist.
            _ => {
                let target = resolve(std::str::from_utf8(target).ok()?, reference);
                Self::new(scheme == HTTPS, host, target.as_bytes())
            }
        };
        (key.text[..key.origin] == *origin).then_some(key)
    }
}

const HTTPS: &[u8] = b"https://";

/// Whether the text before `//` is empty, `http:` or `https:`.
fn is_scheme(before: &str) -> bool {
    ["", "http:", "https:"].iter().any(|scheme| before.eq_ignore_ascii_case(scheme))
}

impl Policy {
    /// Returns the key of a request. `host` is the `Host` field, and `target` the path with the query.
    #[must_use]
    pub fn key(&self, is_secure: bool, host: &[u8], target: &[u8]) -> Key {
        Key::new(is_secure, host, &self.query.apply(target)).with_scope(&self.scope)
    }

    /// Returns the keys whose responses a request invalidates (§4.4), once its response has arrived: the target of an unsafe
    /// request that succeeded, MUST; those in `Location` and `Content-Location`, MAY. Other origins MUST NOT be affected: one site
    /// could otherwise empty the cache of another.
    ///
    /// Methods that are not known to be safe count as unsafe.
    #[must_use]
    pub fn invalidated<B, C>(&self, request: &Request<B>, response: &Response<C>, target: &Key) -> Vec<Key> {
        let succeeded = response.status().is_success() || response.status().is_redirection();
        if request.method().is_safe() || !succeeded {
            return Vec::new();
        }
        let mut keys = vec![target.clone()];
        for reference in [LOCATION, CONTENT_LOCATION].iter().filter_map(|name| response.headers().get(name)) {
            let key = target.resolve(reference.as_bytes());
            let key = key.map(|key| key.with_query(&self.query).with_scope(&self.scope));
            keys.extend(key.filter(|key| !keys.contains(key)));
        }
        keys
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.text.escape_ascii())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Parameters, VariableName};

    fn text(key: &Key) -> &str {
        std::str::from_utf8(key.as_bytes()).unwrap()
    }

    #[test]
    fn rfc_9110_section_4_2_3_scheme_host_and_port_are_normalized() {
        for (is_secure, host, target, expected) in [
            (false, "A.Example", "/B?C", "http://a.example/B?C"),
            (false, "a:80", "/", "http://a/"),
            (true, "a:80", "/", "https://a:80/"),
            (true, "a:443", "/", "https://a/"),
            (true, "a:", "/", "https://a/"),
            (false, "[::1]:80", "/%7e//../x", "http://[::1]/%7e//../x"),
            (false, "a", "?q", "http://a/?q"),
            (false, "a", "", "http://a/"),
        ] {
            let key = Key::new(is_secure, host.as_bytes(), target.as_bytes());
            assert_eq!(text(&key), expected);
            let (_, host_and_path) = expected.split_once("//").unwrap();
            assert_eq!(Some(key.authority()), host_and_path.split('/').next().map(str::as_bytes));
            assert_eq!(Key::from_bytes(key.as_bytes()), Some(key));
        }
        assert_eq!((Key::from_bytes(b"http://a"), Key::from_bytes(b"/a")), (None, None));
        assert_ne!(
            Key::new(false, b"a", b"/<\xff"),
            Key::new(false, b"a", b"/%3C%FF"),
            "bytes are unchanged"
        );
    }

    fn keys(method: &str, status: u16, fields: &[(&str, &str)]) -> Vec<String> {
        let request = Request::builder().method(method).body(()).unwrap();
        let mut response = Response::builder().status(status);
        for (name, value) in fields {
            response = response.header(*name, *value);
        }
        let target = Key::new(true, b"a.example", b"/b/c?d");
        let keys = Policy::default().invalidated(&request, &response.body(()).unwrap(), &target);
        keys.iter().map(|key| text(key).trim_start_matches("https://a.example").to_owned()).collect()
    }

    #[test]
    fn section_4_4_an_unsafe_request_that_succeeds_invalidates_its_target() {
        for (method, status, expected) in [
            ("PUT", 200, true),
            ("POST", 201, true),
            ("DELETE", 204, true),
            ("PATCH", 303, true),
            ("M-SEARCH", 200, true),
            ("POST", 400, false),
            ("POST", 500, false),
            ("GET", 200, false),
            ("HEAD", 200, false),
            ("OPTIONS", 200, false),
        ] {
            assert_eq!(!keys(method, status, &[]).is_empty(), expected, "{method} {status}");
        }
    }

    #[test]
    fn section_4_4_location_is_invalidated_only_on_the_same_origin() {
        for (reference, expected) in [
            ("/e", Some("/e")),
            ("e?f#g", Some("/b/e?f")),
            ("../e", Some("/e")),
            ("?f", Some("/b/c?f")),
            ("/e//f", Some("/e//f")),
            ("https://A.example:443/e/../f", Some("/f")),
            ("HTTPS://a.example", Some("/")),
            ("https://a.example?f", Some("/?f")),
            ("//a.example/e", Some("/e")),
            ("", None),
            ("#g", None),
            ("http://a.example/e", None),
            ("https://b.example/e", None),
            ("//b.example/e", None),
            ("https://a.example:8443/e", None),
            ("https://a.example@b.example/e", None),
            ("https://u@a.example/e", None),
        ] {
            let found = keys("POST", 201, &[("location", reference)]);
            assert_eq!(found[0], "/b/c?d");
            assert_eq!(found.get(1).map(String::as_str), expected, "{reference}");
        }
        let both = keys("POST", 201, &[("location", "/e"), ("content-location", "/f")]);
        assert_eq!(both, ["/b/c?d", "/e", "/f"]);
    }

    #[test]
    fn keys_of_different_scopes_differ_and_invalidate_only_their_own() {
        let policy = Policy { scope: "unix:/run/a/b".into(), ..Policy::default() };
        let key = policy.key(true, b"a", b"/b/c?d");
        assert_eq!((text(&key), key.uri()), ("https://a/b/c?d#unix:/run/a/b", &b"https://a/b/c?d"[..]));
        assert_ne!(key, Policy::default().key(true, b"a", b"/b/c?d"));
        assert_eq!(Key::from_bytes(key.as_bytes()), Some(key.clone()));
        let request = Request::post("/").body(()).unwrap();
        let response = Response::builder().header("location", "e").header("content-location", "").body(());
        let keys = policy.invalidated(&request, &response.unwrap(), &key);
        assert_eq!(keys, [key, policy.key(true, b"a", b"/b/e")]);
    }

    /// Returns the target in the key of a request.
    fn target(query: QueryRules, target: &str) -> String {
        let key = Policy { query, ..Policy::default() }.key(true, b"a.example", target.as_bytes());
        text(&key).trim_start_matches("https://a.example").to_owned()
    }

    #[test]
    fn query_rules_ignore_and_sort_parameters() {
        let ignored = || vec!["fbclid".into(), "utm_*".into()];
        for (ignored, sorted, requested, expected) in [
            (vec![], false, "/a?b=1&&utm_x", "/a?b=1&&utm_x"),
            (vec![], false, "/a?", "/a?"),
            (ignored(), false, "/a", "/a"),
            (ignored(), false, "/a?c=1&utm_x=2&b&fbclid&fbclid2&xutm_y", "/a?c=1&b&fbclid2&xutm_y"),
            (ignored(), false, "/a?utm_x=?&utm_=2", "/a"),
            (ignored(), false, "/utm_x?%75tm_x=1", "/utm_x?%75tm_x=1"),
            (ignored(), false, "/a?utm_x=1;id=2&utm_y=1;&utm_x;fbclid=3", "/a?utm_x=1;id=2"),
            (ignored(), false, "/a?fbclid=;utm_x=&;id", "/a?;id"),
            (vec![], true, "/a?c=1&b=2&c=0&a&", "/a?a&b=2&c=1&c=0"),
            (vec![], true, "/a?c=1;b=2&a=3", "/a?c=1;b=2&a=3"),
            (vec![], true, "/a?x&%61=1&a=2&A=3&+a=4&a[b]=5", "/a?%61=1&a=2&A=3&+a=4&a[b]=5&x"),
        ] {
            let rules = QueryRules { parameters: Parameters::Except(ignored), sorted };
            assert_eq!(target(rules, requested), expected, "{requested}");
        }
    }

    #[test]
    fn query_rules_keep_only_the_listed_parameters_in_every_spelling() {
        let only = |names: &[&str], sorted| {
            let names = names.iter().map(|name| VariableName::new(name)).collect();
            QueryRules { parameters: Parameters::Only(names), sorted }
        };
        for (names, sorted, requested, expected) in [
            (&["page", "q"][..], false, "/a?x=1&q=b&utm_x&page=2&page=3&pages=4", "/a?q=b&page=2&page=3"),
            (&["page"], false, "/a?x=page&page", "/a?page"),
            (&["page"], false, "/page?x", "/page"),
            (
                &["page"],
                false,
                "/a?%70age=1&Page=2&+page=3&page[]=4&p",
                "/a?%70age=1&Page=2&+page=3&page[]=4",
            ),
            (
                &["my_page"],
                false,
                "/a?my.page=1&my[page=2&my%20page=3&mypage",
                "/a?my.page=1&my[page=2&my%20page=3",
            ),
            // Applications that separate by `;` find the listed one in these.
            (&["page"], false, "/a?x=1;page=2&amp;page=3&x;y", "/a?x=1;page=2&amp;page=3"),
            (&["filter_*"], false, "/a?filter_b=1&Filter%5fc=2&b", "/a?filter_b=1&Filter%5fc=2"),
            (&["b", "a"], true, "/a?b=1&c&a=2", "/a?a=2&b=1"),
            (&[], false, "/a?b=1&", "/a"),
            (&[], false, "/a?", "/a"),
        ] {
            assert_eq!(target(only(names, sorted), requested), expected, "{requested}");
        }
    }

    #[test]
    fn query_rules_apply_to_invalidated_keys() {
        let query = QueryRules { parameters: Parameters::Except(vec!["x".into()]), sorted: false };
        let policy = Policy { query, ..Policy::default() };
        let request = Request::post("/").body(()).unwrap();
        let response = Response::builder().header("location", "/c?x=1&y").body(()).unwrap();
        let keys = policy.invalidated(&request, &response, &policy.key(true, b"a", b"/b?x"));
        assert_eq!(keys, [Key::new(true, b"a", b"/b"), Key::new(true, b"a", b"/c?y")]);
    }
}
