//! The settings of forward authentication.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use http::uri::PathAndQuery;
use http::{HeaderName, header};
use rudy_config::{FilePath, Location, Problem, Table, written_as_text};
use rudy_pipeline::field_changes::is_of_connection;
use rudy_pipeline::internal_redirect::BODY_FIELDS;
use rudy_pipeline::request_state::REMOTE_USER;
use rudy_proxy::{HostSource, Proxy, ProxyTable, UpstreamUrl};
use rudy_units::{Time, Timeout, visible};

use super::copy::{Copied, CopiedFields};
use super::login::LoginUrl;

/// The fields that Authelia, Authentik and others send about a user.
const COPIED: [&str; 4] = ["remote-user", "remote-groups", "remote-name", "remote-email"];

/// The fields in which clients send what authorizers and applications verify.
pub(super) const CREDENTIALS: [HeaderName; 3] =
    [header::AUTHORIZATION, header::COOKIE, header::PROXY_AUTHORIZATION];

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
    /// `Remote-User`, `Remote-Groups`, `Remote-Name` and `Remote-Email`. A table gives them other names in the request:
    /// `{ X-Auth-Request-User = "Remote-User" }`. Then the client's fields with both names are removed.
    #[setting(example = ["X-Auth-Request-User"], example = { "X-Auth-Request-User" = "Remote-User" })]
    pub copy: Option<CopiedFields>,
    /// URL or path of a login page, to which browsers are redirected if the authorizer responds with 401. `{url}` is the percent-encoded
    /// URL of the request, and `{uri}` its path and query. Clients that do not prefer HTML get the 401.
    #[setting(example = "https://auth.example.org/?rd={url}")]
    pub login: Option<LoginUrl>,
    /// Maximum time until the response. After it, the request gets 504.
    #[setting(default = Time(Duration::from_secs(10)), reason = "Users wait for it before each page.", example = "5s")]
    pub timeout: Timeout,
    /// PEM file with the certificates to trust for an `https` URL, as in `proxy`. The default is what the operating system trusts.
    #[setting(example = "ca.pem")]
    pub trusted_certificates: Option<FilePath>,
}

impl ForwardAuthTable {
    /// Returns the fields to copy.
    pub(super) fn copied(&self) -> Vec<Copied> {
        match &self.copy {
            Some(fields) => fields.0.clone(),
            None => COPIED.map(HeaderName::from_static).map(Copied::same).to_vec(),
        }
    }

    /// Returns the names of the fields that only the authorizer sets: those of requests, and its own, which an application may trust
    /// without another name. Credentials are from clients, and the authorizer needs them.
    pub fn reserved_fields(&self) -> impl Iterator<Item = HeaderName> {
        let names = self.copied().into_iter().flat_map(|field| [field.from, field.to]);
        names.filter(|name| !CREDENTIALS.contains(name) && !BODY_FIELDS.contains(name))
    }

    /// Whether one of the copied fields is the user.
    #[must_use]
    pub fn names_user(&self) -> bool {
        self.copied().iter().any(|field| field.to == REMOTE_USER)
    }

    /// Reports fields that cannot be copied.
    fn problems(&self, location: &Location) -> Vec<Problem> {
        let location = location.key("copy");
        let mut names: Vec<_> = self.copied().into_iter().map(|field| field.to).collect();
        let is_ours = |name: &&HeaderName| is_of_connection(name) || **name == header::HOST;
        let invalid = names.iter().filter(is_ours).map(|name| {
            let problem = Problem::value(&location, format!("{name} cannot be copied"));
            problem.label("the server sets it for each request")
        });
        let mut problems: Vec<_> = invalid.collect();
        names.sort_by(|one, other| one.as_str().cmp(other.as_str()));
        problems.extend(names.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| {
            Problem::value(&location, format!("two fields are copied to {}", pair[0]))
                .label("give each its own name")
        }));
        problems
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

    fn table(copy: &str) -> ForwardAuthTable {
        type Tables = std::collections::BTreeMap<String, ForwardAuthTable>;
        let text = format!("a = {{ url = 'http://127.0.0.1/', copy = {copy} }}");
        rudy_config::from_text::<Tables>(&text).unwrap().remove("a").unwrap()
    }

    #[test]
    fn fields_are_copied_with_their_names_or_others() {
        for (copy, expected, names_user) in [
            ("'X-User'", &["x-user x-user"][..], false),
            ("['Remote-User', 'X-B']", &["remote-user remote-user", "x-b x-b"], true),
            ("[]", &[], false),
            ("{ X-B = 'X-C', X-User = 'Remote-User' }", &["x-b x-c", "x-user remote-user"], true),
            ("{ Remote-User = 'X-User' }", &["remote-user x-user"], false),
            ("{}", &[], false),
        ] {
            let table = table(copy);
            let copied: Vec<_> =
                table.copied().iter().map(|field| format!("{} {}", field.from, field.to)).collect();
            assert_eq!(
                (&*copied, table.names_user()),
                (&*expected.iter().map(ToString::to_string).collect::<Vec<_>>(), names_user),
                "{copy}"
            );
            assert!(table.problems(&Location::file(0)).is_empty(), "{copy}");
        }
        for copy in ["'Host'", "{ X-A = 'Connection' }", "{ X-A = 'X-C', X-B = 'x-c' }", "['X-C', 'x-c']"] {
            assert_eq!(table(copy).problems(&Location::file(0)).len(), 1, "{copy}");
        }
    }

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
