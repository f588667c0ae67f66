//! What else a start needs of this machine: addresses and the access log. A start finds it by listening and opening, which
//! `rudy check` must not do.

use std::io;
use std::path::Path;

use rudy_net::listen::{Address, Listener};
use rustix::fs::{Access, access};

use super::{AccessLogOptions, AppTable, Config, Diagnostics, Handler, Place, Problem, RouteAuthorize};
use crate::access_log::Destination;

impl Config {
    /// Addresses that cannot be listened on, and an access log that cannot be opened.
    ///
    /// # Errors
    ///
    /// All of them.
    pub(crate) fn check_start(&self) -> Result<(), Diagnostics> {
        let listen = Place::file(0).key("listen");
        let addresses = self.listen.iter().enumerate().filter_map(|(index, address)| {
            let error = Listener::check(address).err()?;
            Some(Problem::value(&listen.index(index), error.to_string()).label("this address"))
        });
        let problems: Vec<_> = addresses.chain(self.unusable_access_log()).collect();
        if problems.is_empty() { Ok(()) } else { Err(Diagnostics::new(self.sources.clone(), problems)) }
    }

    fn unusable_access_log(&self) -> Option<Problem> {
        let AccessLogOptions { destination: Destination::File(path), .. } = self.access_log.as_ref()? else {
            return None;
        };
        let why = if path.is_dir() {
            "it is a folder".to_owned()
        } else if path.exists() {
            access(path, Access::WRITE_OK).err().map(|errno| io::Error::from(errno).to_string())?
        } else {
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
            let folder = folder.unwrap_or(Path::new("."));
            format!("{}: {}", folder.display(), unusable_folder(folder)?)
        };
        let title = format!("cannot open the access log {}: {why}", path.display());
        Some(Problem::value(&Place::file(0).key("access_log").key("path"), title).label("this file"))
    }

    /// What only a start can find out.
    pub(super) fn unknown_before_start(&self) -> Vec<String> {
        let addresses = self.listen.iter().filter_map(|address| match address {
            Address::Ip(ip) if ip.port() == 0 => None,
            Address::AllInterfaces { port: 0 } => None,
            Address::Inherited { .. } => {
                Some(format!("whether the service manager passes a socket for {address}"))
            }
            _ => Some(format!("whether another program listens on {address}")),
        });
        let mut apps = Vec::new();
        for app in self.apps() {
            let unknown = match (&app.command, &app.processes.user) {
                (None, _) => {
                    app.addresses().iter().map(|at| format!("whether an app answers at {at}")).collect()
                }
                (Some(command), Some(user)) => vec![format!("whether {user} may run {}", command.join(" "))],
                (Some(_), None) => Vec::new(),
            };
            let new: Vec<_> = unknown.into_iter().filter(|line| !apps.contains(line)).collect();
            apps.extend(new);
        }
        addresses.chain(apps).collect()
    }

    /// The apps of all routes, in written order.
    fn apps(&self) -> impl Iterator<Item = &AppTable> {
        self.sites.iter().flat_map(|site| {
            let of_site = site.authorize.as_ref().map(|table| &table.app);
            of_site.into_iter().chain(site.routes.iter().flat_map(|route| {
                let authorizer = match &route.authorize {
                    Some(RouteAuthorize::App(table)) => Some(&table.app),
                    _ => None,
                };
                let handler = match &route.handler {
                    Handler::Fastcgi(table) | Handler::Php(table) => Some(&table.app),
                    _ => None,
                };
                authorizer.into_iter().chain(handler)
            }))
        })
    }
}

/// Why no file can be made in a folder; nothing where one can.
pub(super) fn unusable_folder(folder: &Path) -> Option<String> {
    // With the dot it must be a folder.
    let errno = access(folder.join("."), Access::WRITE_OK | Access::EXEC_OK).err()?;
    Some(io::Error::from(errno).to_string())
}
