//! URLs of a repository as URLs of the mirror, and back.
//!
//! What is below the URL of the index has the same path below the folder of the mirror's route. Files of other hosts, to which the
//! index links, have the path `/.host/TOKEN/SCHEME/HOST/...`. The token is a keyed hash of the host: only the mirror can make such
//! links, so it fetches nothing from hosts that the index does not name.

use http::Uri;
use rudy_message::semantics::path::RequestPath;
use rudy_message::semantics::reference::resolve;
use rudy_pipeline::wildcard::Wildcard;
use rudy_proxy::{Prefixes, StickyKey, target_of_uri};

use super::Resource;
use super::table::RepositoryUrl;

/// The start of the paths for other hosts. No repository has it: names of packages do not begin with a dot.
const HOSTS: &str = "/.host/";

/// The links of a mirror.
#[derive(Debug)]
pub(super) struct Links {
    pub(super) url: RepositoryUrl,
    /// The allowed hosts beside that of the index. `None` allows all that the index names.
    pub(super) hosts: Option<Vec<Wildcard>>,
}

/// Where a link is: the resource that contains it, and the mirror as the client sees it.
pub(super) struct Place<'a> {
    pub(super) resource: &'a Resource,
    /// The URL of the mirror, without a slash at its end: `http://mirror.example:8081/maven`.
    pub(super) mirror: &'a str,
    pub(super) key: &'a StickyKey,
}

impl Links {
    /// Returns what a request is for, whose URI has this canonical path; `mount` is the length of the folder of the route. `None` if
    /// it is for another host without a valid token.
    pub(super) fn resource(
        &self,
        uri: &Uri,
        path: &RequestPath<'_>,
        mount: usize,
        key: &StickyKey,
    ) -> Option<Resource> {
        let target = |mount: usize, added: &str| {
            let prefixes = Prefixes { strips: true, added: added.to_owned(), decodes: false };
            let as_sent = || uri.path_and_query().map_or("/", |target| target.as_str()).to_owned();
            target_of_uri(uri, path, mount, &prefixes).unwrap_or_else(as_sent)
        };
        let below = String::from_utf8_lossy(path.below(mount).as_bytes());
        let Some(host) = below.strip_prefix(HOSTS) else {
            let origin = self.url.origin();
            let (target, path) = (target(mount, self.url.path()), below.into_owned());
            return Some(Resource { origin, target, path, is_of_index: true });
        };
        let mut parts = host.splitn(4, '/');
        let (token, scheme, authority) = (parts.next()?, parts.next()?, parts.next()?);
        let origin = format!("{scheme}://{authority}");
        if self.token(&origin, key) != token || !self.allows(&origin) {
            return None;
        }
        let rest = parts.next().unwrap_or_default();
        let mount = mount + HOSTS.len() + token.len() + scheme.len() + authority.len() + 2;
        Some(Resource { origin, target: target(mount, ""), path: format!("/{rest}"), is_of_index: false })
    }

    /// Returns the URL on the mirror of a reference, which is relative to the base that its document declares, or to the document. `None`
    /// if it stays: it is no link to a file that the mirror may fetch.
    pub(super) fn link(&self, reference: &str, base: Option<&str>, place: &Place<'_>) -> Option<String> {
        let (reference, fragment) = reference.split_at(reference.find('#').unwrap_or(reference.len()));
        let document = (place.resource.origin.as_str(), place.resource.target.as_str());
        let base = base.and_then(|base| absolute(base, document));
        let base = base.as_ref().map_or(document, |(origin, target)| (origin, target));
        let (origin, target) = absolute(reference, base)?;
        // Files that the index offers over HTTPS are not fetched without it.
        if place.resource.origin.starts_with("https:") && origin.starts_with("http:") {
            return None;
        }
        let below = target.strip_prefix(self.url.path()).filter(|_| origin == self.url.origin());
        if let Some(below) = below.filter(|below| below.is_empty() || below.starts_with(['/', '?'])) {
            return Some(format!("{}{below}{fragment}", place.mirror));
        }
        let (scheme, authority) = origin.split_once("://")?;
        if !self.allows(&origin) {
            return None;
        }
        let token = self.token(&origin, place.key);
        Some(format!("{}{HOSTS}{token}/{scheme}/{authority}{target}{fragment}", place.mirror))
    }

    /// Whether files of an origin may be fetched, if the index names it. Without `hosts`, other hosts must have a public name, and a public
    /// address ([`MirrorTable::proxy_to_other`](super::MirrorTable)). Other ports of the host of the index are other services.
    fn allows(&self, origin: &str) -> bool {
        if origin == self.url.origin() {
            return true;
        }
        let authority = origin.split_once("://").map_or(origin, |(_, authority)| authority);
        let port =
            authority.rsplit_once(':').filter(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit()));
        let host = port.map_or(authority, |(host, _)| host);
        if let Some(hosts) = &self.hosts {
            let is_listed =
                |name: &str| hosts.iter().any(|pattern| pattern.matches(name.as_bytes(), |_| true));
            return is_listed(host) || is_listed(authority);
        }
        if host == self.url.host() {
            // The same service with TLS, at the default ports.
            return self.url.origin() == format!("http://{host}") && origin == format!("https://{host}");
        }
        // The resolver reads all names that end in a number as addresses: `127.1` and `0x7f.1`. No public name does.
        let name = host.strip_suffix('.').unwrap_or(host);
        let Some((_, last)) = name.rsplit_once('.') else { return false };
        last.starts_with(|first: char| first.is_ascii_alphabetic()) && last != "localhost"
    }

    fn token(&self, origin: &str, key: &StickyKey) -> String {
        key.token(&format!("{} {origin}", self.url))
    }
}

/// Returns the origin of a reference (RFC 3986 §5) without a default port, and its path with the query. `base` is the origin and the
/// target of its document. `None` if it is no HTTP URL.
fn absolute(reference: &str, base: (&str, &str)) -> Option<(String, String)> {
    let (scheme, rest) = match reference.split_once(':') {
        Some((scheme, rest)) if is_scheme(scheme) => (scheme.to_ascii_lowercase(), rest),
        _ => (base.0.split_once(':')?.0.to_owned(), reference),
    };
    let Some(rest) = rest.strip_prefix("//") else {
        // A scheme without a host is not one of HTTP.
        let is_relative = rest.len() == reference.len();
        return is_relative.then(|| (base.0.to_owned(), resolve(base.1, reference)));
    };
    let default_port = match scheme.as_str() {
        "http" => ":80",
        "https" => ":443",
        _ => return None,
    };
    let (authority, target) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    let authority = authority.to_ascii_lowercase();
    let authority = authority.strip_suffix(default_port).unwrap_or(&authority);
    let is_valid = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte);
    if authority.is_empty() || !authority.bytes().all(is_valid) {
        return None;
    }
    Some((format!("{scheme}://{authority}"), resolve("/", target)))
}

fn is_scheme(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn links(url: &str, hosts: Option<&str>) -> Links {
        Links { url: url.parse().unwrap(), hosts: hosts.map(|host| vec![host.parse().unwrap()]) }
    }

    fn resource(links: &Links, key: &StickyKey, uri: &str, mount: &str) -> Option<Resource> {
        let uri: Uri = uri.parse().unwrap();
        let path = RequestPath::parse(uri.path()).unwrap().into_owned();
        links.resource(&uri, &path, mount.len(), key)
    }

    fn key() -> StickyKey {
        StickyKey::in_folder(None).0
    }

    #[test]
    fn a_path_of_the_mirror_is_one_of_the_index() {
        let key = key();
        for (url, mount, uri, target, path) in [
            ("https://repo.example/maven2", "", "/a/b?c", "/maven2/a/b?c", "/a/b"),
            ("https://repo.example/maven2/", "/m", "/m/a/../%62", "/maven2/%62", "/b"),
            ("https://repo.example", "", "/@s%2fa", "/@s%2fa", "/@s%2Fa"),
            ("https://repo.example", "/m", "/m", "/", ""),
        ] {
            let found = resource(&links(url, None), &key, uri, mount).unwrap();
            assert_eq!((found.target.as_str(), found.path.as_str()), (target, path), "{url} {uri}");
            assert_eq!((found.origin.as_str(), found.is_of_index), ("https://repo.example", true));
        }
    }

    #[test]
    fn links_lead_to_the_mirror_and_back() {
        let key = key();
        let links = links("https://repo.example/simple", None);
        let page = resource(&links, &key, "/six/", "").unwrap();
        let place = Place { resource: &page, mirror: "http://m:1", key: &key };
        let link = |reference| links.link(reference, None, &place);
        assert_eq!(link("https://repo.example/simple/a/b#sha256=0").unwrap(), "http://m:1/a/b#sha256=0");
        assert_eq!(link("HTTPS://Repo.example:443/simple?a").unwrap(), "http://m:1?a");
        assert_eq!(link("six-1.0.zip").unwrap(), "http://m:1/six/six-1.0.zip");
        for (reference, origin, target) in [
            ("https://files.example/p/a.whl#x", "https://files.example", "/p/a.whl"),
            ("https://files.example:8443/p?q", "https://files.example:8443", "/p?q"),
            ("../../packages/a%20b.whl", "https://repo.example", "/packages/a%20b.whl"),
            ("//repo.example/simpler/a", "https://repo.example", "/simpler/a"),
        ] {
            let url = link(reference).unwrap_or_else(|| panic!("{reference} is a link"));
            let path = url.strip_prefix("http://m:1").unwrap().split('#').next().unwrap();
            let found = resource(&links, &key, path, "").unwrap_or_else(|| panic!("{path} is valid"));
            assert_eq!((found.origin.as_str(), found.target.as_str()), (origin, target), "{reference}");
        }
    }

    #[test]
    fn only_hosts_that_the_index_names_are_reached() {
        let (key, other) = (key(), key());
        let any = links("https://repo.example/simple", None);
        let page = resource(&any, &key, "/six/", "").unwrap();
        let place = Place { resource: &page, mirror: "", key: &key };
        for reference in [
            "http://files.example/a",
            "https://127.0.0.1/a",
            "https://[::1]/a",
            "https://localhost/a",
            "https://localhost./a",
            "https://a.localhost./a",
            "https://127.0.0.1./a",
            "https://127.1/a",
            "https://0x7f.1/a",
            "https://0177.0.0.0x1:8443/a",
            "https://user@files.example/a",
            "ftp://files.example/a",
            "mailto:a@b.example",
            "https:///a",
        ] {
            assert_eq!(any.link(reference, None, &place), None, "{reference}");
        }
        let path = any.link("https://files.example/a", None, &place).unwrap();
        assert!(resource(&any, &key, &path, "").is_some());
        assert!(resource(&any, &other, &path, "").is_none(), "another key");
        for forged in [path.replace("files", "other"), path.replace("https", "http"), "/.host/x".to_owned()] {
            assert!(resource(&any, &key, &forged, "").is_none(), "{forged}");
        }
        let some = links("https://repo.example/simple", Some("*.example"));
        assert!(some.link("https://files.example/a", None, &place).is_some());
        assert_eq!(some.link("https://files.example.org/a", None, &place), None);
        assert!(resource(&some, &key, &path, "").is_some());
        let none = links("https://repo.example/simple", Some("x"));
        assert!(resource(&none, &key, &path, "").is_none(), "the setting has changed");
    }

    #[test]
    fn other_ports_of_the_host_of_the_index_are_reached_only_if_they_are_configured() {
        let key = key();
        for (url, hosts, reference, expected) in [
            ("https://repo.example/simple", None, "https://repo.example/files/a", true),
            ("https://repo.example/simple", None, "https://REPO.example:443/files/a", true),
            ("https://repo.example/simple", None, "https://repo.example:8443/a", false),
            ("http://repo.example/simple", None, "http://repo.example:22/a", false),
            ("http://repo.example/simple", None, "https://repo.example/a", true),
            ("http://repo.example/simple", None, "https://repo.example:8443/a", false),
            ("http://repo.example:8080/simple", None, "https://repo.example/a", false),
            ("http://10.0.0.1:8080/simple", None, "http://10.0.0.1:6379/a", false),
            ("http://10.0.0.1:8080/simple", None, "http://10.0.0.1:8080/a", true),
            ("http://10.0.0.1:8080/simple", Some("10.0.0.1"), "http://10.0.0.1:6379/a", true),
            ("http://10.0.0.1:8080/simple", Some("10.0.0.1:81"), "http://10.0.0.1:81/a", true),
            ("http://10.0.0.1:8080/simple", Some("10.0.0.1:81"), "http://10.0.0.1:82/a", false),
            ("http://[::1]:8080/simple", Some("[::1]"), "http://[::1]/a", true),
        ] {
            let links = links(url, hosts);
            let page = resource(&links, &key, "/six/", "").unwrap();
            let place = Place { resource: &page, mirror: "", key: &key };
            let link = links.link(reference, None, &place);
            assert_eq!(link.is_some(), expected, "{url} {hosts:?} {reference}");
            let all = Links { url: links.url.clone(), hosts: Some(vec!["*".parse().unwrap()]) };
            let path = all.link(reference, None, &place).unwrap();
            assert_eq!(resource(&links, &key, &path, "").is_some(), expected, "{path}");
        }
    }

    #[test]
    fn links_are_relative_to_a_declared_base() {
        let (key, links) = (key(), links("https://repo.example/simple", None));
        let page = resource(&links, &key, "/six/", "").unwrap();
        let place = Place { resource: &page, mirror: "http://m", key: &key };
        for (base, reference, same_as) in [
            ("https://files.example/p/", "a.whl#x", "https://files.example/p/a.whl#x"),
            ("//files.example/p/", "../a.whl", "https://files.example/a.whl"),
            ("https://files.example/p/", "https://other.example/a", "https://other.example/a"),
            ("../packages/", "a.whl", "https://repo.example/simple/packages/a.whl"),
            ("data:x", "a.whl", "a.whl"),
        ] {
            let expected = links.link(same_as, None, &place);
            assert!(expected.is_some(), "{same_as}");
            assert_eq!(links.link(reference, Some(base), &place), expected, "{base} {reference}");
        }
        // The page is from an origin with TLS, whatever the base is.
        assert_eq!(links.link("a.whl", Some("http://files.example/"), &place), None);
    }
}
