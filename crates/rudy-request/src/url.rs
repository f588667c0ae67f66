//! URLs of requests.

use std::fmt;
use std::net::IpAddr;

use http::Uri;
use rudy_message::semantics::reference::resolve;

/// An HTTP URL. When it is parsed, `http://` can be omitted.
///
/// ```
/// let url: rudy_request::Url = "localhost:8080/a?b=c".parse()?;
/// assert_eq!((url.host(), url.port(), url.target()), ("localhost", 8080, "/a?b=c"));
/// assert_eq!(url.to_string(), "http://localhost:8080/a?b=c");
/// # Ok::<(), rudy_request::UrlError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Url {
    is_secure: bool,
    /// Without the brackets of an IPv6 address.
    host: String,
    port: u16,
    target: String,
}

/// The error of an invalid URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UrlError {
    text: String,
    reason: String,
}

impl fmt::Display for UrlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { text, reason } = self;
        write!(f, "{text:?} is not a URL: {reason} (expected http://HOST[:PORT]/PATH or https://…)")
    }
}

impl std::error::Error for UrlError {}

impl UrlError {
    /// An error for `text`, whose reason continues the sentence.
    #[must_use]
    pub fn new(text: &str, reason: &str) -> Self {
        Self { text: text.to_owned(), reason: reason.to_owned() }
    }
}

impl Url {
    /// Whether the scheme is `https`.
    #[must_use]
    pub fn is_secure(&self) -> bool {
        self.is_secure
    }

    /// The host: a name or an IP address, without the brackets of an IPv6 address.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port, by default that of the scheme.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The request target: path and query (RFC 9112 §3.2.1).
    #[must_use]
    pub fn target(&self) -> &str {
        &self.target
    }

    /// The value of the Host field, without the default port of the scheme (RFC 9110 §4.2).
    #[must_use]
    pub fn authority(&self) -> String {
        let host = self.bracketed_host();
        if self.port == default_port(self.is_secure) { host } else { format!("{host}:{}", self.port) }
    }

    /// Host and port, always with the port.
    #[must_use]
    pub fn host_and_port(&self) -> String {
        format!("{}:{}", self.bracketed_host(), self.port)
    }

    /// Whether one connection can carry requests for both URLs.
    #[must_use]
    pub fn same_origin(&self, other: &Self) -> bool {
        (self.is_secure, &self.host, self.port) == (other.is_secure, &other.host, other.port)
    }

    /// Resolves a `Location` field relative to this URL (RFC 3986 §5).
    pub fn join(&self, reference: &str) -> Result<Self, UrlError> {
        let reference = reference.split('#').next().unwrap_or_default();
        let scheme = if self.is_secure { "https" } else { "http" };
        if has_scheme(reference) {
            return reference.parse();
        }
        if let Some(rest) = reference.strip_prefix("//") {
            return format!("{scheme}://{rest}").parse();
        }
        let target = resolve(&self.target, reference);
        format!("{scheme}://{}{target}", self.authority()).parse()
    }

    fn bracketed_host(&self) -> String {
        if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() }
    }

    fn from_uri(uri: &Uri) -> Result<Self, String> {
        let is_secure = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            other => return Err(format!("{:?} is not a supported scheme", other.unwrap_or(""))),
        };
        let authority = uri.authority().ok_or("it has no host")?;
        if authority.as_str().contains('@') {
            return Err(
                "it contains a user name, which everyone who sees the URL could read; use -H instead".into(),
            );
        }
        let host = authority.host();
        let host = match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
            Some(address) => {
                address.parse::<IpAddr>().map_err(|_| format!("{host} is not an IPv6 address"))?.to_string()
            }
            None if host.is_empty() => return Err("it has no host".into()),
            None => host.to_ascii_lowercase(),
        };
        let port = match authority.port_u16() {
            Some(0) => return Err("port 0 is not valid".into()),
            Some(port) => port,
            None if authority.as_str().rsplit(']').next().is_some_and(|rest| rest.contains(':')) => {
                return Err("the text after the colon is not a port from 1 to 65535".into());
            }
            None => default_port(is_secure),
        };
        let target = uri.path_and_query().map_or("/", |target| target.as_str());
        let target = if target.starts_with('?') { format!("/{target}") } else { target.to_owned() };
        Ok(Self { is_secure, host, port, target })
    }
}

impl std::str::FromStr for Url {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, UrlError> {
        let error = |reason: String| UrlError { text: text.to_owned(), reason };
        let whole = text.split('#').next().unwrap_or_default();
        let whole = if has_scheme(whole) { whole.to_owned() } else { format!("http://{whole}") };
        let uri: Uri = whole.parse().map_err(|reason: http::uri::InvalidUri| error(reason.to_string()))?;
        Self::from_uri(&uri).map_err(error)
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_secure { "https" } else { "http" };
        write!(f, "{scheme}://{}{}", self.authority(), self.target)
    }
}

fn default_port(is_secure: bool) -> u16 {
    if is_secure { 443 } else { 80 }
}

/// Whether the text starts with `scheme://`, and not with `host:port`.
fn has_scheme(text: &str) -> bool {
    text.split_once("://").is_some_and(|(scheme, _)| {
        !scheme.is_empty()
            && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_parsed_and_normalized() {
        for (text, expected, authority) in [
            ("localhost", "http://localhost/", "localhost"),
            ("localhost:8080", "http://localhost:8080/", "localhost:8080"),
            ("http://a:80/b?c#d", "http://a/b?c", "a"),
            ("HTTPS://Example.ORG:443", "https://example.org/", "example.org"),
            ("https://a:80/", "https://a:80/", "a:80"),
            ("http://[::1]:81/x", "http://[::1]:81/x", "[::1]:81"),
            ("127.0.0.1:1?q=1", "http://127.0.0.1:1/?q=1", "127.0.0.1:1"),
        ] {
            let url: Url = text.parse().unwrap();
            assert_eq!((url.to_string().as_str(), url.authority().as_str()), (expected, authority), "{text}");
        }
    }

    #[test]
    fn invalid_urls_are_rejected_with_a_reason() {
        for (text, reason) in [
            ("", "not a URL"),
            ("ftp://a/", "scheme"),
            ("http:///x", "not a URL"),
            ("http://user:secret@a/", "user name"),
            ("http://a:0/", "port 0"),
            ("http://a:99999/", "not a URL"),
            ("http://a/b c", "not a URL"),
            ("http://[::g]/", "not a URL"),
        ] {
            let error = text.parse::<Url>().unwrap_err().to_string();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }

    #[test]
    fn references_are_resolved_as_in_rfc_3986_5_4() {
        let base: Url = "http://a/b/c/d;p?q".parse().unwrap();
        for (reference, expected) in [
            ("g", "http://a/b/c/g"),
            ("./g", "http://a/b/c/g"),
            ("g/", "http://a/b/c/g/"),
            ("/g", "http://a/g"),
            ("//g", "http://g/"),
            ("?y", "http://a/b/c/d;p?y"),
            ("g?y", "http://a/b/c/g?y"),
            ("g#s", "http://a/b/c/g"),
            ("", "http://a/b/c/d;p?q"),
            (".", "http://a/b/c/"),
            ("..", "http://a/b/"),
            ("../g", "http://a/b/g"),
            ("../..", "http://a/"),
            ("../../../g", "http://a/g"),
            ("/a?u=http://x/", "http://a/a?u=http://x/"),
            ("https://x:444/y", "https://x:444/y"),
        ] {
            assert_eq!(base.join(reference).unwrap().to_string(), expected, "{reference:?}");
        }
    }
}
