//! What a confined process needs: the files and folders of its configuration, and those of the system.

use std::env;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use landlock::{AccessFs, BitFlags, make_bitflags};
use rudy_net::listen::Endpoint;

use crate::config::Config;
use crate::handlers::HandlerConfig;
use crate::run::ownership::access_log;

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
/// A log is appended to, and made if it was renamed.
const LOG: BitFlags<AccessFs> = make_bitflags!(AccessFs::{WriteFile | MakeReg});
/// Files without a name, or with one for a moment where the file system has no others.
const BODIES: BitFlags<AccessFs> =
    make_bitflags!(AccessFs::{ReadFile | WriteFile | Truncate | MakeReg | RemoveFile});
/// A socket is made, and removed before and after.
const SOCKET: BitFlags<AccessFs> = make_bitflags!(AccessFs::{MakeSock | RemoveFile});
const STATE: BitFlags<AccessFs> = make_bitflags!(AccessFs::{
    ReadFile | ReadDir | WriteFile | Truncate | MakeReg | MakeDir | MakeSym | RemoveFile | RemoveDir | Refer
});

/// What the system wants to read for us later: the time zone; the process itself, for the status and to say who has a port;
/// and what looks up the names of upstreams, with the modules that it loads for that.
const SYSTEM: [&str; 19] = [
    // What the engine holds a descriptor of, to have one to spare.
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
];

pub(super) fn system_paths() -> impl Iterator<Item = PathAccess> {
    SYSTEM.into_iter().map(|path| PathAccess { path: path.into(), access: READ })
}

/// What a configuration needs at any time of its life.
pub(super) fn paths_of_config(config: &Config) -> Vec<PathAccess> {
    let mut wanted = Vec::new();
    let mut want = |path: PathBuf, access| wanted.push(PathAccess { path, access });
    // A reload reads it. The folder, because many programs write a file by putting another one in its place.
    config.sources.paths().for_each(|path| want(folder_of(path), READ));
    let routes = config.sites.iter().flat_map(|site| &site.routes);
    routes.flat_map(|route| route.handler.reads()).for_each(|path| want(path, READ));
    if let Some(log) = access_log(config) {
        // A device is opened by its own name: a rule for its folder would be one for all devices.
        let is_file = fs::metadata(log).map_or(true, |metadata| metadata.is_file());
        want(if is_file { folder_of(log) } else { log.to_owned() }, LOG);
    }
    want(config.buffer.dir(), BODIES);
    for address in &config.listen {
        if let Endpoint::Unix { path, .. } = &address.endpoint {
            want(folder_of(path), SOCKET);
        }
    }
    if let Some(folders) = env::var_os("STATE_DIRECTORY") {
        env::split_paths(&folders).for_each(|folder| want(folder, STATE));
    }
    wanted
}

fn folder_of(file: &Path) -> PathBuf {
    file.parent().map_or_else(PathBuf::new, or_here)
}

/// The folder above a name without a slash is the working folder.
fn or_here(folder: &Path) -> PathBuf {
    if folder.as_os_str().is_empty() { ".".into() } else { folder.to_owned() }
}
