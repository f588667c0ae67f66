//! Transfers the ownership of files from root to `user`: logs, sockets and folders of Rudy.
//!
//! The user may be able to write to their folders, and must not trick root into giving away other files. So no symbolic link in a
//! path is followed, a file is checked and changed through its descriptor, and only files of root are changed.

use std::env;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rudy_config::Location;
use rudy_service::listen_address::Endpoint;
use rudy_system::openat2;
use rudy_system::state_dir::{self, state_dir};
use rudy_system::user::User;
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, ResolveFlags, Stat, chownat, fstat};
use rustix::process::geteuid;

use crate::config::Config;

/// Folders that systemd creates for the service: `StateDirectory=`, `RuntimeDirectory=` (for the sockets of apps), `LogsDirectory=`,
/// `CacheDirectory=`.
const OF_SERVICE: [&str; 4] = ["STATE_DIRECTORY", "RUNTIME_DIRECTORY", "LOGS_DIRECTORY", "CACHE_DIRECTORY"];

/// Makes `user` the owner of these files. Failures are ignored: if the user cannot use a file, opening it fails with a reason.
pub(super) fn transfer_ownership(config: &Config, user: &User) {
    let of_service = OF_SERVICE.iter().filter_map(env::var_os);
    let of_service: Vec<PathBuf> =
        of_service.flat_map(|paths| env::split_paths(&paths).collect::<Vec<_>>()).collect();
    let of_service = of_service.iter().map(|path| (Kind::Folder, path.as_path()));
    let addresses = config.addresses();
    let sockets = addresses.iter().filter_map(|address| match &address.endpoint {
        Endpoint::Unix { path, .. } => Some((Kind::Socket, path.as_path())),
        _ => None,
    });
    let log = log_files(config).map(|(_, path, _)| (Kind::Log, path));
    let buffer_dir = config.buffer.dir.as_deref().map(|path| (Kind::EmptyFolder, path));
    let cache = config.cache.folder().filter(|_| config.has_cache());
    if let Some(folder) = &cache {
        let _ = state_dir::create(folder);
    }
    let cache = cache.iter().map(|path| (Kind::EmptyFolder, path.as_path()));
    for (kind, path) in of_service.chain(sockets).chain(log).chain(buffer_dir).chain(cache) {
        if let Ok(file) = kind.open(path, true) {
            let _ = chownat(file, "", Some(user.uid), Some(user.gid), AtFlags::EMPTY_PATH);
        }
    }
}

/// Makes `user` the owner of the state folder of root, `/var/lib/rudy`, which is created, and of what Rudy has kept there as root.
/// Returns it if it is the user's, also from an earlier start. systemd names another folder.
pub(super) fn transfer_state_folder(user: &User) -> Option<PathBuf> {
    if env::var_os("STATE_DIRECTORY").is_some() {
        return None;
    }
    let path = state_dir()?;
    state_dir::create(&path).ok()?;
    let metadata = fs::symlink_metadata(&path).ok()?;
    if metadata.uid() == geteuid().as_raw() && metadata.is_dir() && metadata.mode() & 0o777 == 0o700 {
        transfer_private(&path, user).ok()?;
    }
    let owner = fs::symlink_metadata(&path).ok()?.uid();
    (owner == user.uid.as_raw()).then_some(path)
}

/// Makes `user` the owner of a folder that only root can enter, and of its content, the folder last: until then, no other user can
/// replace anything in it. Links are not followed.
fn transfer_private(path: &Path, user: &User) -> io::Result<()> {
    if fs::symlink_metadata(path)?.is_dir() {
        for entry in fs::read_dir(path)? {
            transfer_private(&entry?.path(), user)?;
        }
    }
    Ok(chownat(CWD, path, Some(user.uid), Some(user.gid), AtFlags::SYMLINK_NOFOLLOW)?)
}

/// Whether a start will transfer the existing log.
pub(super) fn transfers_log(path: &Path) -> bool {
    Kind::Log.open(path, false).is_ok()
}

/// Whether a start will transfer the folder for bodies.
pub(super) fn transfers_buffer_dir(path: &Path) -> bool {
    Kind::EmptyFolder.open(path, false).is_ok()
}

/// The files of all logs, each with the name of the log and the place of its settings.
pub(super) fn log_files(config: &Config) -> impl Iterator<Item = (&'static str, &Path, Location)> {
    config
        .located_logs()
        .filter_map(|(log, destination, location)| Some((log, destination.path()?, location)))
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    /// Created if missing, because the user may lack access to its folder.
    Log,
    Socket,
    Folder,
    /// Only if empty: a folder with files, such as `/srv` or `/tmp`, may be shared.
    EmptyFolder,
}

impl Kind {
    /// Opens a file that may be transferred.
    fn open(self, path: &Path, create: bool) -> io::Result<OwnedFd> {
        let how = match self {
            Self::Log if create => {
                OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::NONBLOCK | OFlags::NOCTTY
            }
            Self::EmptyFolder => OFlags::RDONLY | OFlags::DIRECTORY,
            _ => OFlags::PATH,
        };
        let mode = if how.contains(OFlags::CREATE) { Mode::from_raw_mode(0o640) } else { Mode::empty() };
        let flags = how | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat2::open(CWD, path, flags, mode, ResolveFlags::NO_SYMLINKS)?;
        if self.is_transferable(&fstat(&file)?) && (!matches!(self, Self::EmptyFolder) || is_empty(&file)?) {
            Ok(file)
        } else {
            Err(io::ErrorKind::InvalidInput.into())
        }
    }

    fn is_transferable(self, stat: &Stat) -> bool {
        let expected = match self {
            // A second name can be a hard link that the user created to a file of root.
            Self::Log | Self::Socket if stat.st_nlink != 1 => return false,
            Self::Log => FileType::RegularFile,
            Self::Socket => FileType::Socket,
            Self::Folder | Self::EmptyFolder => FileType::Directory,
        };
        stat.st_uid == geteuid().as_raw() && FileType::from_raw_mode(stat.st_mode) == expected
    }
}

fn is_empty(folder: &OwnedFd) -> io::Result<bool> {
    for entry in Dir::read_from(folder)? {
        if ![&b"."[..], b".."].contains(&entry?.file_name().to_bytes()) {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn files_of_rudy_are_transferred() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name| folder.path().join(name);
        fs::create_dir(path("empty")).unwrap();
        fs::write(path("old"), "").unwrap();
        let _socket = UnixListener::bind(path("socket")).unwrap();
        for (kind, name) in [
            (Kind::Log, "new"),
            (Kind::Log, "old"),
            (Kind::Socket, "socket"),
            (Kind::EmptyFolder, "empty"),
            (Kind::Folder, "."),
        ] {
            assert!(kind.open(&path(name), true).is_ok(), "{name}");
        }
        assert_eq!(fs::metadata(path("new")).unwrap().mode() & 0o137, 0, "others cannot read a new log");
        assert!(transfers_log(&path("old")) && !transfers_log(&path("missing")) && !path("missing").exists());
    }

    #[test]
    fn a_private_folder_is_transferred_with_its_content_but_not_what_links_lead_to() {
        // Only root can give files away.
        if !geteuid().is_root() {
            return;
        }
        let (outside, folder) = (tempfile::NamedTempFile::new().unwrap(), tempfile::tempdir().unwrap());
        fs::create_dir_all(folder.path().join("acme/locks")).unwrap();
        fs::write(folder.path().join("acme/account"), "").unwrap();
        symlink(outside.path(), folder.path().join("link")).unwrap();
        let user = User::find("4000123:4000123").unwrap();
        transfer_private(folder.path(), &user).unwrap();
        for name in ["", "acme", "acme/locks", "acme/account", "link"] {
            let owner = fs::symlink_metadata(folder.path().join(name)).unwrap().uid();
            assert_eq!(owner, user.uid.as_raw(), "{name}");
        }
        assert_eq!(fs::metadata(outside.path()).unwrap().uid(), geteuid().as_raw());
    }

    #[test]
    fn other_files_of_root_are_not_transferred() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name| folder.path().join(name);
        fs::create_dir(path("full")).unwrap();
        fs::write(path("full/secret"), "").unwrap();
        symlink("full/secret", path("link")).unwrap();
        symlink("nowhere", path("dangling")).unwrap();
        symlink("full", path("link to folder")).unwrap();
        fs::hard_link(path("full/secret"), path("hard link")).unwrap();
        // Root can give a file away; to others, the files of root are those of another user.
        let theirs = if geteuid().is_root() { path("theirs") } else { "/etc/passwd".into() };
        if geteuid().is_root() {
            fs::write(&theirs, "").unwrap();
            std::os::unix::fs::chown(&theirs, Some(4_000_123), None).unwrap();
        }
        assert!(Kind::Log.open(&theirs, false).is_err());
        let _socket = UnixListener::bind(path("socket")).unwrap();
        for (kind, name) in [
            (Kind::Log, "link"),
            (Kind::Log, "dangling"),
            (Kind::Log, "link to folder/new"),
            (Kind::Log, "hard link"),
            (Kind::Log, "full"),
            (Kind::Log, "socket"),
            (Kind::Socket, "full/secret"),
            (Kind::Folder, "link to folder"),
            (Kind::Folder, "full/secret"),
            (Kind::EmptyFolder, "full"),
        ] {
            assert!(kind.open(&path(name), true).is_err(), "{kind:?} {name}");
        }
        assert!(!path("nowhere").exists() && !path("full/new").exists());
    }
}
