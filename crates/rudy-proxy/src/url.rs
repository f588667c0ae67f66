//! The URL of an upstream in a configuration.

use std::fmt;
use std::str::FromStr;

use http::HeaderValue;
use rudy_client::{Endpoint, UpstreamAddress};
use rudy_config::written_as_text;
use rudy_pipeline::routing::without_port;
use rudy_units::visible;

/// The URL of an upstream: `http://127.0.0.1:3000`, `https://app.example`, `h2c://127.0.0.1:50051`, `unix:/run/app.sock`, or
/// `http://_http._tcp.example.org` for the targets of SRV records.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct UpstreamUrl {
    /// Where to connect.
    pub(super) destination: Destination,
    /// The host and port as they were written, for `Host`. Of a service, its domain.
    authority: String,
    scheme: Scheme,
}

/// Where to connect.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Destination {
    /// To an address.
    Address(UpstreamAddress),
    /// To the targets of the SRV records of this name (RFC 2782).
    Service(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Scheme {
    Http,
    /// HTTP/2 or HTTP/1.1 over TLS.
    Https,
    /// HTTP/2 without TLS. IANA has no scheme for it; `h2c` is that of Caddy, and its name in HTTP/1.1 (RFC 7540 §3.1).
    H2c,
    /// No HTTP: an upstream of connections. No URL of the configuration has it.
    Tcp,
}

impl Scheme {
    const ALL: [Self; 3] = [Self::Http, Self::Https, Self::H2c];

    fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
            Self::H2c => "h2c",
            Self::Tcp => "tcp",
        }
    }
}

/// `Host` of a Unix socket, which has no name.
const HOST_OF_UNIX_SOCKET: &str = "localhost";

impl UpstreamUrl {
    /// The URL of an upstream of connections that do not speak HTTP.
    pub(super) fn of_connections(address: UpstreamAddress) -> Self {
        let authority = address.to_string();
        Self { destination: Destination::Address(address), authority, scheme: Scheme::Tcp }
    }

    /// Returns the name in the certificate of the upstream: its host without brackets. `None` without TLS. Of a service, that is its domain:
    /// DNS is not authenticated, so it cannot name the host to trust (RFC 9525 §6.2).
    pub(super) fn tls_name(&self) -> Option<&str> {
        (self.scheme == Scheme::Https).then(|| self.host_name().trim_matches(['[', ']']))
    }

    /// Returns the host without the port.
    #[must_use]
    pub fn host_name(&self) -> &str {
        std::str::from_utf8(without_port(self.authority.as_bytes())).unwrap_or(&self.authority)
    }

    /// Returns the origin of its resources, as in `http://127.0.0.1:3000`.
    #[must_use]
    pub fn origin(&self) -> String {
        let scheme = if self.scheme == Scheme::Https { "https" } else { "http" };
        format!("{scheme}://{}", self.authority)
    }

    /// Returns the name with SRV records, if it has them.
    pub(super) fn service(&self) -> Option<&str> {
        match &self.destination {
            Destination::Address(_) => None,
            Destination::Service(name) => Some(name),
        }
    }

    /// Returns the name of a member with this address: the URL, or that of a target of the service.
    pub(super) fn of_member(&self, endpoint: &Endpoint) -> String {
        match &self.destination {
            Destination::Address(_) => self.to_string(),
            Destination::Service(_) => format!("{}://{endpoint}", self.scheme.name()),
        }
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
            let destination = Destination::Address(text.parse()?);
            return Ok(Self { destination, authority: HOST_OF_UNIX_SOCKET.to_owned(), scheme: Scheme::Http });
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
        Scheme::Http | Scheme::H2c | Scheme::Tcp => ":80",
    };
    let address = format!("{authority}{port}").parse()?;
    if let Some(domain) = domain_of_service(authority) {
        if port.is_empty() {
            let name = without_port(authority.as_bytes()).escape_ascii();
            return Err(format!("SRV records state the ports: write \"{scheme}://{name}\""));
        }
        let destination = Destination::Service(authority.to_owned());
        return Ok(UpstreamUrl { destination, authority: domain.to_owned(), scheme: known });
    }
    let destination = Destination::Address(address);
    Ok(UpstreamUrl { destination, authority: authority.to_owned(), scheme: known })
}

/// Returns the domain of a name of SRV records: that of `_http._tcp.example.org` is `example.org`. No host has such a name.
fn domain_of_service(authority: &str) -> Option<&str> {
    let (_, rest) = authority.strip_prefix('_')?.split_once('.')?;
    let (transport, domain) = rest.split_at_checked("_tcp.".len())?;
    (transport.eq_ignore_ascii_case("_tcp.") && !domain.is_empty()).then_some(domain)
}

/// Returns whether a colon follows the host; those of an IPv6 address are in brackets.
fn has_port(authority: &str) -> bool {
    authority.rsplit_once(']').map_or(authority, |(_, port)| port).contains(':')
}

written_as_text!(UpstreamUrl, "the URL of an upstream (\"http://127.0.0.1:3000\")", {
    doc: "The URL of an upstream: its scheme, host and port, or a Unix socket.",
    examples: ["http://127.0.0.1:3000", "https://app.example", "h2c://127.0.0.1:50051", "unix:/run/app.sock", "http://_http._tcp.example.org"],
});

impl fmt::Display for UpstreamUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.destination {
            Destination::Address(UpstreamAddress::Unix(path)) => write!(f, "unix:{}", path.display()),
            Destination::Address(_) => write!(f, "{}://{}", self.scheme.name(), self.authority),
            Destination::Service(name) => write!(f, "{}://{name}", self.scheme.name()),
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
            let Destination::Address(given) = &url.destination else { panic!("{text} is a service") };
            assert_eq!((given.to_string().as_str(), url.host().to_str().unwrap()), (address, host), "{text}");
        }
    }

    #[test]
    fn a_url_with_the_name_of_srv_records_has_the_host_of_their_domain() {
        for (text, is_https) in
            [("http://_http._tcp.example.org", false), ("https://_a-b._TCP.example.org", true)]
        {
            let url: UpstreamUrl = text.parse().unwrap_or_else(|why| panic!("{text}: {why}"));
            assert_eq!(url.to_string(), text);
            assert_eq!(url.service(), text.split_once("://").map(|(_, name)| name));
            assert_eq!(url.host(), "example.org");
            assert_eq!(url.tls_name(), is_https.then_some("example.org"));
        }
        for text in
            ["http://_http.example.org", "http://http._tcp.example.org", "http://_udp._tc.example.org"]
        {
            assert_eq!(text.parse::<UpstreamUrl>().unwrap().service(), None, "{text}");
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
            ("http://_http._tcp.a:80", "SRV records state the ports: write \"http://_http._tcp.a\""),
            ("http://a:0", "\"0\" is not a port"),
            ("http://a b", "is not a host name"),
            ("unix:", "the path is missing"),
        ] {
            let why = text.parse::<UpstreamUrl>().expect_err(text);
            assert!(why.contains(expected), "{text}: {why}");
        }
    }
}
