//! The folder for the sockets of an app's processes.

use std::ffi::OsStr;
use std::fs::Permissions;
use std::fs::{self, DirBuilder};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::{env, io, process};

use rudy_system::user::User;
use rustix::fs::{Access, FlockOperation, Mode, OFlags, access, flock, fstat, open};
use rustix::io::Errno;
use rustix::process::geteuid;

use super::MemberId;

/// The number of names to try. A name is in use only if a running Rudy has the same process id in another
/// container.
const TRIES: u32 = 1000;
/// The maximum number of folders of killed processes to remove at a start.
const LEFTOVERS_MAX: usize = 100;
/// The number in the next name.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// A folder that only this process uses. It is removed with its content when this is dropped.
#[derive(Debug)]
pub(super) struct SocketFolder {
    path: PathBuf,
    /// Locked as long as this process runs, so that later processes know that the folder is in use.
    _lock: OwnedFd,
}

impl SocketFolder {
    /// Creates the folder in the runtime directory of the service or the session, or else among the temporary
    /// files. `user` is that of the processes, if it is another one.
    pub(super) fn make(user: Option<&User>) -> io::Result<Self> {
        Self::make_in(&parent(user.is_some()))
    }

    fn make_in(parent: &Path) -> io::Result<Self> {
        let error_in_parent = |error: io::Error| {
            let message = format!("cannot create a folder for sockets in {}: {error}", parent.display());
            io::Error::new(error.kind(), message)
        };
        remove_leftovers(parent);
        for _ in 0..TRIES {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let path = parent.join(format!("rudy-{}-{number}", process::id()));
            // This fails if anything exists at the path, including a link of another user.
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                Err(error) => return Err(error_in_parent(error)),
            }
            // Another Rudy that removes leftovers may have locked it first.
            let lock = lock_if_unused(&path).inspect_err(|_| drop(fs::remove_dir(&path)));
            if let Some(lock) = lock.map_err(error_in_parent)? {
                return Ok(Self { path, _lock: lock });
            }
        }
        Err(io::Error::other(format!("{} has too many folders rudy-*: remove them", parent.display())))
    }

    /// Returns the path of the socket for purges, which the group of `user` may look up.
    pub(super) fn purge_socket(&self, user: Option<&User>) -> io::Result<PathBuf> {
        if let Some(user) = user {
            chown(&self.path, None, Some(user.gid.as_raw()))?;
            fs::set_permissions(&self.path, Permissions::from_mode(0o710))?;
        }
        Ok(self.path.join("purge"))
    }

    /// Returns the path of a process's socket.
    pub(super) fn socket(&self, id: MemberId) -> PathBuf {
        self.path.join(id.to_string())
    }
}

impl Drop for SocketFolder {
    fn drop(&mut self) {
        // A folder that cannot be removed is harmless: the next process with this name uses another. It is
        // empty if all processes have ended. `remove_dir` needs no descriptor, and a lack of descriptors may
        // be why a start failed.
        let _ = fs::remove_dir(&self.path).or_else(|_| fs::remove_dir_all(&self.path));
    }
}

/// Returns the parent of socket folders: the first of these in which this user can create one. systemd sets
/// `RUNTIME_DIRECTORY` for a unit with `RuntimeDirectory=`; it may have several paths separated by colons.
/// `XDG_RUNTIME_DIR` belongs to the user that started Rudy, which is another user if root started it. It is closed to the
/// processes of other users.
pub(super) fn parent(is_for_other_user: bool) -> PathBuf {
    let of_service = env::var_os("RUNTIME_DIRECTORY").and_then(|folders| env::split_paths(&folders).next());
    let of_session = env::var_os("XDG_RUNTIME_DIR").filter(|_| !is_for_other_user).map(PathBuf::from);
    // An empty variable counts as unset.
    let usable =
        |folder: &PathBuf| access(folder, Access::WRITE_OK | Access::EXEC_OK).is_ok() && folder.is_dir();
    of_service.into_iter().chain(of_session).find(usable).unwrap_or_else(env::temp_dir)
}

/// Removes the folders of this user whose processes were killed.
fn remove_leftovers(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    let folders = entries.flatten().filter(|entry| is_name(&entry.file_name())).map(|entry| entry.path());
    let unused = folders.filter_map(|path| Some((lock_if_unused(&path).ok()??, path)));
    for (_lock, path) in unused.take(LEFTOVERS_MAX) {
        // A folder that stays does no harm: another name is used.
        let _ = fs::remove_dir_all(path);
    }
}

/// Whether a name is that of a folder for sockets: `rudy-PID-NUMBER`.
fn is_name(name: &OsStr) -> bool {
    let numbers = name.to_str().and_then(|name| name.strip_prefix("rudy-")?.split_once('-'));
    numbers.is_some_and(|(pid, number)| pid.parse::<u32>().is_ok() && number.parse::<u64>().is_ok())
}

/// Locks a folder of this user. Returns `None` if there is none, or a running process has locked it.
fn lock_if_unused(path: &Path) -> io::Result<Option<OwnedFd>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let folder = match open(path, flags, Mode::empty()) {
        Err(error @ (Errno::MFILE | Errno::NFILE | Errno::NOMEM)) => return Err(error.into()),
        // It does not exist, is no folder, or belongs to another user.
        Err(_) => return Ok(None),
        Ok(folder) => folder,
    };
    if flock(&folder, FlockOperation::NonBlockingLockExclusive).is_err() {
        return Ok(None);
    }
    // A folder that was removed before it was locked has no links left.
    let is_ours = fstat(&folder).is_ok_and(|stat| stat.st_uid == geteuid().as_raw() && stat.st_nlink > 0);
    Ok(is_ours.then_some(folder))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folders_of_killed_servers_are_removed_and_those_in_use_and_others_are_not() {
        let parent = tempfile::tempdir().unwrap();
        let used = SocketFolder::make_in(parent.path()).unwrap();
        fs::write(used.socket(1), "").unwrap();
        // In a container, every start has the same process id.
        let next = format!("rudy-{}-{}", process::id(), NEXT.load(Ordering::Relaxed));
        let (left, others) =
            ([&*next, "rudy-1-1", "rudy-99999-7"], ["rudy-cache", "rudy-0", "rudy-1-x", "a-1-1"]);
        for name in left.iter().chain(&others) {
            fs::create_dir(parent.path().join(name)).unwrap();
            fs::write(parent.path().join(name).join("1"), "").unwrap();
        }
        let folder = SocketFolder::make_in(parent.path()).unwrap();
        assert_eq!(fs::read_dir(&folder.path).unwrap().count(), 0);
        let mut left = left.iter().map(|name| parent.path().join(name));
        assert!(left.all(|path| path == folder.path || !path.exists()));
        assert!(others.iter().all(|name| parent.path().join(name).join("1").exists()));
        assert!(used.socket(1).exists());
    }

    #[test]
    fn more_leftovers_than_are_removed_do_not_prevent_a_start() {
        let parent = tempfile::tempdir().unwrap();
        let first = NEXT.load(Ordering::Relaxed);
        for number in first..first + 2 * LEFTOVERS_MAX as u64 {
            fs::create_dir(parent.path().join(format!("rudy-{}-{number}", process::id()))).unwrap();
        }
        SocketFolder::make_in(parent.path()).unwrap();
    }

    #[test]
    fn a_symbolic_link_is_not_followed() {
        let parent = tempfile::tempdir().unwrap();
        let other = parent.path().join("other");
        fs::create_dir(&other).unwrap();
        std::os::unix::fs::symlink(&other, parent.path().join("rudy-1-1")).unwrap();
        remove_leftovers(parent.path());
        assert!(other.exists());
    }
}
