//! The URL of an upstream in a configuration.

use std::fmt;
use std::str::FromStr;

use http::HeaderValue;

use crate::config::{visible, written_as_text};
use crate::routing::without_port;
use crate::upstream::UpstreamAddress;

/// The URL of an upstream: `http://127.0.0.1:3000`, `https://app.example`, `h2c://127.0.0.1:50051` or `unix:/run/app.sock`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct UpstreamUrl {
    /// Where to connect.
    pub(super) address: UpstreamAddress,
    /// The host and port as they were written, for `Host`.
    authority: String,
    scheme: Scheme,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Scheme {
    Http,
    /// HTTP/2 or HTTP/1.1 over TLS.
    Https,
    /// HTTP/2 without TLS. IANA has no scheme for it; `h2c` is that of Caddy, and its name in HTTP/1.1 (RFC 7540 §3.1).
    H2c,
}

impl Scheme {
    const ALL: [Self; 3] = [Self::Http, Self::Https, Self::H2c];

    fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
            Self::H2c => "h2c",
        }
    }
}

/// Describes the text, for error messages.
pub(super) const URL: &str = "the URL of an upstream (\"http://127.0.0.1:3000\")";

/// `Host` of a Unix socket, which has no name.
const HOST_OF_UNIX_SOCKET: &str = "localhost";

impl UpstreamUrl {
    /// Returns the name in the certificate of the upstream: its host without brackets. `None` without TLS.
    pub(super) fn tls_name(&self) -> Option<&str> {
        (self.scheme == Scheme::Https).then(|| self.host_name().trim_matches(['[', ']']))
    }

    /// Returns the host without the port.
    pub(crate) fn host_name(&self) -> &str {
        std::str::from_utf8(without_port(self.authority.as_bytes())).unwrap_or(&self.authority)
    }

    /// Returns the origin of its resources, as in `http://127.0.0.1:3000`.
    pub(crate) fn origin(&self) -> String {
        let scheme = if self.scheme == Scheme::Https { "https" } else { "http" };
        format!("{scheme}://{}", self.authority)
    }

    /// Returns whether the upstream speaks HTTP/2 without TLS.
    pub(super) fn is_http2(&self) -> bool {
        self.scheme == Scheme::H2c
    }

    /// Returns the value of `Host` that names the upstream.
    pub(super) fn host(&self) -> HeaderValue {
        // An authority that was parsed is ASCII without control characters.
        HeaderValue::from_str(&self.authority).unwrap_or(HeaderValue::from_static(HOST_OF_UNIX_SOCKET))
    }
}

impl FromStr for UpstreamUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.starts_with("unix:") {
            let address = text.parse()?;
            return Ok(Self { address, authority: HOST_OF_UNIX_SOCKET.to_owned(), scheme: Scheme::Http });
        }
        parse(text).map_err(|why| visible(&why))
    }
}

/// Parses a URL that does not name a Unix socket.
fn parse(text: &str) -> Result<UpstreamUrl, String> {
    let Some((scheme, rest)) = text.split_once("://") else {
        return Err(if text.is_empty() || text.starts_with('/') {
            "expected a URL, as in \"http://127.0.0.1:3000\" or \"unix:/run/app.sock\"".to_owned()
        } else {
            // A port alone is one of this machine.
            let port = text.strip_prefix(':').unwrap_or(text);
            let is_port = port.parse::<u16>().is_ok();
            let authority = if is_port { format!("127.0.0.1:{port}") } else { text.to_owned() };
            format!("the scheme is missing: write \"http://{authority}\"")
        });
    };
    let Some(known) = Scheme::ALL.into_iter().find(|known| scheme.eq_ignore_ascii_case(known.name())) else {
        return Err(format!("the scheme \"{scheme}\" is not supported: write \"http://{rest}\""));
    };
    let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    if !matches!(path, "" | "/") {
        return Err(format!(
            "an upstream has no path: write \"{scheme}://{authority}\", and `add_prefix = \"{path}\"` in a table"
        ));
    }
    if authority.contains('@') {
        return Err(
            "user names and passwords in URLs are not supported: remove the part up to \"@\"".to_owned()
        );
    }
    let port = match known {
        _ if has_port(authority) => "",
        Scheme::Https => ":443",
        Scheme::Http | Scheme::H2c => ":80",
    };
    let address = format!("{authority}{port}").parse()?;
    Ok(UpstreamUrl { address, authority: authority.to_owned(), scheme: known })
}

/// Returns whether a colon follows the host; those of an IPv6 address are in brackets.
fn has_port(authority: &str) -> bool {
    authority.rsplit_once(']').map_or(authority, |(_, port)| port).contains(':')
}

written_as_text!(UpstreamUrl, "the URL of an upstream (\"http://127.0.0.1:3000\")",
    { "type": "string", "description": "The URL of an upstream: its scheme, host and port, or a Unix socket.", "examples": ["http://127.0.0.1:3000", "https://app.example", "h2c://127.0.0.1:50051", "unix:/run/app.sock"] });

impl fmt::Display for UpstreamUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.address {
            UpstreamAddress::Unix(path) => write!(f, "unix:{}", path.display()),
            _ => write!(f, "{}://{}", self.scheme.name(), self.authority),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_an_address_and_a_host() {
        for (text, address, host) in [
            ("http://127.0.0.1:3000", "127.0.0.1:3000", "127.0.0.1:3000"),
            ("http://app", "app:80", "app"),
            ("https://app", "app:443", "app"),
            ("https://app:8443", "app:8443", "app:8443"),
            ("HTTP://app:8080/", "app:8080", "app:8080"),
            ("h2c://app:50051", "app:50051", "app:50051"),
            ("http://[::1]", "[::1]:80", "[::1]"),
            ("http://[::1]:81", "[::1]:81", "[::1]:81"),
            ("unix:/run/app.sock", "unix:/run/app.sock", "localhost"),
        ] {
            let url: UpstreamUrl = text.parse().unwrap_or_else(|why| panic!("{text}: {why}"));
            assert_eq!(
                (url.address.to_string().as_str(), url.host().to_str().unwrap()),
                (address, host),
                "{text}"
            );
        }
    }

    #[test]
    fn an_invalid_url_is_an_error_with_a_suggestion() {
        for (text, expected) in [
            ("", "as in \"http://127.0.0.1:3000\""),
            ("/run/app.sock", "\"unix:/run/app.sock\""),
            ("127.0.0.1:3000", "write \"http://127.0.0.1:3000\""),
            ("3000", "write \"http://127.0.0.1:3000\""),
            (":3000", "write \"http://127.0.0.1:3000\""),
            ("tcp://a:1", "the scheme \"tcp\" is not supported: write \"http://a:1\""),
            ("http://a/b", "write \"http://a\", and `add_prefix = \"/b\"`"),
            ("http://u:p@a", "remove the part up to \"@\""),
            ("http://", "the host is missing"),
            ("http://a:0", "\"0\" is not a port"),
            ("http://a b", "is not a host name"),
            ("unix:", "the path is missing"),
        ] {
            let why = text.parse::<UpstreamUrl>().expect_err(text);
            assert!(why.contains(expected), "{text}: {why}");
        }
    }
}
