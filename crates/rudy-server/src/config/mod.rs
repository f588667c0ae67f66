//! The configuration: the tables of `rudy.toml` ([`mod@file`]), what it says about mistakes in them, and the result, [`Config`].

pub(crate) mod acme;
mod buffer;
mod cache;
pub(crate) mod client_address;
mod describe;
mod engine;
mod fastcgi;
pub mod file;
mod handler;
mod hints;
mod include;
mod limits;
mod listen;
mod load;
mod logs;
mod other_formats;
mod other_servers;
mod path_info;
mod schema;
mod start;
#[cfg(test)]
mod tests;
pub(crate) mod tls;
mod values;

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rudy_caching::StoreTable;
use rudy_client::buffer::Options as BufferOptions;
use rudy_config::{Location, Placeholders, Sources};
use rudy_files::FilesTable;
use rudy_gateway::fastcgi::{AuthorizeTable, PHP_SUFFIX};
use rudy_pipeline::routing::{HostPattern, PathPattern};
use rudy_service::listen_address::Address;

use crate::step_settings::StepsTable;
pub use engine::EngineOptions;
pub use handler::HandlerTable;
pub(crate) use listen::conflicts as conflicting_addresses;
pub use rudy_config::{Diagnostics, Fields, FilePath, HeaderFieldName, Int, Located, OneOrMany, OrOff};
pub use rudy_log::ErrorLogOptions;
pub use rudy_pipeline::exchange::RequestIdTable;
pub use rudy_site_tls::acme::{AcmeTable, ChallengeName, ExternalAccountTable};
pub use rudy_site_tls::{
    CertificateSource, CertificateTable, ClientCertificatesTable, HstsTable, MinVersion, TlsTable,
};
pub use rudy_units::{Size, Time};
pub use rudy_watch::access_log::AccessLogOptions;
pub use schema::json_schema;
pub use values::ListenAddress;

/// Well below the 90 s after which systemd sends SIGKILL, and longer than most requests.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(30);
/// Enough for slow apps to start.
const UPGRADE_TIMEOUT: Duration = Duration::from_mins(1);

/// The configuration of a server, from a file and its includes, or from flags.
///
/// Paths are resolved. [`App::new`](crate::App::new) checks that the parts fit together.
#[derive(Debug, Clone)]
pub struct Config {
    /// The addresses of the sites that have none of their own; see [`Self::addresses`].
    pub listen: Vec<Address>,
    /// The engine and its settings.
    pub engine: EngineOptions,
    /// Whether HTTP/2 is offered over TLS, if the engine speaks it.
    pub http2: bool,
    /// Limits and timeouts for clients.
    pub limits: rudy_service::Limits,
    /// How many passwords are verified at the same time.
    pub password_threads: NonZeroUsize,
    /// The settings of buffered bodies.
    pub buffer: BufferOptions,
    /// The trusted proxies.
    pub client_address: rudy_pipeline::client_address::Options,
    /// The access log.
    pub access_log: Option<AccessLogOptions>,
    /// The error log.
    pub error_log: ErrorLogOptions,
    /// Whether requests are counted by site and route; `None` for the default.
    pub metrics: Option<bool>,
    /// The ids of requests; `None` without them.
    pub request_id: Option<RequestIdTable>,
    /// The time that requests in progress have to finish when the server stops.
    pub shutdown_timeout: Duration,
    /// The time that a new process has to become ready in an upgrade.
    pub upgrade_timeout: Duration,
    /// The user, and optionally group, to run as: `www-data`, `www-data:group`.
    pub user: Option<String>,
    /// Whether the process restricts itself to the folders of the configuration.
    pub sandbox: bool,
    /// The admin socket; `None` for the default.
    pub admin_socket: Option<PathBuf>,
    /// The authority of certificates, and how it verifies names.
    pub acme: AcmeTable,
    /// The store of caches.
    pub cache: StoreTable,
    /// The file with the keys of session tickets; `None` for keys of our own.
    pub ticket_keys: Option<PathBuf>,
    /// The sites, in configuration order.
    pub sites: Vec<Site>,
    /// The skipped files of an included folder, with the reasons.
    pub ignored: Vec<String>,
    /// The questions that [`Self::check_start`] could not answer without the permissions of root.
    pub(crate) not_permitted: Vec<String>,
    pub(crate) sources: Arc<Sources>,
}

/// A site (virtual host): its hosts, and its routes in configuration order.
#[derive(Debug, Clone)]
pub struct Site {
    /// The hosts; empty for the default site.
    pub hosts: Vec<HostPattern>,
    /// The addresses that serve the site, instead of those of the configuration.
    pub listen: Option<Vec<Address>>,
    /// TLS; `None` without it.
    pub tls: Option<TlsTable>,
    /// Whether requests over plain HTTP are redirected to HTTPS.
    pub redirect_to_https: bool,
    /// The time for which browsers use only HTTPS.
    pub hsts: Option<HstsTable>,
    /// The routes; the first one that matches handles the request.
    pub routes: Vec<Route>,
    /// The authorizer of all routes.
    pub authorize: Option<Box<AuthorizeTable>>,
    /// The steps around the handlers.
    pub steps: StepsTable,
    /// The file with redirects of single paths.
    pub redirects: Option<FilePath>,
    /// The access log, instead of that of the server.
    pub access_log: Option<OrOff<AccessLogOptions>>,
    pub(crate) location: Location,
}

impl Site {
    /// Returns its own addresses, as a part of names: a site at other addresses may have the same hosts. Empty without them.
    pub(crate) fn own_addresses(&self) -> String {
        let addresses: Vec<_> = self.listen.iter().flatten().map(ToString::to_string).collect();
        addresses.join(",")
    }

    /// Whether an authority signs the certificates.
    pub(crate) fn is_auto(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.source == Some(CertificateSource::Auto))
    }

    /// Whether a route of the site runs PHP.
    pub(crate) fn runs_php(&self) -> bool {
        self.routes.iter().any(|route| match &route.handler {
            HandlerTable::Php(_) => true,
            HandlerTable::Fastcgi(table) => table.suffix(&route.paths) == Some(PHP_SUFFIX),
            _ => false,
        })
    }
}

/// A route: its paths and its handler.
#[derive(Debug, Clone)]
pub struct Route {
    /// The paths, at least one.
    pub paths: Vec<PathPattern>,
    /// The handler.
    pub handler: HandlerTable,
    /// The authorizer, instead of the one of the site.
    pub authorize: Option<OrOff<AuthorizeTable>>,
    /// The steps around the handler, after those of the site.
    pub steps: StepsTable,
    /// Whether TRACE requests reach the handler.
    pub allow_trace: bool,
    /// The location of the route.
    pub(crate) location: Location,
    /// The location of the paths.
    pub(crate) paths_location: Location,
    /// The location of the handler's table.
    pub(crate) handler_location: Location,
}

impl Config {
    /// A configuration with a single default site that serves `files` on 127.0.0.1:8080.
    #[must_use]
    pub fn for_files(files: FilesTable) -> Self {
        Self::for_handler(HandlerTable::Files(Box::new(files)))
    }

    /// A configuration with a single default site on 127.0.0.1:8080, whose requests all go to one handler.
    pub(crate) fn for_handler(handler: HandlerTable) -> Self {
        let route = Route::everything(handler, &Location::none());
        Self {
            sites: vec![Site {
                hosts: Vec::new(),
                listen: None,
                tls: None,
                redirect_to_https: false,
                hsts: None,
                routes: vec![route],
                authorize: None,
                steps: StepsTable::default(),
                redirects: None,
                access_log: None,
                location: Location::none(),
            }],
            ..Self::empty()
        }
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

    fn empty() -> Self {
        Self {
            listen: vec![rudy_service::listen_address::Endpoint::Ip(([127, 0, 0, 1], 8080).into()).into()],
            engine: EngineOptions::default(),
            http2: true,
            limits: rudy_service::Limits::default(),
            password_threads: rudy_guard::passwords::default_threads(),
            buffer: BufferOptions::default(),
            client_address: rudy_pipeline::client_address::Options::default(),
            access_log: None,
            error_log: ErrorLogOptions::default(),
            metrics: None,
            request_id: None,
            shutdown_timeout: SHUTDOWN_TIMEOUT,
            upgrade_timeout: UPGRADE_TIMEOUT,
            user: None,
            sandbox: false,
            acme: AcmeTable::default(),
            cache: StoreTable::default(),
            ticket_keys: None,
            admin_socket: None,
            sites: Vec::new(),
            ignored: Vec::new(),
            not_permitted: Vec::new(),
            sources: Arc::default(),
        }
    }
}

impl Route {
    /// A route for all paths.
    fn everything(handler: HandlerTable, location: &Location) -> Self {
        Self {
            paths: vec![PathPattern::everything()],
            handler,
            authorize: None,
            steps: StepsTable::default(),
            allow_trace: false,
            location: location.clone(),
            paths_location: location.clone(),
            handler_location: location.clone(),
        }
    }
}
