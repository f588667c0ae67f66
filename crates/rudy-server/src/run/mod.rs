//! `rudy serve` and the other commands of the server, from flags to exit code.

mod announce;
mod check;
mod conflicts;
mod context;
mod current_app;
mod engines;
mod exit;
mod explain;
mod hosts;
pub mod init;
mod manual;
mod memory;
mod outcome;
mod ownership;
mod privileges;
mod quic_keys;
mod reload;
mod sandbox;
mod server;
mod service_manager;
mod serving;
mod signals;
pub mod simulated;
mod upgrade;

use std::fs;
use std::io::{self, Write};
use std::net::Ipv4Addr;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use rudy_config::{FilePath, OrOff};
use rudy_files::{FilesOptions, FilesTable};
use rudy_guard::ErrorPagesTable;
use rudy_log::Destination;
use rudy_mirror::MirrorTable;
use rudy_net::engine::Model;
use rudy_net::listen::InheritedSockets;
use rudy_pipeline::routing::{HostPattern, machine_name};
use rudy_proxy::{ProxyTable, UpstreamUrl};
use rudy_service::listen_address::{Address, Endpoint};
use rudy_watch::access_log::Format;

use self::exit::Failure;
use self::hosts::{allowed_hosts, hosts_of_certificate};
use self::server::Server;
use crate::config::HandlerTable;
use crate::config::{AccessLogOptions, AcmeTable, CertificateSource, Config, Site, TlsTable, json_schema};
pub use check::{check, check_elsewhere};
pub use exit::Exit;
pub use explain::{ExplainedRequest, explain};
pub use hosts::AllowedHost;
pub use manual::{Page, write_manual};

/// The port of `rudy serve --tls` without `--listen`.
const DEFAULT_TLS_PORT: u16 = 8443;

/// The options of `rudy serve`.
#[derive(Debug, Clone)]
pub struct Options {
    /// The folder or configuration to serve.
    pub source: Source,
    /// The addresses to listen on, instead of those of the configuration. Sites keep their own.
    pub listen: Vec<Address>,
    /// The destination of the access log, instead of the configured one.
    pub access_log: Option<Destination>,
    /// Whether the access log is JSON, regardless of the configuration.
    pub json_log: bool,
    /// The engine, instead of the configured one.
    pub engine: Option<Model>,
    /// The number of worker threads, instead of the configured one.
    pub cores: Option<NonZeroUsize>,
    /// Whether a connection can have several requests, instead of the configured value.
    pub keep_alive: Option<bool>,
    /// TLS, instead of the configured one, on all addresses; not for a configuration file.
    pub tls: Option<TlsTable>,
    /// The names to get certificates for from an authority, not for a configuration file; each is a site.
    pub domains: Vec<HostPattern>,
    /// The authority, for `domains`.
    pub acme: AcmeTable,
    /// Whether to write the secrets of TLS sessions to the file that `SSLKEYLOGFILE` names.
    pub tls_key_log: bool,
    /// The user to run as, instead of the configured one.
    pub user: Option<String>,
}

/// The source of what to serve.
#[derive(Debug, Clone)]
pub enum Source {
    /// A folder with options from flags, or a configuration if the path is a file that ends in `.toml`.
    Folder {
        /// The folder.
        path: PathBuf,
        /// Whether to list folders without an index.
        browse: bool,
        /// Whether to serve `index.html` for missing paths.
        spa: bool,
        /// Additional hosts to serve, beside the names of this machine.
        hosts: Vec<AllowedHost>,
    },
    /// An application that speaks HTTP.
    Proxy {
        /// Its upstreams, at least one.
        upstreams: Vec<UpstreamUrl>,
        /// Additional hosts to serve, beside the names of this machine.
        hosts: Vec<AllowedHost>,
    },
    /// A package repository.
    Mirror {
        /// The repository.
        table: Box<MirrorTable>,
        /// The folder for what is stored, instead of the default.
        cache: Option<PathBuf>,
        /// Additional hosts to serve, beside the names of this machine.
        hosts: Vec<AllowedHost>,
    },
    /// A configuration file.
    File(PathBuf),
}

/// Serves until a signal stops the server. Errors are printed on stderr.
#[must_use]
pub fn serve(options: Options) -> Exit {
    match Server::start(options) {
        Ok(server) => server.run(),
        Err(failure) => failure.print(),
    }
}

/// Prints the JSON Schema of the configuration.
#[must_use]
pub fn schema() -> Exit {
    print(json_schema().as_bytes())
}

/// Returns the settings of the store of a configuration's cache; `None` if it has no folder.
///
/// # Errors
///
/// All problems of the configuration.
pub fn cache_store(path: &Path) -> Result<Option<rudy_store::Options>, String> {
    let config = Config::load(path).map_err(|errors| errors.to_string())?;
    Ok(config.cache.folder().map(|folder| config.cache.options(&folder)))
}

/// Prints the error "cannot `what`" and returns the exit code.
#[must_use]
pub fn cannot(what: &str) -> Exit {
    Failure::Cannot(what.to_owned()).print()
}

/// Prints the output of a command.
#[must_use]
pub fn print(text: &[u8]) -> Exit {
    match io::stdout().lock().write_all(text) {
        // The reader has closed the pipe: `rudy check | head`.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Exit::Done,
        Err(error) => cannot(&format!("write to standard output: {error}")),
        Ok(()) => Exit::Done,
    }
}

impl Options {
    /// Returns the options without flags.
    #[must_use]
    pub fn new(source: Source) -> Self {
        Self {
            source,
            listen: Vec::new(),
            access_log: None,
            json_log: false,
            engine: None,
            cores: None,
            keep_alive: None,
            tls: None,
            domains: Vec::new(),
            acme: AcmeTable::default(),
            tls_key_log: false,
            user: None,
        }
    }

    /// Turns a path to a configuration file into [`Source::File`]. This is decided once: a reload does not turn a configuration
    /// into a folder.
    fn resolve_source(mut self) -> Result<Self, Failure> {
        let Source::Folder { path, browse, spa, hosts } = &self.source else { return Ok(self) };
        let is_toml = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("toml"));
        if is_toml && path.is_file() {
            if *browse || *spa || !hosts.is_empty() || self.tls.is_some() || !self.domains.is_empty() {
                let problem = "it is a configuration file, and --browse, --spa, --host, --domain and --tls apply to folders only";
                return Err(Failure::Folder(path.clone(), problem.to_owned()));
            }
            self.source = Source::File(path.clone());
        }
        Ok(self)
    }

    /// Loads the configuration and applies the options.
    fn config(&self, inherited: &InheritedSockets) -> Result<Config, Failure> {
        let mut config = match &self.source {
            Source::Folder { path, browse, spa, .. } => static_site(files(path, *browse, *spa)?),
            Source::Proxy { upstreams, .. } => {
                let table = upstreams.iter().cloned().collect::<ProxyTable>();
                Config::for_handler(HandlerTable::Proxy(Box::new(table)))
            }
            Source::Mirror { table, cache, .. } => {
                let mut config = Config::for_handler(HandlerTable::Mirror(table.clone()));
                config.cache.path = cache.as_deref().map(absolute).transpose()?.map(FilePath);
                config
            }
            Source::File(path) => Config::load(path).map_err(Failure::Config)?,
        };
        if !self.listen.is_empty() {
            config.listen.clone_from(&self.listen);
        }
        if let (Some(tls), [site]) = (&self.tls, &mut *config.sites) {
            site.tls = Some(tls.clone());
            if self.listen.is_empty() {
                config.listen = vec![Endpoint::Ip((Ipv4Addr::LOCALHOST, DEFAULT_TLS_PORT).into()).into()];
            }
            config.listen.iter_mut().for_each(|address| address.tls = true);
        }
        if !self.domains.is_empty() {
            self.apply_domains(&mut config);
        } else if let (
            Source::Folder { hosts, .. } | Source::Proxy { hosts, .. } | Source::Mirror { hosts, .. },
            [site],
        ) = (&self.source, &mut *config.sites)
        {
            site.hosts = match site.tls.as_ref().and_then(TlsTable::names) {
                Some(names) => hosts_of_certificate(&names, hosts),
                None => allowed_hosts(hosts, &config.listen, inherited, &machine_name()),
            };
        }
        if let Some(destination) = &self.access_log {
            let log = config.access_log().cloned();
            let log = log.unwrap_or_else(|| AccessLogOptions::new(destination.clone(), Format::default()));
            let log = AccessLogOptions { destination: destination.clone(), ..log };
            config.access_log = Some(OrOff::On(Box::new(log)));
        }
        if self.json_log {
            let Some(OrOff::On(log)) = &mut config.access_log else {
                return Err(Failure::JsonLogWithoutAccessLog);
            };
            log.format = Format::Json;
        }
        let engine = &mut config.engine;
        engine.model = self.engine.unwrap_or(engine.model);
        engine.cores = self.cores.or(engine.cores);
        engine.keep_alive = self.keep_alive.or(engine.keep_alive);
        config.user = self.user.clone().or(config.user);
        config.choose_http3();
        conflicts::check(&config).map_err(Failure::Config)?;
        Ok(config)
    }

    /// Makes a site of each domain, with a certificate from the authority.
    fn apply_domains(&self, config: &mut Config) {
        if self.listen.is_empty() {
            config.listen = Config::public_addresses();
        }
        config.acme = self.acme.clone();
        let Some(content) = config.sites.pop() else { return };
        let tls = TlsTable { source: Some(CertificateSource::Auto), ..TlsTable::default() };
        config.sites.extend(self.domains.iter().map(|domain| Site {
            hosts: vec![domain.clone()],
            tls: Some(tls.clone()),
            redirect_to_https: Some(true),
            ..content.clone()
        }));
    }
}

fn files(path: &Path, browse: bool, spa: bool) -> Result<FilesTable, Failure> {
    let invalid = |problem: String| Failure::Folder(path.to_owned(), problem);
    let metadata = fs::metadata(path).map_err(|error| invalid(error.to_string()))?;
    if !metadata.is_dir() {
        return Err(invalid("expected a folder or a configuration file (.toml)".to_owned()));
    }
    let root = absolute(path)?;
    let fallback = spa.then(|| "index.html".to_owned());
    let options = FilesOptions { browse: browse.into(), fallback, ..FilesOptions::default() };
    Ok(FilesTable { root: FilePath(root), options })
}

/// Returns an absolute path. Symbolic links in it stay, so that a folder can be switched by changing a link.
fn absolute(path: &Path) -> Result<PathBuf, Failure> {
    std::path::absolute(path).map_err(|error| Failure::Folder(path.to_owned(), error.to_string()))
}

/// Returns the configuration for a folder. As usual for hosts of static sites, `404.html` is the page for missing files.
fn static_site(files: FilesTable) -> Config {
    let has_page = files.root.join("404.html").is_file();
    let mut config = Config::for_files(files);
    for site in &mut config.sites {
        site.steps.error_pages = has_page.then(|| ErrorPagesTable::of_missing("/404.html"));
    }
    config
}
