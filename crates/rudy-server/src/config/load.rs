//! Loads a [`Config`] from files. Invalid values are skipped and the rest is checked, so that all problems are reported at once.

use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;

use rudy_client::buffer::Options as BufferOptions;
use rudy_config::{Diagnostics, Files, Located, Location, OneOrMany, OrOff, Problem};
use rudy_files::{FilesOptions, FilesTable};
use rudy_log::{Destination, ErrorLogOptions, Receiver};
use rudy_pipeline::client_address;
use rudy_pipeline::exchange::RequestIdTable;
use rudy_service::listen_address::{Address, Endpoint};
use rudy_watch::access_log::AccessLogOptions;

use super::HandlerTable;
use super::file::{
    AccessLogTable, ErrorLogTable, IncludedFile, MainFile, RotationTable, RouteTable, SiteTable,
};
use super::hints::{TablesHints, not_a_file};
use super::include::{Included, files_to_include};
use super::values::ListenAddress;
use super::{CertificateSource, Config, EngineOptions, Route, Site};

impl Config {
    /// Reads a configuration file and the files that it includes. The error has all problems, including those that `more` finds in what
    /// could be read.
    pub(crate) fn load_with(
        path: &Path,
        more: impl FnOnce(&Self) -> Vec<Problem>,
    ) -> Result<Self, Diagnostics> {
        let mut loader = Loader { files: Files::new(&TablesHints), config: Self::empty() };
        loader.main_file(path);
        let Loader { files: Files { sources, mut problems, invalid, .. }, mut config } = loader;
        config.sources = Arc::new(sources);
        if problems.is_empty() {
            return Ok(config);
        }
        problems.extend(more(&config).into_iter().filter(|problem| !problem.follows_from(&invalid)));
        Err(Diagnostics::new(config.sources, problems))
    }
}

struct Loader {
    files: Files,
    config: Config,
}

impl Loader {
    fn main_file(&mut self, path: &Path) {
        if let Some((location, Some(file))) = self.files.read::<MainFile>(path) {
            let include = file.include.clone();
            let has_addresses = file.listen.is_some();
            self.apply_main(file, &location, path.parent().unwrap_or(Path::new("")));
            if let Some(pattern) = include {
                self.include(path, &pattern, &location);
            }
            if !has_addresses {
                self.choose_addresses();
            }
        }
        if self.files.problems.is_empty() && self.config.sites.is_empty() {
            let problem = Problem::value(&Location::file(0), "the configuration has no site")
                .label("expected a [[site]] here or in an included file");
            self.files
                .problems
                .push(problem.help("a minimal site has two lines: [[site]] and root = \"public\""));
        }
    }

    /// Chooses the addresses of the sites that have none of their own.
    fn choose_addresses(&mut self) {
        let Config { listen, sites, .. } = &mut self.config;
        let mut sites = sites.iter().filter(|site| site.listen.is_none()).peekable();
        if sites.peek().is_none() {
            listen.clear();
        } else if sites.any(Site::is_auto) {
            *listen = Config::public_addresses();
        }
    }

    fn apply_main(&mut self, file: MainFile, location: &Location, folder: &Path) {
        let config = &mut self.config;
        if let Some(listen) = &file.listen {
            config.listen = resolve_addresses(listen, folder);
        }
        config.engine = EngineOptions {
            model: file.engine.0,
            cores: file.cores.and_then(|cores| NonZeroUsize::new(cores.as_usize())),
            threads: file.threads.and_then(|threads| NonZeroUsize::new(threads.as_usize())),
            keep_alive: file.keep_alive,
        };
        self.files.problems.extend(file.limits.problem(&location.key("limits"), &self.files.invalid));
        config.http2 = file.http2.unwrap_or(true);
        config.limits = (&file.limits).into();
        config.buffer = BufferOptions {
            memory: file.buffer_memory.map_or(BufferOptions::MEMORY, |size| size.0),
            total: file.buffer_total.map(|size| size.0),
            dir: file.buffer_dir.map(|dir| dir.0),
        };
        if let Some(threads) = file.password_threads.and_then(|threads| NonZeroUsize::new(threads.as_usize()))
        {
            config.password_threads = threads;
        }
        config.client_address = client_address::Options {
            trusted_proxies: file
                .trusted_proxies
                .map_or_else(Vec::new, |proxies| proxies.as_slice().to_vec()),
            source: file.client_address,
            trust_host: file.trust_forwarded_host,
        };
        if let Some(timeout) = file.shutdown_timeout {
            config.shutdown_timeout = timeout.0;
        }
        if let Some(timeout) = file.upgrade_timeout {
            config.upgrade_timeout = timeout.0;
        }
        config.user = file.user;
        config.sandbox = file.sandbox;
        config.admin_socket = file.admin_socket.map(|file| file.0);
        config.acme = file.acme;
        config.cache = file.cache;
        config.ticket_keys = file.ticket_keys.map(|file| file.0);
        config.metrics = file.metrics;
        config.request_id = file.request_id.and_then(RequestIdTable::if_on);
        match file.error_log.map(|log| error_log_options(&log, folder)).transpose() {
            Ok(log) => config.error_log = log.unwrap_or_default(),
            Err(problem) => self.files.problems.push(*problem),
        }
        let access_log = file.access_log.and_then(|log| self.access_log(&log, &Location::file(0), folder));
        self.config.access_log = match access_log {
            Some(OrOff::On(log)) => Some(*log),
            Some(OrOff::Off) | None => None,
        };
        self.sites(file.site, folder);
    }

    fn include(&mut self, path: &Path, pattern: &str, main: &Location) {
        match files_to_include(path, pattern) {
            Ok(Included { files, notices }) => {
                self.config.ignored.extend(notices);
                for file in files {
                    let folder = file.parent().unwrap_or(Path::new(""));
                    if let Some((_, Some(file))) = self.files.read::<IncludedFile>(&file) {
                        self.sites(file.site, folder);
                    }
                }
            }
            Err(why) => {
                let problem = Problem::value(&main.key("include"), format!("cannot include \"{pattern}\""));
                self.files.problems.push(problem.label(why));
            }
        }
    }

    fn sites(&mut self, sites: Vec<Located<SiteTable>>, folder: &Path) {
        for Located { location, value: site } in sites {
            let is_empty = site.route.is_empty() && site.root.is_none() && site.php.is_none();
            // An invalid or unknown key may have been meant as a route.
            let is_elsewhere =
                |invalid: &Location| invalid.is_in(&location) && !invalid.is_in(&location.key("hosts"));
            if is_empty && !self.files.invalid.iter().any(is_elsewhere) {
                let problem = Problem::value(&location, "this site has no route");
                let label = "expected `root = \"...\"`, `php = \"...\"` or a [[site.route]]";
                self.files.problems.push(problem.label(label));
            }
            let default_route = self.default_route(&site, &location);
            let routes = site.route.into_iter().filter_map(route).chain(default_route).collect();
            let hosts = site.hosts.map_or_else(Vec::new, |hosts| hosts.as_slice().to_vec());
            let (authorize, steps) = (site.authorize.map(Box::new), site.steps);
            let redirects = site.redirects;
            let access_log = site.access_log.and_then(|log| self.access_log(&log, &location, folder));
            let listen = site.listen.map(|listen| resolve_addresses(&listen, folder));
            // Without its invalid hosts or addresses, the site would be another one.
            if !["hosts", "listen"].iter().any(|key| self.contains_invalid(&location.key(key))) {
                let (tls, hsts) = (site.tls, site.hsts);
                let is_auto = tls.as_ref().is_some_and(|tls| tls.source == Some(CertificateSource::Auto));
                let redirect_to_https = site.redirect_to_https.unwrap_or(is_auto);
                let site = Site {
                    hosts,
                    listen,
                    tls,
                    redirect_to_https,
                    hsts,
                    routes,
                    authorize,
                    steps,
                    redirects,
                    access_log,
                    location,
                };
                self.config.sites.push(site);
            }
        }
    }

    /// Reads an access log; `table` has the key `access_log`. `None` after a problem.
    fn access_log(
        &mut self,
        log: &OrOff<AccessLogTable>,
        table: &Location,
        folder: &Path,
    ) -> Option<OrOff<AccessLogOptions>> {
        let Some(log) = log.on() else { return Some(OrOff::Off) };
        match log_options(log, table, folder) {
            Ok(log) => Some(OrOff::On(Box::new(log))),
            Err(problem) => {
                self.files.problems.push(*problem);
                None
            }
        }
    }

    fn contains_invalid(&self, location: &Location) -> bool {
        self.files.invalid.iter().any(|invalid| invalid.is_in(location))
    }

    /// The last route of a site, from its `root` or `php`.
    fn default_route(&mut self, site: &SiteTable, location: &Location) -> Option<Route> {
        let settings = [
            ("index", site.index.is_some()),
            ("browse", site.browse.is_some()),
            ("fallback", site.fallback.is_some()),
        ];
        let has_no_root = site.root.is_none() && !self.contains_invalid(&location.key("root"));
        let settings = settings.into_iter().filter(|(_, is_given)| *is_given && has_no_root);
        self.files.problems.extend(settings.map(|(key, _)| {
            let problem = Problem::key(&location.key(key), format!("`{key}` is for the files of `root`"));
            problem.label("this site has no `root`")
        }));
        match (&site.root, &site.php) {
            (Some(_), Some(_)) => {
                let problem = Problem::key(&location.key("php"), "both `root` and `php` handle all paths");
                let problem = problem.label("a second folder").also(&location.key("root"), "the first");
                let help = "use `php` alone: it runs the scripts in its folder and serves the other files";
                self.files.problems.push(problem.help(help));
                None
            }
            (Some(root), None) => {
                let mut files = FilesTable { root: root.clone(), options: FilesOptions::default() };
                files.options.set_on_site(
                    site.index.as_ref(),
                    site.browse.as_ref(),
                    site.fallback.as_deref(),
                );
                Some(Route::everything(HandlerTable::Files(Box::new(files)), &location.key("root")))
            }
            (None, Some(php)) => {
                Some(Route::everything(HandlerTable::Php(Box::new(php.clone())), &location.key("php")))
            }
            (None, None) => None,
        }
    }
}

fn route(Located { location, value: table }: Located<RouteTable>) -> Option<Route> {
    let handler = table.handler?;
    Some(Route {
        paths: table.path.as_slice().to_vec(),
        paths_location: location.key("path"),
        handler_location: location.key(handler.key()),
        handler,
        authorize: table.authorize,
        steps: table.steps,
        allow_trace: table.allow_trace,
        location,
    })
}

/// Returns the options of a log; `table` has the key `access_log`.
fn log_options(
    log: &AccessLogTable,
    table: &Location,
    folder: &Path,
) -> Result<AccessLogOptions, Box<Problem>> {
    let location = table.key("access_log");
    let AccessLogTable { path, syslog, journald, rotate, .. } = log;
    let place = (path.as_deref(), syslog.as_ref(), *journald);
    let Some(destination) = destination(place, rotate.as_ref(), &location, folder)? else {
        let problem = Problem::value(&location, "the access log needs a destination");
        return Err(problem.label("expected one of `path`, `syslog` and `journald = true`").into());
    };
    Ok(AccessLogOptions {
        destination,
        format: log.format.clone().unwrap_or_default(),
        conditions: log.conditions(),
        rotation: log.rotate.as_ref().map(RotationTable::options),
    })
}

fn error_log_options(log: &ErrorLogTable, folder: &Path) -> Result<ErrorLogOptions, Box<Problem>> {
    let location = Location::file(0).key("error_log");
    let ErrorLogTable { path, syslog, journald, rotate, format, .. } = log;
    let place = (path.as_deref(), syslog.as_ref(), *journald);
    Ok(ErrorLogOptions {
        destination: destination(place, rotate.as_ref(), &location, folder)?,
        format: *format,
        rotation: rotate.as_ref().map(RotationTable::options),
        levels: log.levels(),
    })
}

/// Returns the destination of a log at `location`; `None` without one.
fn destination(
    (path, syslog, journald): (Option<&Path>, Option<&Receiver>, bool),
    rotation: Option<&RotationTable>,
    location: &Location,
    folder: &Path,
) -> Result<Option<Destination>, Box<Problem>> {
    let destination = match (path, syslog, journald) {
        (None, None, false) => None,
        // The path is already joined with the folder of the file, `-` too.
        (Some(path), None, false) if *path == *folder.join("-") => Some(Destination::Stdout),
        (Some(path), None, false) => {
            let folder = folder.join("").into_os_string().into_encoded_bytes();
            let written = path.as_os_str().as_encoded_bytes().strip_prefix(&*folder);
            if let Some(problem) = written.and_then(|name| not_a_file(location, name)) {
                return Err(problem.into());
            }
            Some(Destination::File(path.to_owned()))
        }
        (None, Some(receiver), false) => Some(Destination::Syslog(receiver.clone())),
        (None, None, true) => Some(Destination::Journald),
        _ => {
            let problem = Problem::value(location, "a log has one destination");
            return Err(problem.label("expected one of `path`, `syslog` and `journald = true`").into());
        }
    };
    if rotation.is_some() && !matches!(destination, Some(Destination::File(_))) {
        let problem = Problem::key(&location.key("rotate"), "only a file can be rotated");
        return Err(problem.label("expected a file as `path`").into());
    }
    rotation.map_or(Ok(()), |rotation| rotation.check(&location.key("rotate")))?;
    Ok(destination)
}

/// Returns the addresses, with Unix sockets relative to the folder of the file.
fn resolve_addresses(listen: &OneOrMany<ListenAddress>, folder: &Path) -> Vec<Address> {
    let resolve = |ListenAddress(address): &ListenAddress| {
        let mut address = address.clone();
        if let Endpoint::Unix { path, .. } = &mut address.endpoint {
            *path = folder.join(&*path);
        }
        address
    };
    listen.as_slice().iter().map(resolve).collect()
}
