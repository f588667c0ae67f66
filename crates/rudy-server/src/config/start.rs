//! What else a start needs of this machine: addresses and the access log. A start finds it by listening and opening, which
//! `rudy check` must not do.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use rudy_net::listen::{Endpoint, ListenError, Listener};
use rustix::fs::{Access, access};
use rustix::process::geteuid;

use super::{AccessLogOptions, AppTable, Config, Diagnostics, Location, Problem, RouteAuthorize};
use crate::access_log::Destination;
use crate::fastcgi::only_root_starts_as;
use crate::handlers::HandlerConfig;

/// Why a start would fail.
struct Obstacle {
    kind: io::ErrorKind,
    problem: Problem,
    /// The question that is left open where only this user lacks a right.
    unknown: String,
}

impl Config {
    /// Addresses that cannot be listened on, and an access log that cannot be opened. What only root may do is no error for
    /// another user, who checks the configuration of a service: it is noted as not known.
    ///
    /// # Errors
    ///
    /// All of them.
    pub(crate) fn check_start(&mut self) -> Result<(), Diagnostics> {
        let obstacles = self.unusable_addresses().chain(self.unusable_access_log());
        let (open, fatal): (Vec<_>, Vec<_>) = obstacles.partition(|obstacle| root_may(obstacle.kind));
        // Several apps may run as the same user.
        let users: BTreeSet<_> = self
            .apps()
            .filter(|(app, _)| app.command.is_some())
            .filter_map(|(app, _)| {
                let user = app.processes.user.as_deref().filter(|user| only_root_starts_as(user))?;
                Some(format!("whether Rudy may start processes as {user} (you may not)"))
            })
            .collect();
        self.not_permitted = open.into_iter().map(|obstacle| obstacle.unknown).chain(users).collect();
        let problems: Vec<_> = fatal.into_iter().map(|obstacle| obstacle.problem).collect();
        if problems.is_empty() { Ok(()) } else { Err(Diagnostics::new(self.sources.clone(), problems)) }
    }

    fn unusable_addresses(&self) -> impl Iterator<Item = Obstacle> {
        let listen = Location::file(0).key("listen");
        self.listen.iter().enumerate().filter_map(move |(index, address)| {
            let error = Listener::check(address).err()?;
            let kind = match error {
                ListenError::NotPermitted { .. } => io::ErrorKind::PermissionDenied,
                _ => io::ErrorKind::Other,
            };
            let problem = Problem::value(&listen.index(index), error.to_string()).label("this address");
            Some(Obstacle {
                kind,
                problem,
                unknown: format!("whether Rudy may listen on {address} (you may not)"),
            })
        })
    }

    fn unusable_access_log(&self) -> Option<Obstacle> {
        let AccessLogOptions { destination: Destination::File(path), .. } = self.access_log.as_ref()? else {
            return None;
        };
        let (kind, why) = if path.is_dir() {
            (io::ErrorKind::IsADirectory, "it is a folder".to_owned())
        } else if path.exists() {
            let error = access(path, Access::WRITE_OK).err().map(io::Error::from)?;
            (error.kind(), error.to_string())
        } else {
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
            let folder = folder.unwrap_or(Path::new("."));
            let error = unusable_folder(folder)?;
            (error.kind(), format!("{}: {error}", folder.display()))
        };
        let title = format!("cannot open the access log {}: {why}", path.display());
        let problem =
            Problem::value(&Location::file(0).key("access_log").key("path"), title).label("this file");
        let unknown = format!("whether Rudy may write the access log {} (you may not)", path.display());
        Some(Obstacle { kind, problem, unknown })
    }

    /// Names of apps that do not resolve: the server starts all the same. This waits for lookups, which a start does not.
    pub(super) fn unresolved_names(&self) -> Vec<String> {
        let reached = self.apps().map(|(app, _)| app).filter(|app| app.command.is_none());
        crate::upstream::unresolved(reached.flat_map(AppTable::addresses))
    }

    /// What only a start can find out.
    pub(super) fn unknown_before_start(&self) -> Vec<String> {
        let addresses = self.listen.iter().filter_map(|address| match &address.endpoint {
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
                    app.addresses().iter().map(|at| format!("whether an app answers at {at}")).collect()
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

    /// The apps of all routes, in written order, each with the place of its table.
    pub(crate) fn apps(&self) -> impl Iterator<Item = (&AppTable, Location)> {
        self.sites.iter().flat_map(|site| {
            let of_site = site.authorize.iter().map(|table| (&table.app, site.location.key("authorize")));
            of_site.chain(site.routes.iter().flat_map(|route| {
                let authorizer = match &route.authorize {
                    Some(RouteAuthorize::App(table)) => Some((&table.app, route.location.key("authorize"))),
                    _ => None,
                };
                let handler = route.handler.app().map(|app| (app, route.handler_location.clone()));
                authorizer.into_iter().chain(handler)
            }))
        })
    }
}

/// Whether an error of this kind comes only from the rights of this user, so that root would not have it.
pub(crate) fn root_may(kind: io::ErrorKind) -> bool {
    user_lacks_right(kind, geteuid().is_root())
}

fn user_lacks_right(kind: io::ErrorKind, is_root: bool) -> bool {
    // EACCES and EPERM.
    kind == io::ErrorKind::PermissionDenied && !is_root
}

/// Why no file can be made in a folder; nothing where one can.
pub(super) fn unusable_folder(folder: &Path) -> Option<io::Error> {
    // With the dot it must be a folder.
    access(folder.join("."), Access::WRITE_OK | Access::EXEC_OK).err().map(io::Error::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_lacks_no_right_of_its_own() {
        use io::ErrorKind::{NotFound, PermissionDenied};
        for (kind, is_root, expected) in
            [(PermissionDenied, false, true), (PermissionDenied, true, false), (NotFound, false, false)]
        {
            assert_eq!(user_lacks_right(kind, is_root), expected, "{kind:?}, root: {is_root}");
        }
    }
}
