//! The configuration: the tables of `rudy.toml`, and what it says about mistakes in them. The doc comments are the descriptions in
//! `docs/rudy.schema.json`, in the reference and in the manual.

pub(crate) mod acme;
mod buffer;
mod cache;
pub(crate) mod client_address;
mod describe;
mod engine;
mod fastcgi;
mod handler;
mod hints;
pub(crate) mod http3;
mod include;
pub(crate) mod limits;
mod listen;
mod load;
mod logs;
mod origins;
mod other_formats;
mod other_servers;
mod path_info;
mod schema;
mod site;
mod start;
pub(crate) mod tcp;
#[cfg(test)]
mod tests;
pub(crate) mod tls;
mod values;

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use rudy_caching::StoreTable;
use rudy_client::buffer::Options as BufferOptions;
use rudy_config::{Int, Location, OrOff, Placeholders, Sources, Table};
use rudy_files::FilesTable;
use rudy_log::ErrorLogOptions;
use rudy_pipeline::client_address::Options as ClientAddress;
use rudy_pipeline::exchange::RequestIdTable;
use rudy_pipeline::routing::Maps;
use rudy_service::listen_address::{Address, Endpoint};
use rudy_units::Time;
use rudy_watch::traces::TracingTable;

use self::limits::LimitsTable;
use self::values::Addresses;
use crate::step_settings::StepsTable;
pub use engine::EngineOptions;
pub use handler::HandlerTable;
pub use http3::CongestionControl;
pub(crate) use listen::conflicts as conflicting_addresses;
pub use rudy_config::{Diagnostics, FilePath};
pub use rudy_site_tls::acme::{AcmeTable, ChallengeName};
pub use rudy_site_tls::{CertificateSource, HstsTable, TlsTable};
pub use rudy_watch::access_log::AccessLogOptions;
pub use schema::json_schema;
pub use site::{Route, Site};
pub use tcp::{Connections, TcpTable};

/// The configuration file of Rudy, a web server.
///
/// Paths are resolved. [`App::new`](crate::App::new) checks that the parts fit together.
#[derive(Debug, Clone, Table)]
#[setting(default)]
pub struct Config {
    /// Addresses of the sites that have no `listen` of their own: `127.0.0.1:8080`, `[::1]:80`, `8080` or `:8080` (all addresses of this
    /// machine), `unix:/run/rudy.sock` or `unix:/run/rudy.sock,mode=660` (a Unix socket, with permissions), `systemd`
    /// or `systemd:NAME` (sockets passed by systemd). The default is `127.0.0.1:8080`. Append `,tls` for
    /// HTTPS, `,h2c` to accept HTTP/2 without TLS as well, and `,proxy_protocol` to require a PROXY protocol header (version 1 or 2) on each connection; the peer must be one of
    /// `trusted_proxies`.
    #[setting(name = "listen")]
    pub given_addresses: Option<Addresses>,
    /// The addresses of sites that have none of their own, after those that are given, or the default.
    #[setting(skip, default = vec![Endpoint::Ip(([127, 0, 0, 1], 8080).into()).into()])]
    pub listen: Vec<Address>,
    /// The engine and its settings.
    #[setting(part)]
    pub engine: EngineOptions,
    /// Offers HTTP/2 to clients over TLS. The engines `thread`, `pool:N` and `serial` speak only
    /// HTTP/1.1, because a connection occupies a thread.
    #[setting(default = true)]
    pub http2: bool,
    /// Serves HTTP/3 at the addresses with the option `,tls`, over UDP at the same port, and offers it to clients over TCP (`Alt-Svc`).
    /// Addresses of systemd and those with `proxy_protocol` do not have it, nor do engines other than `percore`. A site can switch it off.
    #[setting(default = true)]
    pub http3: bool,
    /// The algorithm that decides how much HTTP/3 connections send: `cubic` (RFC 9438), or `bbr`, which reacts less to loss. That of
    /// quinn-proto is experimental. A change is for new connections.
    #[setting(default = CongestionControl::Cubic, example = "bbr")]
    pub http3_congestion: CongestionControl,
    /// The settings of buffered bodies.
    #[setting(part)]
    pub buffer: BufferOptions,
    /// Maximum number of passwords that are verified at the same time, for `basic_auth`: each keeps a core busy for about a tenth of a
    /// second, at a low priority. The default is half of the cores. Up to 16 times as many wait; further logins get 503. A change needs
    /// a restart.
    #[setting(read = Int<1, 1024>, example = 4)]
    pub password_threads: Option<NonZeroUsize>,
    /// The trusted proxies.
    #[setting(part)]
    pub client_address: ClientAddress,
    /// Files to read more sites from, relative to this file. The last part of the path may contain `*`, as in
    /// `conf.d/*.toml`.
    #[setting(example = "conf.d/*.toml")]
    pub include: Option<String>,
    /// Limits and timeouts for clients.
    #[setting(read = LimitsTable, example = { head_timeout = "5s", connections = 10_000 })]
    pub limits: rudy_service::Limits,
    /// Access log: a file, or a table with a file and a format. Without it, or with `false`, requests are not logged. A site can have a log
    /// of its own.
    #[setting(example = "/var/log/rudy/access.log")]
    pub access_log: Option<OrOff<AccessLogOptions>>,
    /// Error log: a file, or a table with a destination, a format, and levels. The default is stderr.
    #[setting(example = "/var/log/rudy/error.log")]
    pub error_log: ErrorLogOptions,
    /// Counts requests by site and route, for the metrics. The default is `true` if a route has the handler `metrics`. `rudy metrics` shows
    /// them without such a route, too.
    #[setting(example = true)]
    pub metrics: Option<bool>,
    /// Gives each request an id, `X-Request-Id`, for apps, upstreams and the access log. The id of a trusted proxy is kept; that of
    /// another client is replaced. With `{ response = true }`, responses have it too. The default is `false`.
    #[setting(example = true)]
    pub request_id: Option<RequestIdTable>,
    /// Traces of requests, as spans for a collector such as Jaeger: the URL of the collector, or a table. With it, requests to upstreams and
    /// apps have the field `traceparent`. Without it, the field is passed on as it is.
    #[setting(example = { endpoint = "http://127.0.0.1:4318", sample = "10%" })]
    pub tracing: Option<TracingTable>,
    /// Time that requests in progress have to finish when the server stops; then their connections are closed.
    #[setting(
        default = Time(Duration::from_secs(30)),
        reason = "Well below the 90 s after which systemd sends SIGKILL, and longer than most requests.",
        example = "1m"
    )]
    pub shutdown_timeout: Time,
    /// Time that a new process has to become ready in an upgrade (SIGUSR2). After it, the new process is terminated
    /// and the old one continues.
    #[setting(default = Time(Duration::from_mins(1)), reason = "Enough for slow apps to start.", example = "2m")]
    pub upgrade_timeout: Time,
    /// User, and optionally group, to run as after binding the addresses: `www-data`, `www-data:group`, or numeric
    /// ids. Rudy must start as root, and keeps the capability to bind ports below 1024. The default is the user that
    /// started it. A change needs a restart.
    #[setting(example = "www-data")]
    pub user: Option<String>,
    /// Restricts Rudy, with Landlock, to the files and folders named in this configuration. It cannot start apps
    /// then. A change needs a restart, and so do additional folders.
    pub sandbox: bool,
    /// Admin socket, through which commands such as `rudy certificates` ask the server: a Unix socket for root and the server's
    /// user. The default is `admin-PID.sock` in `/run/rudy`, `/run/user/UID/rudy` or `/tmp/rudy-UID`, where the commands find it.
    #[setting(example = "/run/rudy/admin.sock")]
    pub admin_socket: Option<FilePath>,
    /// File with the keys of TLS session tickets, for machines that serve the same sites: keys of 48 random bytes, one
    /// behind the other, as in nginx. The first encrypts, all decrypt. Rudy notices changes. By default, Rudy makes keys,
    /// keeps them in its state folder, and replaces them every six hours.
    #[setting(example = "/etc/rudy/ticket.keys")]
    pub ticket_keys: Option<FilePath>,
    /// Authority of the certificates for sites with `tls = "auto"`. The default is Let's Encrypt.
    #[setting(example = { email = "admin@example.org" })]
    pub acme: AcmeTable,
    /// Where the responses of `cache` are stored, and how many.
    #[setting(example = { path = "/var/cache/rudy", size = "50G" })]
    pub cache: StoreTable,
    /// Maps from a part of a request to a text, by name: `{map.NAME}` is the text in redirects, rewrites and header fields.
    #[setting(default, example = { tenant = { from = "{cookie.tenant}", values = { acme = "blue" }, default = "green" } })]
    pub maps: Maps,
    /// Settings for all sites.
    #[setting(part)]
    pub defaults: SiteDefaults,
    /// Sites (virtual hosts), selected by the host of a request.
    #[setting(name = "site")]
    pub sites: Vec<Site>,
    /// Connections that go to upstreams as they are, selected by their address and the server name (SNI).
    #[setting(name = "tcp")]
    pub tcp: Vec<TcpTable>,
    /// Where the main file is.
    #[setting(location)]
    pub(crate) location: Location,
    /// The skipped files of an included folder, with the reasons.
    #[setting(skip)]
    pub ignored: Vec<String>,
    /// The questions that [`Self::check_start`] could not answer without the permissions of root.
    #[setting(skip)]
    pub(crate) not_permitted: Vec<String>,
    #[setting(skip)]
    pub(crate) sources: Arc<Sources>,
}

/// Settings for all sites. A site has what it does not set itself; header fields are added by name. Access rules, logins and
/// limits apply besides those of a site or a route, which switches them off with `false`.
#[derive(Debug, Clone, Table)]
#[setting(default)]
pub struct SiteDefaults {
    /// TLS of all sites with an address for HTTPS and without `tls` of their own. With `"auto"`, sites without `hosts`, and those with
    /// names that are not public, are left out.
    #[setting(example = "auto")]
    pub tls: Option<TlsTable>,
    /// Redirects requests over plain HTTP to HTTPS on all sites with TLS, as the key of a site does.
    #[setting(example = true)]
    pub redirect_to_https: Option<bool>,
    /// Tells browsers to use only HTTPS for all sites with TLS, as the key of a site does.
    #[setting(example = "365d")]
    pub hsts: Option<OrOff<HstsTable>>,
    /// What surrounds the handlers of all sites.
    #[setting(part)]
    pub steps: StepsTable,
}

/// A file read through `include`. It can only add sites, and tables for connections.
#[derive(Debug, Table)]
#[setting(default)]
struct IncludedFile {
    /// Sites (virtual hosts), selected by the host of a request.
    #[setting(name = "site")]
    sites: Vec<Site>,
    /// Connections that go to upstreams as they are, selected by their address and the server name (SNI).
    #[setting(name = "tcp")]
    tcp: Vec<TcpTable>,
}

impl Config {
    /// A configuration with a single default site that serves `files` on 127.0.0.1:8080.
    #[must_use]
    pub fn for_files(files: FilesTable) -> Self {
        Self::for_handler(HandlerTable::Files(Box::new(files)))
    }

    /// A configuration with a single default site on 127.0.0.1:8080, whose requests all go to one handler.
    pub(crate) fn for_handler(handler: HandlerTable) -> Self {
        let route = Route::everything(handler, Location::none());
        Self { sites: vec![Site { routes: vec![route], ..Site::default() }], ..Self::default() }
    }

    /// The access log of sites without one of their own.
    pub(crate) fn access_log(&self) -> Option<&AccessLogOptions> {
        self.access_log.as_ref().and_then(OrOff::on)
    }

    /// Values from the environment, which are not shown.
    pub(crate) fn placeholders(&self) -> &Placeholders {
        &self.sources.placeholders
    }

    /// Whether requests are counted by site and route.
    pub(crate) fn counts_requests(&self) -> bool {
        let mut routes = self.sites.iter().flat_map(|site| &site.routes);
        self.metrics.unwrap_or_else(|| {
            routes.any(|route| matches!(route.handler, HandlerTable::Metrics(_) | HandlerTable::Dashboard(_)))
        })
    }
}
