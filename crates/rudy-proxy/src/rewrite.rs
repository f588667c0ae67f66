//! Rewrites references of an application to itself in the fields of its responses, which clients could not follow: `rewrite_location` and
//! `rewrite_cookies`.

use http::header::{CONTENT_LOCATION, HeaderMap, HeaderName, HeaderValue, LOCATION, SET_COOKIE};

use super::table::ProxyTable;
use super::target::Prefixes;
use super::url::UpstreamUrl;

/// What to rewrite.
#[derive(Debug)]
pub(super) struct Rewrites {
    locations: bool,
    cookies: bool,
    upstreams: Vec<UpstreamUrl>,
    /// What the path of the request has lost and got.
    prefixes: Prefixes,
}

impl Rewrites {
    /// Returns the rewrites of a table, if it has any.
    pub(super) fn new(table: &ProxyTable, prefixes: &Prefixes) -> Option<Self> {
        let (locations, cookies) = (table.rewrite_location, table.rewrite_cookies);
        let upstreams = table.urls().cloned().collect();
        let has_any = locations || cookies;
        has_any.then(|| Self { locations, cookies, upstreams, prefixes: prefixes.clone() })
    }

    /// Rewrites the fields of a response; `mount` is the folder of the route, such as `/app`.
    pub(super) fn apply(&self, fields: &mut HeaderMap, mount: &str) {
        if self.locations {
            for name in [&LOCATION, &CONTENT_LOCATION] {
                rewrite_each(fields, name, |reference| self.location(reference, mount));
            }
        }
        if self.cookies {
            rewrite_each(fields, &SET_COOKIE, |cookie| self.cookie(cookie, mount));
        }
    }

    /// Rewrites a reference to a path of an upstream as one to a path of this server (RFC 9110 §10.2.2). `None` if it stays.
    fn location(&self, reference: &[u8], mount: &str) -> Option<Vec<u8>> {
        let own = self.upstreams.iter().find_map(|url| after_origin(reference, &url.origin()));
        let path = match own {
            Some(path) if path.starts_with(b"/") => self.path(path, mount).unwrap_or_else(|| path.to_owned()),
            Some(rest) => [&self.path(b"/", mount).unwrap_or_else(|| b"/".to_vec()), rest].concat(),
            // Two slashes begin the name of another host.
            None if reference.starts_with(b"/") && !reference.starts_with(b"//") => {
                self.path(reference, mount)?
            }
            None => return None,
        };
        Some(path)
    }

    /// Returns the path for the client of a path of the upstream. `None` if no request of a client leads to this path.
    fn path(&self, path: &[u8], mount: &str) -> Option<Vec<u8>> {
        let rest = path.strip_prefix(self.prefixes.added.as_bytes())?;
        if !matches!(rest, [] | [b'/' | b'?' | b'#', ..]) {
            return None;
        }
        let mount = if self.prefixes.strips { mount } else { "" };
        let path = [mount.as_bytes(), rest].concat();
        Some(if path.starts_with(b"/") { path } else { [b"/", &path[..]].concat() })
    }

    /// Rewrites the attribute `Path` of a cookie, and removes a `Domain` that is the host of an upstream: then the cookie is for the
    /// host that the client knows. `None` if the cookie stays.
    fn cookie(&self, cookie: &[u8], mount: &str) -> Option<Vec<u8>> {
        let mut has_changed = false;
        let mut parts = cookie.split(|byte| *byte == b';');
        let mut rewritten = parts.next()?.to_owned();
        for part in parts {
            let equals = part.iter().position(|byte| *byte == b'=').unwrap_or(part.len());
            let value = part.get(equals + 1..).unwrap_or_default().trim_ascii();
            let name = part[..equals].trim_ascii();
            if name.eq_ignore_ascii_case(b"domain") && self.is_upstream(value) {
                has_changed = true;
            } else if name.eq_ignore_ascii_case(b"path")
                && let Some(path) = self.path(value, mount).filter(|path| path != value)
            {
                has_changed = true;
                rewritten.extend_from_slice(b"; Path=");
                rewritten.extend_from_slice(&path);
            } else {
                rewritten.push(b';');
                rewritten.extend_from_slice(part);
            }
        }
        has_changed.then_some(rewritten)
    }

    fn is_upstream(&self, domain: &[u8]) -> bool {
        let domain = domain.strip_prefix(b".").unwrap_or(domain);
        self.upstreams.iter().any(|url| url.host_name().as_bytes().eq_ignore_ascii_case(domain))
    }
}

/// Rewrites all lines of a field. They are bytes: applications send URLs and cookies in UTF-8 or Latin-1 that are not encoded.
fn rewrite_each(fields: &mut HeaderMap, name: &HeaderName, rewrite: impl Fn(&[u8]) -> Option<Vec<u8>>) {
    let http::header::Entry::Occupied(mut lines) = fields.entry(name) else { return };
    for line in lines.iter_mut() {
        // Parts of valid fields.
        if let Some(rewritten) = rewrite(line.as_bytes()).and_then(|value| HeaderValue::try_from(value).ok())
        {
            *line = rewritten;
        }
    }
}

/// Returns what follows the scheme and host of a URL in a reference.
fn after_origin<'r>(reference: &'r [u8], origin: &str) -> Option<&'r [u8]> {
    let (start, rest) = reference.split_at_checked(origin.len())?;
    let is_origin = start.eq_ignore_ascii_case(origin.as_bytes());
    (is_origin && matches!(rest, [] | [b'/' | b'?' | b'#', ..])).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewrites(strips: bool, added: &str) -> Rewrites {
        let upstreams = ["http://10.0.0.1:3000", "h2c://app"].map(|url| url.parse().unwrap()).into();
        let prefixes = Prefixes { strips, added: added.to_owned(), ..Prefixes::default() };
        Rewrites { locations: true, cookies: true, upstreams, prefixes }
    }

    #[test]
    fn references_to_an_upstream_become_references_to_the_client_s_path() {
        let [plain, strip, add, both] = [(false, ""), (true, ""), (false, "/v1"), (true, "/v1")]
            .map(|(strips, added)| rewrites(strips, added));
        for (rewrites, reference, expected) in [
            (&plain, "http://10.0.0.1:3000/a?b#c", Some("/a?b#c")),
            (&plain, "HTTP://APP/a", Some("/a")),
            (&plain, "http://app", Some("/")),
            (&plain, "http://app?q", Some("/?q")),
            (&plain, "http://apple/a", None),
            (&plain, "https://app/a", None),
            (&plain, "/a", Some("/a")),
            (&plain, "a/b", None),
            (&plain, "//other/a", None),
            (&strip, "/a", Some("/app/a")),
            (&strip, "http://app", Some("/app/")),
            (&strip, "//other/a", None),
            (&add, "/v1/app/a", Some("/app/a")),
            (&add, "/v1", Some("/")),
            (&add, "/v12/a", None),
            (&add, "http://app/other", Some("/other")),
            (&both, "http://app/v1/a", Some("/app/a")),
        ] {
            assert_eq!(
                rewrites.location(reference.as_bytes(), "/app").as_deref(),
                expected.map(str::as_bytes),
                "{reference}: {rewrites:?}"
            );
        }
    }

    #[test]
    fn cookies_get_the_path_of_the_client_and_no_domain_of_an_upstream() {
        for (cookie, expected) in [
            ("a=b; Path=/; HttpOnly", Some("a=b; Path=/app/; HttpOnly")),
            ("a=b;path=/x;Domain=.APP; Secure", Some("a=b; Path=/app/x; Secure")),
            ("a=b; Domain=10.0.0.1", Some("a=b")),
            ("a=b; Domain=example.org; Max-Age=1", None),
            ("a=path=/", None),
            ("", None),
        ] {
            let rewritten = rewrites(true, "").cookie(cookie.as_bytes(), "/app");
            assert_eq!(rewritten.as_deref(), expected.map(str::as_bytes), "{cookie}");
        }
        assert_eq!(rewrites(false, "").cookie(b"a=b; Path=/x", "/app"), None);
    }

    #[test]
    fn each_line_is_rewritten_whatever_its_bytes() {
        let value = |bytes: &[u8]| HeaderValue::from_bytes(bytes).unwrap();
        let mut fields = HeaderMap::new();
        fields.append(SET_COOKIE, HeaderValue::from_static("a=1; Path=/"));
        fields.append(SET_COOKIE, HeaderValue::from_static("b=2; Path=/b"));
        fields.append(SET_COOKIE, value(b"c=\xe9\xff; Path=/c; Domain=APP"));
        fields.append(LOCATION, value("http://app/café?\u{df}".as_bytes()));
        fields.append(CONTENT_LOCATION, value(b"/\xff"));
        rewrites(true, "").apply(&mut fields, "/app");
        assert_eq!(
            fields.get_all(SET_COOKIE).iter().collect::<Vec<_>>(),
            [&value(b"a=1; Path=/app/"), &value(b"b=2; Path=/app/b"), &value(b"c=\xe9\xff; Path=/app/c")]
        );
        assert_eq!(
            (&fields[LOCATION], &fields[CONTENT_LOCATION]),
            (&value("/app/café?\u{df}".as_bytes()), &value(b"/app/\xff"))
        );
    }
}
