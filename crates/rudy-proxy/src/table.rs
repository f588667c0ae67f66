//! The table of the `proxy` handler.

use std::time::Duration;

use http::uri::PathAndQuery;
use rudy_client::{NameServer, Resolver};
use rudy_config::{FilePath, Int, Location, OneOrMany, Problem, Table, Words, missing};
use rudy_files::replacement::ReplacementTable;
use rudy_units::{Size, Time, Timeout};

use super::choice::UpstreamChoice;
use super::ejection::EjectionTable;
use super::health::HealthCheckTable;
use super::sticky::StickyTable;
use super::upgrade::UpgradeProtocol;
use super::url::UpstreamUrl;

/// Passes requests to an application over HTTP: a table, or the URL of the application alone.
#[derive(Debug, Clone, PartialEq, Eq, Table)]
#[setting(
    short(upstreams),
    what = "a URL (\"http://127.0.0.1:3000\") or a table",
    default,
    example = "http://127.0.0.1:3000"
)]
pub struct ProxyTable {
    /// URL of the upstream: `http://127.0.0.1:3000`, `https://app.example`, `h2c://127.0.0.1:50051` (HTTP/2 without TLS, as for gRPC) or
    /// `unix:/run/app.sock`. Of several, `choice` determines which one gets a request. Host names are resolved again every 30 s, and the
    /// addresses of a name share its `connections`. With a `resolver`, a name such as `http://_http._tcp.example.org` means the targets of
    /// its SRV records.
    #[setting(example = ["http://10.0.0.1:3000", "http://10.0.0.2:3000"])]
    pub upstreams: Option<OneOrMany<UpstreamTable>>,
    /// Name servers for the names of the upstreams, which are looked up again when their TTL ends: addresses, or `system` for those in
    /// `/etc/resolv.conf`. Only builds with the feature `resolver` have it. The default is to ask the system every 30 s.
    #[setting(example = "10.0.0.2", example = ["10.0.0.2", "10.0.0.3:5353"], example = "system")]
    pub resolver: Option<OneOrMany<NameServer>>,
    /// How one of several upstreams is chosen. `least-busy`: the one with fewer requests in progress, of two that are chosen at random.
    /// `round-robin`: one after the other. `hash:address`, `hash:path`, `hash:field:NAME`, `hash:cookie:NAME`: always the same one for the
    /// same client address, path, field or cookie, as long as it is up.
    pub choice: UpstreamChoice,
    /// The most requests at a time of an upstream that is chosen by `hash`, in percent of the average: with 150, an upstream gets no more
    /// than 1.5 times as many as the others on average, and further ones go to the next upstreams for their keys. The default is no limit.
    #[setting(example = 150)]
    pub hash_balance_factor: Option<Int<101, 10_000>>,
    /// Sends the requests of a client to the same upstream by a cookie, as long as that upstream is up: the name of the cookie, or a table.
    /// The first request goes to an upstream by `choice`.
    #[setting(example = "upstream")]
    pub sticky: Option<StickyTable>,
    /// When one of several upstreams gets no requests for a while, because it has failed.
    #[setting(example = { failures = 3 })]
    pub ejection: EjectionTable,
    /// Time in which the share of an upstream that returns grows from a tenth to its weight. The default is none.
    #[setting(example = "30s")]
    pub slow_start: Option<Timeout>,
    /// PEM file with the certificates to trust for `https` upstreams, and those signed by one of them, relative to the configuration file.
    /// The default is what the operating system trusts. The certificate must be valid for the host of the URL.
    #[setting(example = "ca.pem")]
    pub trusted_certificates: Option<FilePath>,
    /// Does not verify the certificates of `https` upstreams: a third party between Rudy and an upstream can read and change everything. Prefer
    /// `trusted_certificates` with the certificate of the upstream, also if it is self-signed.
    pub insecure_skip_verify: bool,
    /// PEM file with the certificate for `https` upstreams that ask for one, followed by those of its issuers.
    #[setting(example = "client.pem")]
    pub client_certificate: Option<FilePath>,
    /// PEM file with the private key of `client_certificate`, without a password.
    #[setting(example = "client.key")]
    pub client_key: Option<FilePath>,
    /// Sends the addresses of the client to the upstream at the start of each connection: a header of the PROXY protocol, version 2. Each
    /// request then uses a connection of its own, over HTTP/1.1.
    pub send_proxy_protocol: bool,
    /// Requests of Rudy that decide whether an upstream gets requests: the path, or a table. The default is none.
    #[setting(example = "/health")]
    pub health_check: Option<HealthCheckTable>,
    /// `Host` of the requests to the upstream: `client` passes on what the client sent, `upstream` sends the host of the URL.
    pub host: HostSource,
    /// Removes the folder of the route from the path: for `/app/*`, the upstream gets `/a` for `/app/a`.
    pub strip_prefix: bool,
    /// Prefix to add to the path, after `strip_prefix`: with `/v1`, the upstream gets `/v1/a` for `/a`.
    #[setting(example = "/v1")]
    pub add_prefix: Option<String>,
    /// Removes one level of percent-encoding from the path: the upstream gets `/%C3%A9` for `/%25C3%25A9`. For applications that encode the
    /// path in `X-Accel-Redirect` twice, because nginx decodes it.
    pub decode_path: bool,
    /// Rewrites `Location` and `Content-Location` of responses: the URL of an upstream becomes a path, and `strip_prefix` and `add_prefix`
    /// are reverted. An application that knows its address from `Host` and `X-Forwarded-Proto` does not need it.
    pub rewrite_location: bool,
    /// Rewrites `Set-Cookie` of responses: `strip_prefix` and `add_prefix` are reverted in `Path`, and a `Domain` that is the host of an
    /// upstream is removed.
    pub rewrite_cookies: bool,
    /// Also sends `Forwarded` (RFC 7239), besides `X-Forwarded-For`, `X-Forwarded-Proto` and `X-Forwarded-Host`.
    pub forwarded: bool,
    /// Maximum number of connections to each upstream, and of requests at a time over HTTP/2. Further requests wait in the queue.
    #[setting(default = Int(10_000), reason = "Well below the ports of one address, with room for many WebSockets. An application that serves fewer requests at once has a queue of its own.")]
    pub connections: Int<1, 65535>,
    /// Maximum number of requests that wait for a connection. Further requests get 503.
    #[setting(default = Int(1024), reason = "Each uses some kilobytes of memory.")]
    pub queue: Int<0, 1_000_000>,
    /// Maximum time that a request waits for a connection. After it, the request gets 503.
    #[setting(default = Time(Duration::from_secs(10)))]
    pub queue_timeout: Timeout,
    /// Time for establishing a connection to an upstream. After it, the request gets 504.
    #[setting(default = Time(Duration::from_secs(5)))]
    pub connect_timeout: Timeout,
    /// Maximum time from the request to the first byte of the response. After it, the request gets 504.
    #[setting(default = Time(Duration::from_mins(1)), reason = "The defaults of nginx.")]
    pub response_timeout: Timeout,
    /// Maximum time between two parts of a response. After it, the connection to the client is closed.
    #[setting(default = Time(Duration::from_mins(1)))]
    pub stall_timeout: Timeout,
    /// Time that an idle connection to an upstream stays open.
    #[setting(default = Time(Duration::from_mins(1)))]
    pub idle_timeout: Timeout,
    /// Also sends POST and other requests that are not idempotent again if their connection is lost. Then the application may execute them
    /// twice.
    pub retry_non_idempotent: bool,
    /// Statuses of responses after which another upstream gets the request, if the request is idempotent and its body can be sent again. Each
    /// upstream gets it once, and the client gets the last response. The default is none.
    #[setting(example = [502, 503, 504])]
    pub retry_statuses: Option<OneOrMany<Int<400, 599>>>,
    /// How much of a request body to receive before connecting to the upstream, so that slow clients do not occupy its connections.
    /// `auto`: up to its end or 64 KiB, whichever comes first; then the rest is passed on while it arrives. A body without a length
    /// (chunked) is received to its end, so that the application gets a `Content-Length`; with the request field `Incremental: ?1`, it is
    /// passed on at once. If all upstreams are `h2c`, nothing: their requests share connections. `full`: all of it, in a temporary file
    /// if it is large. `off`: nothing. Bodies of gRPC are always passed on at once.
    pub request_buffering: RequestBuffering,
    /// Protocols besides `websocket` and `tcp` to which a client may change its connection (`Upgrade`). HTTP and TLS are not possible.
    #[setting(example = ["tailscale-control-protocol"])]
    pub upgrade_protocols: Option<OneOrMany<UpgradeProtocol>>,
    /// Maximum time without data in a WebSocket or another tunnel. After it, the connection is closed.
    #[setting(default = Time(Duration::from_hours(1)), reason = "Many applications send no messages for minutes, and lost connections cost little.")]
    pub tunnel_idle_timeout: Timeout,
    /// Maximum time that a WebSocket or another tunnel stays open. The default is no limit.
    #[setting(example = "12h")]
    pub tunnel_lifetime: Option<Timeout>,
    /// Maximum size of the temporary file for one response, which frees the upstream when its client reads slowly. Beyond it, the
    /// upstream waits for the client. With 0, Rudy buffers 64 KiB in memory only. Never delays a response.
    #[setting(default = Size(1 << 30))]
    pub response_buffer: Size,
    /// What the upstreams may name instead of a response of their own.
    #[setting(part)]
    pub replacements: ReplacementTable,
    /// Whether only public addresses of names are used: the upstreams are not from the configuration.
    #[setting(skip)]
    pub only_public: bool,
}

/// An upstream: a table, or its URL alone.
#[derive(Debug, Clone, PartialEq, Eq, Table)]
#[setting(short(url), what = "the URL of an upstream (\"http://127.0.0.1:3000\") or a table")]
pub struct UpstreamTable {
    /// URL of the upstream.
    #[setting(example = "http://10.0.0.1:3000")]
    pub url: UpstreamUrl,
    /// Its share of the requests in relation to the other upstreams.
    #[setting(default = Int(1))]
    pub weight: Int<1, 1000>,
    /// Sends it requests only while all upstreams that are no backups are ejected, unhealthy, drained, or have failed to serve the request.
    #[setting(default = false)]
    pub backup: bool,
}

/// The source of `Host` in requests to an upstream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Words)]
pub enum HostSource {
    /// The request of the client.
    #[default]
    Client,
    /// The URL of the upstream.
    Upstream,
}

/// How much of a request body is received before connecting to the upstream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Words)]
pub enum RequestBuffering {
    /// Up to its end or 64 KiB, or all of it if it has no length; nothing if all upstreams are `h2c`.
    #[default]
    Auto,
    /// All of it.
    Full,
    /// Nothing.
    Off,
}

impl ProxyTable {
    /// Returns the problems that the types of the table cannot express.
    pub(super) fn problems(&self, location: &Location) -> Vec<Problem> {
        let mut problems = Vec::new();
        if self.upstreams.is_none() {
            problems.push(missing(&(), location, "upstreams").unless_invalid(&location.key("upstreams")));
        }
        let is_path = |prefix: &str| {
            prefix.starts_with('/') && prefix.parse::<PathAndQuery>().is_ok_and(|path| path.query().is_none())
        };
        if let Some(prefix) = self.add_prefix.as_deref().filter(|prefix| !is_path(prefix)) {
            let problem = Problem::value(&location.key("add_prefix"), format!("\"{prefix}\" is not a path"));
            problems.push(problem.label("expected a path that begins with a slash, as in \"/v1\""));
        }
        problems.extend(self.problem_of_pair(location));
        problems.extend(self.problem_of_service(location));
        if self.insecure_skip_verify && self.trusted_certificates.is_some() {
            let key = location.key("insecure_skip_verify");
            let title = "`insecure_skip_verify` and `trusted_certificates` exclude each other";
            problems.push(
                Problem::key(&key, title).label("remove it: the certificates are verified with the file"),
            );
        }
        if self.hash_balance_factor.is_some() && !matches!(self.choice, UpstreamChoice::Hash(_)) {
            let title = "`hash_balance_factor` has no effect without a choice by hash".to_owned();
            let problem = Problem::key(&location.key("hash_balance_factor"), title);
            problems.push(problem.label("expected a choice, as in `choice = \"hash:path\"`"));
        }
        problems.extend(self.problem_of_backups(location));
        problems.extend(self.problem_of_retries(location));
        if self.send_proxy_protocol && self.urls().any(UpstreamUrl::is_http2) {
            let title = "`send_proxy_protocol` and `h2c` upstreams exclude each other";
            let problem = Problem::key(&location.key("send_proxy_protocol"), title.to_owned());
            problems
                .push(problem.label("a header is for one client, but requests share connections of HTTP/2"));
        }
        problems
    }

    /// Returns the problem of backups alone.
    fn problem_of_backups(&self, location: &Location) -> Option<Problem> {
        let is_wrong =
            !self.upstreams().is_empty() && self.upstreams().iter().all(|upstream| upstream.backup);
        let problem = || Problem::key(&location.key("upstreams"), "all upstreams are backups".to_owned());
        is_wrong.then(|| problem().label("remove `backup` from those that get requests first"))
    }

    /// Returns the problem of a setting that needs another upstream.
    fn problem_of_retries(&self, location: &Location) -> Option<Problem> {
        let has_others = self.upstreams().len() > 1 || self.urls().any(|url| url.service().is_some());
        let title = "`retry_statuses` has no effect with a single upstream";
        let problem = || Problem::key(&location.key("retry_statuses"), title.to_owned());
        let is_wrong = self.retry_statuses.is_some() && self.upstreams.is_some() && !has_others;
        is_wrong.then(|| problem().label("remove it, or add the upstream that gets the requests instead"))
    }

    /// Returns the problem of a client certificate without its key, or the reverse.
    fn problem_of_pair(&self, location: &Location) -> Option<Problem> {
        match (&self.client_certificate, &self.client_key) {
            (Some(_), None) => Some(missing(&(), location, "client_key")),
            (None, Some(_)) => Some(missing(&(), location, "client_certificate")),
            _ => None,
        }
    }

    /// Returns the problem of an upstream with SRV records and of settings that exclude them.
    fn problem_of_service(&self, location: &Location) -> Option<Problem> {
        let of_service = |upstream: &&UpstreamTable| upstream.url.service().is_some();
        let UpstreamTable { url, weight, .. } = self.upstreams().iter().find(of_service)?;
        let (key, why) = if self.resolver.is_none() {
            ("upstreams", format!("{url} has SRV records: add name servers, as in `resolver = \"system\"`"))
        } else if self.sticky.is_some() {
            (
                "sticky",
                format!(
                    "`sticky` and the SRV records of {url} exclude each other: use `choice = \"hash:cookie:NAME\"`"
                ),
            )
        } else if *weight != Int(1) {
            ("upstreams", format!("the SRV records of {url} state the weights: remove `weight`"))
        } else {
            return None;
        };
        Some(Problem::key(&location.key(key), why))
    }

    /// Returns what resolves the names of the upstreams.
    ///
    /// # Errors
    ///
    /// See [`Resolver::new`].
    pub(super) fn resolver(&self) -> Result<Resolver, String> {
        match &self.resolver {
            Some(servers) => Resolver::new(servers.as_slice()),
            None if self.only_public => Ok(Resolver::Public),
            None => Ok(Resolver::System),
        }
    }

    /// Returns the statuses of responses after which another upstream gets the request.
    pub(super) fn retry_statuses(&self) -> impl Iterator<Item = &Int<400, 599>> {
        self.retry_statuses.iter().flat_map(OneOrMany::as_slice)
    }

    /// Returns the upstreams.
    pub(super) fn upstreams(&self) -> &[UpstreamTable] {
        self.upstreams.as_ref().map_or(&[], OneOrMany::as_slice)
    }

    /// Returns the URLs of the upstreams.
    pub(super) fn urls(&self) -> impl Iterator<Item = &UpstreamUrl> {
        self.upstreams().iter().map(|upstream| &upstream.url)
    }
}

/// A proxy for these upstreams, with defaults.
impl FromIterator<UpstreamUrl> for ProxyTable {
    fn from_iter<I: IntoIterator<Item = UpstreamUrl>>(urls: I) -> Self {
        Self { upstreams: Some(urls.into_iter().map(Into::into).collect()), ..Self::default() }
    }
}
