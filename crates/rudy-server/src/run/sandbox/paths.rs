//! The paths that a sandboxed process needs: those of its configuration, and those of the system.

use std::env;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use landlock::{AccessFs, BitFlags, make_bitflags};
use rudy_admin::default_folder;
use rudy_log::Destination;
use rudy_pipeline::HandlerConfig;
use rudy_pipeline::client_address::TrustedProxy;
use rudy_service::listen_address::Endpoint;
use rudy_system::state_dir::{self, state_dir};
use rudy_system::watched_files::folders_of;

use crate::config::{Config, TlsTable};
use crate::step_settings::StepsTable;

/// A file or folder, and the access that Rudy needs.
#[derive(Debug)]
pub(super) struct PathAccess {
    pub(super) path: PathBuf,
    pub(super) access: BitFlags<AccessFs>,
}

impl fmt::Display for PathAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = if self.access == READ { "read" } else { "write in" };
        write!(f, "{verb} {}", self.path.display())
    }
}

const READ: BitFlags<AccessFs> = make_bitflags!(AccessFs::{ReadFile | ReadDir});
/// A log is appended to, and created again after it was renamed.
const LOG: BitFlags<AccessFs> = make_bitflags!(AccessFs::{WriteFile | MakeReg});
/// A FIFO without a reader is opened for reading, too.
const SPECIAL_LOG: BitFlags<AccessFs> = make_bitflags!(AccessFs::{ReadFile | WriteFile});
/// Rudy also renames the log, and reads and removes the renamed ones.
const ROTATED_LOG: BitFlags<AccessFs> =
    make_bitflags!(AccessFs::{ReadFile | ReadDir | WriteFile | MakeReg | RemoveFile});
/// Temporary files without a name, or with a short-lived name if the file system requires one.
const BODIES: BitFlags<AccessFs> =
    make_bitflags!(AccessFs::{ReadFile | WriteFile | Truncate | MakeReg | RemoveFile});
/// A socket file is created, and removed before and after.
const SOCKET: BitFlags<AccessFs> = make_bitflags!(AccessFs::{MakeSock | RemoveFile});
const STATE: BitFlags<AccessFs> = make_bitflags!(AccessFs::{
    ReadFile | ReadDir | WriteFile | Truncate | MakeReg | MakeDir | MakeSym | RemoveFile | RemoveDir | Refer
});

/// Paths that the system libraries read later: the time zone; `/proc/self`, for the status and the owner of a port in use; and the
/// files and modules that resolve the names of upstreams; the authorities that are trusted; the number of this boot, for locks.
const SYSTEM: [&str; 24] = [
    // The engine keeps a spare descriptor open.
    "/dev/null",
    "/proc/self",
    "/etc/localtime",
    "/etc/zoneinfo",
    "/usr/share/zoneinfo",
    "/etc/hosts",
    "/etc/host.conf",
    "/etc/resolv.conf",
    "/etc/nsswitch.conf",
    "/etc/gai.conf",
    "/etc/services",
    "/etc/ld.so.cache",
    "/lib",
    "/lib64",
    "/usr/lib",
    "/usr/lib64",
    "/run/systemd/resolve",
    "/run/resolvconf",
    "/run/NetworkManager",
    "/etc/pki",
    "/etc/ssl",
    "/usr/local/share/ca-certificates",
    "/usr/share/ca-certificates",
    "/proc/sys/kernel/random",
];

pub(super) fn system_paths() -> impl Iterator<Item = PathAccess> {
    SYSTEM.into_iter().map(|path| PathAccess { path: path.into(), access: READ })
}

/// The paths that a configuration needs.
pub(super) fn paths_of_config(config: &Config) -> Vec<PathAccess> {
    let mut wanted = Vec::new();
    let mut add = |path: PathBuf, access| wanted.push(PathAccess { path, access });
    // A reload reads them. Their folders are allowed, because many programs replace a file by a new one, and a renewal replaces
    // certificates.
    files_read(config).flat_map(folders_of).for_each(|folder| add(folder, READ));
    let routes = config.sites.iter().flat_map(|site| &site.routes);
    routes
        .clone()
        .flat_map(|route| route.handler.paths_read())
        .for_each(|path| add(or_working_directory(&path), READ));
    let steps = routes.map(|route| &route.steps).chain(config.sites.iter().map(|site| &site.steps));
    let steps = steps.chain([&config.defaults.steps]);
    steps.flat_map(StepsTable::paths_read).for_each(|path| add(path, READ));
    let logs = config.located_access_logs();
    let logs = logs.map(|(log, _)| (log.destination.path(), log.rotation.is_some()));
    let error_log = &config.error_log;
    let error_log = (
        error_log.place.destination.as_ref().and_then(Destination::path),
        error_log.place.rotation.is_some(),
    );
    for (path, is_rotated) in logs.chain([error_log]) {
        let Some(path) = path else { continue };
        // A device or a FIFO gets a rule for itself: a rule for its folder would include all devices.
        match fs::metadata(path) {
            Ok(metadata) if !metadata.is_file() => add(path.to_owned(), SPECIAL_LOG),
            _ => add(folder_of(path), if is_rotated { ROTATED_LOG } else { LOG }),
        }
    }
    add(config.buffer.dir(), BODIES);
    for address in config.addresses() {
        if let Endpoint::Unix { path, .. } = address.endpoint {
            add(folder_of(&path), SOCKET);
        }
    }
    let admin_folder = config.admin_socket.as_deref().map(folder_of).or_else(default_folder);
    if let Some(folder) = admin_folder {
        add(folder, SOCKET);
    }
    if let Some(folder) = config.cache.folder().filter(|_| config.has_cache()) {
        // Without the folder, the start fails later with the reason.
        let _ = state_dir::create(&folder);
        add(folder, STATE);
    }
    if let Some(folder) = state_dir().filter(|_| config.keeps_state()) {
        // Without the folder, nothing is kept.
        let _ = state_dir::create(&folder);
        add(folder, STATE);
    }
    if let Some(folders) = env::var_os("STATE_DIRECTORY") {
        env::split_paths(&folders).for_each(|folder| add(folder, STATE));
    }
    wanted
}

/// The files that a reload or an update reads again.
fn files_read(config: &Config) -> impl Iterator<Item = &Path> {
    let tls = config.sites.iter().filter_map(|site| site.tls.as_ref()).flat_map(TlsTable::paths);
    let redirects = config.sites.iter().filter_map(|site| site.redirects.as_ref()).map(|file| &**file);
    let others = config.ticket_keys.iter().map(|file| &**file);
    let others = others.chain(config.acme.authority.iter().map(|file| &**file));
    let of_collector = config.tracing.iter().filter_map(|table| table.trusted_certificates.as_deref());
    let others = others.chain(of_collector);
    let networks = config.client_address.trusted_proxies.iter().filter_map(|proxy| match proxy {
        TrustedProxy::File(path) => Some(path.as_path()),
        TrustedProxy::Network(_) | TrustedProxy::Unix => None,
    });
    config.sources.paths().chain(redirects).chain(tls).chain(others).chain(networks)
}

fn folder_of(file: &Path) -> PathBuf {
    file.parent().map_or_else(PathBuf::new, or_working_directory)
}

/// The parent of a name without a slash is the working directory.
fn or_working_directory(folder: &Path) -> PathBuf {
    if folder.as_os_str().is_empty() { ".".into() } else { folder.to_owned() }
}
