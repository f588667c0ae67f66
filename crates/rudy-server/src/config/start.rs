//! Checks for `rudy check` what a start would find by binding and opening: addresses, logs, the admin socket, and the folders
//! of the cache and of certificates.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;

use rudy_client::{Resolver, UpstreamAddress, look_up_all, unresolved_line};
use rudy_config::{Diagnostics, Location, Problem};
use rudy_gateway::fastcgi::{AppTable, needs_root_to_start_as};
use rudy_log::Destination;
use rudy_net::listen::{ListenError, Listener};
use rudy_proxy::ProxyTable;
use rudy_service::listen_address::{Address, Endpoint};
use rudy_system::state_dir::state_dir;
use rudy_system::user::root_may;
use rustix::fs::{Access, access};

use super::Config;
use super::HandlerTable;

/// A reason why a start would fail.
struct Obstacle {
    kind: io::ErrorKind,
    problem: Problem,
    /// The open question if only this user lacks the permission.
    unknown: String,
}

impl Config {
    /// Checks that the addresses can be bound, and the logs, the admin socket and the cache can be opened. A permission that root has
    /// is not an error for another user, who may check the configuration of a service; it is listed as unknown.
    ///
    /// # Errors
    ///
    /// All problems.
    pub(crate) fn check_start(&mut self) -> Result<(), Diagnostics> {
        let obstacles = self.unusable_addresses().chain(self.unusable_logs());
        let obstacles = obstacles.chain(self.unusable_admin_socket()).chain(self.unusable_cache());
        let obstacles = obstacles.chain(self.unusable_state());
        let (open, fatal): (Vec<_>, Vec<_>) = obstacles.partition(|obstacle| root_may(obstacle.kind));
        // Several apps may run as the same user.
        let users: BTreeSet<_> = self
            .apps()
            .filter(|(app, _)| app.command.is_some())
            .filter_map(|(app, _)| {
                let user = app.processes.user.as_deref().filter(|user| needs_root_to_start_as(user))?;
                Some(format!("whether Rudy may start processes as `{user}` (you lack the permission)"))
            })
            .collect();
        self.not_permitted = open.into_iter().map(|obstacle| obstacle.unknown).chain(users).collect();
        let problems: Vec<_> = fatal.into_iter().map(|obstacle| obstacle.problem).collect();
        if problems.is_empty() { Ok(()) } else { Err(Diagnostics::new(self.sources.clone(), problems)) }
    }

    fn unusable_addresses(&self) -> impl Iterator<Item = Obstacle> {
        let addresses = self.located_addresses().into_iter();
        addresses.filter_map(|(address, location)| unusable_address(address, &location, "this address"))
    }

    fn unusable_logs(&self) -> impl Iterator<Item = Obstacle> {
        self.located_logs().filter_map(|(log, destination, location)| match destination.path() {
            Some(path) => unusable_log(log, path, &location),
            None => unusable_receiver(log, destination, &location),
        })
    }

    /// The state folder for certificates from an authority, which a start creates.
    fn unusable_state(&self) -> Option<Obstacle> {
        let location = self.sites_with_auto().next()?.location.key("tls");
        // Without a folder, another user may have one, such as that of a service.
        let (kind, why) = match state_dir() {
            None => (io::ErrorKind::PermissionDenied, "there is no state folder".to_owned()),
            Some(folder) => {
                let (existing, error) = cannot_create(&folder)?;
                (error.kind(), format!("{}: {}: {error}", folder.display(), existing.display()))
            }
        };
        let problem = Problem::value(&location, format!("cannot keep certificates: {why}"));
        let problem = problem
            .label("needs a state folder")
            .help("set $STATE_DIRECTORY, or `StateDirectory=rudy` in the systemd unit");
        let unknown =
            "whether Rudy may write to its state folder, for certificates (you lack the permission)"
                .to_owned();
        Some(Obstacle { kind, problem, unknown })
    }

    fn unusable_admin_socket(&self) -> Option<Obstacle> {
        let address = Address::from(Endpoint::Unix { path: self.admin_socket.clone()?.0, mode: None });
        unusable_address(&address, &Location::file(0).key("admin_socket"), "the admin socket")
    }

    /// The folder of the cache, which a start creates.
    fn unusable_cache(&self) -> Option<Obstacle> {
        let folder = self.cache.folder().filter(|_| self.has_cache())?;
        let (kind, why) = match cannot_create(&folder) {
            Some((existing, error)) => (error.kind(), format!("{}: {error}", existing.display())),
            None if rudy_store::is_foreign(&folder) => {
                let why = "it has other files than those of a cache: choose an empty folder, or one that a cache has created";
                (io::ErrorKind::Other, why.to_owned())
            }
            None => return None,
        };
        let title = format!("cannot open the cache {}: {why}", folder.display());
        let problem = Problem::value(&Location::file(0).key("cache").key("path"), title).label("this folder");
        let unknown =
            format!("whether Rudy may write the cache {} (you lack the permission)", folder.display());
        Some(Obstacle { kind, problem, unknown })
    }

    /// Names of apps that do not resolve. The server starts regardless, and does not wait for these lookups.
    pub(super) fn unresolved_names(&self) -> Vec<String> {
        let reached = self.apps().map(|(app, _)| app).filter(|app| app.command.is_none());
        let name = |address| match address {
            UpstreamAddress::Name { host, port } => Some((host, port)),
            _ => None,
        };
        let names: BTreeSet<_> = reached.flat_map(AppTable::addresses).filter_map(name).collect();
        let look_up = |(host, port): &(String, u16)| {
            let (host, port) = (host.clone(), *port);
            async move { Resolver::System.addresses(&host, port).await }
        };
        let results = look_up_all(names.iter().map(look_up).collect());
        let failed = names.iter().zip(results).filter_map(|(name, result)| Some((name, result.err()?)));
        failed.map(|((host, port), why)| unresolved_line(format!("{host}:{port}"), &why)).collect()
    }

    /// The names of the upstreams of proxies, with what they resolve to.
    pub(super) fn upstreams(&self) -> Vec<Vec<String>> {
        let handlers = self.sites.iter().flat_map(|site| &site.routes).map(|route| &route.handler);
        let proxies = handlers.filter_map(|handler| match handler {
            HandlerTable::Proxy(table) => Some(ProxyTable::clone(table)),
            _ => None,
        });
        let of_connections =
            self.sites.iter().filter_map(|site| Some(site.connections.as_ref()?.proxy.proxy()));
        let tables: Vec<_> = proxies.chain(of_connections).collect();
        let (urls, lookups): (Vec<_>, Vec<_>) = tables.iter().flat_map(ProxyTable::lookups).unzip();
        let rows = urls.into_iter().zip(look_up_all(lookups)).flat_map(|(url, result)| {
            let lines = result.unwrap_or_else(|why| vec![format!("does not resolve: {why}")]);
            let first = std::iter::once(url).chain(std::iter::repeat(String::new()));
            first.zip(lines).map(|(url, line)| vec![url, line])
        });
        rows.collect()
    }

    /// The questions that only a start can answer.
    pub(super) fn unknown_before_start(&self) -> Vec<String> {
        let addresses = self.addresses();
        let addresses = addresses.iter().filter_map(|address| match &address.endpoint {
            Endpoint::Ip(ip) if ip.port() == 0 => None,
            Endpoint::AllInterfaces { port: 0 } => None,
            Endpoint::Inherited { .. } => {
                Some(format!("whether the service manager passes a socket for {address}"))
            }
            _ => Some(format!("whether another program listens on {address}")),
        });
        let mut apps = Vec::new();
        for (app, _) in self.apps() {
            let unknown = match (&app.command, &app.processes.user) {
                (None, _) => {
                    app.addresses().iter().map(|at| format!("whether an app listens on {at}")).collect()
                }
                (Some(command), Some(user)) => {
                    vec![format!("whether {user} may run {}", command.0.join(" "))]
                }
                (Some(_), None) => Vec::new(),
            };
            let new: Vec<_> = unknown.into_iter().filter(|line| !apps.contains(line)).collect();
            apps.extend(new);
        }
        addresses.chain(apps).chain(self.not_permitted.iter().cloned()).collect()
    }

    /// The apps of all routes, in configuration order, with the locations of their tables.
    pub(crate) fn apps(&self) -> impl Iterator<Item = (&AppTable, Location)> {
        let of_sites = self.sites.iter().flat_map(|site| {
            let of_routes = site.routes.iter().flat_map(|route| {
                let handler = route.handler.app().map(|app| (app, route.handler_location()));
                route.steps.admission.authorizer(&route.location).into_iter().chain(handler)
            });
            site.steps.admission.authorizer(&site.location).into_iter().chain(of_routes)
        });
        self.defaults.steps.admission.authorizer(&self.location).into_iter().chain(of_sites)
    }
}

fn unusable_address(address: &Address, location: &Location, label: &str) -> Option<Obstacle> {
    let error = Listener::check(address).err()?;
    let kind = match error {
        ListenError::NotPermitted { .. } => io::ErrorKind::PermissionDenied,
        _ => io::ErrorKind::Other,
    };
    let problem = Problem::value(location, error.to_string()).label(label);
    let unknown = format!("whether Rudy may listen on {address} (you lack the permission)");
    Some(Obstacle { kind, problem, unknown })
}

/// A log of another program, which a start connects to.
fn unusable_receiver(log: &str, destination: &Destination, location: &Location) -> Option<Obstacle> {
    let error = destination.unusable_receiver()?;
    let problem = Problem::value(location, format!("cannot open the {log} {destination}: {error}"));
    let unknown = format!("whether Rudy may write the {log} to {destination} (you lack the permission)");
    Some(Obstacle { kind: error.kind(), problem: problem.label("this log"), unknown })
}

fn unusable_log(log: &str, path: &Path, location: &Location) -> Option<Obstacle> {
    let metadata = fs::metadata(path);
    let (kind, why) = if path.is_dir() {
        (io::ErrorKind::IsADirectory, "it is a folder".to_owned())
    } else if metadata.is_ok_and(|metadata| metadata.file_type().is_socket()) {
        (
            io::ErrorKind::Other,
            "it is a socket: write `syslog = \"unix:PATH\"` if syslog listens there".to_owned(),
        )
    } else if path.exists() {
        let error = access(path, Access::WRITE_OK).err().map(io::Error::from)?;
        (error.kind(), error.to_string())
    } else {
        // The target of a link is created.
        let target = fs::read_link(path).map(|target| path.with_file_name(target));
        let path = target.as_deref().unwrap_or(path);
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new("."));
        let error = unusable_folder(folder)?;
        (error.kind(), format!("{}: {error}", folder.display()))
    };
    let title = format!("cannot open the {log} {}: {why}", path.display());
    let problem = Problem::value(&location.key("path"), title).label("this file");
    let unknown = format!("whether Rudy may write the {log} {} (you lack the permission)", path.display());
    Some(Obstacle { kind, problem, unknown })
}

/// The error of creating the folder, or of creating a file in it, with the folder that exists.
fn cannot_create(folder: &Path) -> Option<(&Path, io::Error)> {
    let existing = folder.ancestors().find(|folder| folder.exists()).unwrap_or(Path::new("."));
    Some((existing, unusable_folder(existing)?))
}

/// The error of creating a file in the folder, if any.
pub(super) fn unusable_folder(folder: &Path) -> Option<io::Error> {
    // The dot makes this fail for anything but a folder.
    access(folder.join("."), Access::WRITE_OK | Access::EXEC_OK).err().map(io::Error::from)
}
