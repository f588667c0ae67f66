//! The settings of forward authentication.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use http::uri::PathAndQuery;
use http::{HeaderName, header};
use rudy_config::{FilePath, HeaderFieldName, Location, OneOrMany, Problem, Table, written_as_text};
use rudy_pipeline::field_changes::is_of_connection;
use rudy_pipeline::request_state::REMOTE_USER;
use rudy_proxy::{HostSource, Proxy, ProxyTable, UpstreamUrl};
use rudy_units::{Time, Timeout, visible};

/// The fields that Authelia, Authentik and others send about a user.
const COPIED: [&str; 4] = ["remote-user", "remote-groups", "remote-name", "remote-email"];

/// An authorizer that is asked about each request: a table, or its URL alone.
#[derive(Debug, Clone, PartialEq, Eq, Table)]
#[setting(short(url), what = "the URL of an authorizer (\"http://127.0.0.1:9091/verify\") or a table")]
pub struct ForwardAuthTable {
    /// URL of the authorizer, with its path: `http://127.0.0.1:9091/api/authz/forward-auth`, `https://auth.example.org/verify`, or
    /// `unix:/run/auth.sock:/verify`.
    #[setting(example = "http://127.0.0.1:9091/api/authz/forward-auth")]
    pub url: AuthorizerUrl,
    /// Header fields that are copied from a 2xx response into the request. Those of the client are removed in every spelling, whether
    /// the authorizer sends them or not. `[]` copies none. The default is
    /// `Remote-User`, `Remote-Groups`, `Remote-Name` and `Remote-Email`.
    #[setting(example = ["X-Auth-Request-User"])]
    pub copy: Option<OneOrMany<HeaderFieldName, 0>>,
    /// Maximum time until the response. After it, the request gets 504.
    #[setting(default = Time(Duration::from_secs(10)), reason = "Users wait for it before each page.", example = "5s")]
    pub timeout: Timeout,
    /// PEM file with the certificates to trust for an `https` URL, as in `proxy`. The default is what the operating system trusts.
    #[setting(example = "ca.pem")]
    pub trusted_certificates: Option<FilePath>,
}

impl ForwardAuthTable {
    /// Returns the names of the fields to copy.
    pub fn copied(&self) -> Vec<HeaderName> {
        match &self.copy {
            Some(names) => names.as_slice().iter().map(|name| name.0.clone()).collect(),
            None => COPIED.map(HeaderName::from_static).to_vec(),
        }
    }

    /// Whether one of the copied fields is the user.
    #[must_use]
    pub fn names_user(&self) -> bool {
        self.copied().contains(&REMOTE_USER)
    }

    /// Reports fields that cannot be copied.
    fn problems(&self, location: &Location) -> Vec<Problem> {
        let is_ours = |name: &&HeaderName| is_of_connection(name) || **name == header::HOST;
        let copied = self.copied();
        let invalid = copied.iter().filter(is_ours).map(|name| {
            let problem = Problem::value(&location.key("copy"), format!("{name} cannot be copied"));
            problem.label("the server sets it for each request")
        });
        invalid.collect()
    }

    /// Returns the proxy that sends the requests.
    ///
    /// # Errors
    ///
    /// All problems of the table.
    pub(super) fn proxy(&self, location: &Location) -> Result<Proxy, Vec<Problem>> {
        let problems = self.problems(location);
        if !problems.is_empty() {
            return Err(problems);
        }
        let table = ProxyTable {
            trusted_certificates: self.trusted_certificates.clone(),
            host: HostSource::Upstream,
            response_timeout: self.timeout,
            queue_timeout: self.timeout,
            ..ProxyTable::from_iter([self.url.upstream.clone()])
        };
        table.proxy(location, format!("forward_auth {}", self.url))
    }
}

/// The URL of an authorizer, with its path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthorizerUrl {
    upstream: UpstreamUrl,
    pub(super) target: String,
}

impl FromStr for AuthorizerUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // The path follows the host, or the path of the socket and a colon, as in nginx.
        let start = match text.strip_prefix("unix:") {
            Some(socket) => socket.rfind(":/").map(|colon| ("unix:".len() + colon, 1)),
            None => text.find("://").and_then(|scheme| {
                let host = scheme + "://".len();
                text[host..].find(['/', '?']).map(|slash| (host + slash, 0))
            }),
        };
        let (upstream, path) = match start {
            Some((end, skipped)) => (&text[..end], &text[end + skipped..]),
            None => (text, "/"),
        };
        let target: PathAndQuery = path
            .parse()
            .map_err(|_| format!("\"{}\" is not a path: write it as in \"/verify\"", visible(path)))?;
        Ok(Self { upstream: upstream.parse()?, target: target.to_string() })
    }
}

impl fmt::Display for AuthorizerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let upstream = self.upstream.to_string();
        let colon = if upstream.starts_with("unix:") { ":" } else { "" };
        write!(f, "{upstream}{colon}{}", self.target)
    }
}

written_as_text!(AuthorizerUrl, "the URL of an authorizer (\"http://127.0.0.1:9091/verify\")", {
    doc: "The URL of an authorizer: its scheme, host, port and path, or a Unix socket, a colon and a path.",
    examples: ["http://127.0.0.1:9091/verify", "unix:/run/auth.sock:/verify"],
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_has_a_path() {
        for (text, target, shown) in [
            (
                "http://127.0.0.1:9091/api/verify?a=b",
                "/api/verify?a=b",
                "http://127.0.0.1:9091/api/verify?a=b",
            ),
            ("http://127.0.0.1:9091", "/", "http://127.0.0.1:9091/"),
            ("https://auth.example.org/", "/", "https://auth.example.org/"),
            ("unix:/run/auth.sock:/verify", "/verify", "unix:/run/auth.sock:/verify"),
            ("unix:/run/auth.sock", "/", "unix:/run/auth.sock:/"),
        ] {
            let url: AuthorizerUrl = text.parse().unwrap_or_else(|why| panic!("{text}: {why}"));
            assert_eq!((url.target.as_str(), url.to_string().as_str()), (target, shown), "{text}");
        }
        for text in ["", "127.0.0.1:9091/verify", "http://u:p@a/", "http://a/b c", "/verify"] {
            assert!(text.parse::<AuthorizerUrl>().is_err(), "{text}");
        }
    }
}
