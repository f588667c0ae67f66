//! The folder in which the sockets of an app's processes are.

use std::fs::{self, DirBuilder};
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::{env, io, process};

use rustix::fs::{Access, FlockOperation, Mode, OFlags, access, flock, fstat, open};
use rustix::io::Errno;
use rustix::process::geteuid;

use super::MemberId;

/// How many names are tried. A name is taken only by a running Rudy that has this process id in another container.
const TRIES: u32 = 1000;
/// The next name.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// A folder of ours alone. It is removed, with what is in it, when this is dropped.
#[derive(Debug)]
pub(super) struct SocketFolder {
    path: PathBuf,
    /// Locked for as long as this process lives: how the next one knows whether a folder of this name is in use.
    _lock: OwnedFd,
}

impl SocketFolder {
    /// Makes it where the service manager or the session wants such things, or else among the temporary files.
    pub(super) fn make() -> io::Result<Self> {
        Self::make_in(&parent())
    }

    fn make_in(parent: &Path) -> io::Result<Self> {
        let cannot = |error: io::Error| {
            let message = format!("cannot make a folder for sockets in {}: {error}", parent.display());
            io::Error::new(error.kind(), message)
        };
        for _ in 0..TRIES {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let path = parent.join(format!("rudy-{}-{number}", process::id()));
            remove_leftover(&path).map_err(cannot)?;
            // This fails where anything is, a link of somebody else's too.
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                Err(error) => return Err(cannot(error)),
            }
            // Another Rudy that looks for leftovers may have been faster.
            let lock = lock_if_unused(&path).inspect_err(|_| drop(fs::remove_dir(&path)));
            if let Some(lock) = lock.map_err(cannot)? {
                return Ok(Self { path, _lock: lock });
            }
        }
        Err(io::Error::other(format!("{} is full of folders rudy-*: remove them", parent.display())))
    }

    /// Where the socket of a process is.
    pub(super) fn socket(&self, id: MemberId) -> PathBuf {
        self.path.join(id.to_string())
    }
}

impl Drop for SocketFolder {
    fn drop(&mut self) {
        // If it cannot be removed it does no harm, and the next to have this name takes another. It is empty if all processes have
        // ended; `remove_dir` needs no descriptor, which may be what the start failed for.
        let _ = fs::remove_dir(&self.path).or_else(|_| fs::remove_dir_all(&self.path));
    }
}

/// Where folders for sockets are made: the first of these in which this user can. `RUNTIME_DIRECTORY` is systemd's for a unit
/// with `RuntimeDirectory=`, and names several with colons between them. `XDG_RUNTIME_DIR` belongs to who started Rudy, which
/// has become another user if root started it.
pub(super) fn parent() -> PathBuf {
    let of_service = env::var_os("RUNTIME_DIRECTORY").and_then(|folders| env::split_paths(&folders).next());
    let of_session = env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    // An empty variable is as good as none.
    let usable =
        |folder: &PathBuf| access(folder, Access::WRITE_OK | Access::EXEC_OK).is_ok() && folder.is_dir();
    of_service.into_iter().chain(of_session).find(usable).unwrap_or_else(env::temp_dir)
}

/// Removes the folder of a Rudy that had this process id and was killed. In a container every start has the same one.
fn remove_leftover(path: &Path) -> io::Result<()> {
    if let Some(_lock) = lock_if_unused(path)? {
        // If it stays, another name is taken.
        let _ = fs::remove_dir_all(path);
    }
    Ok(())
}

/// The lock of a folder of ours, unless there is none or a process that lives has it.
fn lock_if_unused(path: &Path) -> io::Result<Option<OwnedFd>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let folder = match open(path, flags, Mode::empty()) {
        Err(error @ (Errno::MFILE | Errno::NFILE | Errno::NOMEM)) => return Err(error.into()),
        // It is not there, no folder, or not ours.
        Err(_) => return Ok(None),
        Ok(folder) => folder,
    };
    if flock(&folder, FlockOperation::NonBlockingLockExclusive).is_err() {
        return Ok(None);
    }
    // One that was removed before it was locked has no name left.
    let is_ours = fstat(&folder).is_ok_and(|stat| stat.st_uid == geteuid().as_raw() && stat.st_nlink > 0);
    Ok(is_ours.then_some(folder))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// More names than are tried, with what a killed server leaves in them.
    fn occupy(parent: &Path) -> Vec<PathBuf> {
        let first = NEXT.load(Ordering::Relaxed);
        let numbers = first..first + 2 * u64::from(TRIES);
        let paths = numbers.map(|number| parent.join(format!("rudy-{}-{number}", process::id())));
        paths
            .inspect(|path| {
                fs::create_dir(path).unwrap();
                fs::write(path.join("1"), "").unwrap();
            })
            .collect()
    }

    #[test]
    fn the_folders_of_a_killed_server_with_this_process_id_are_taken_over() {
        let parent = tempfile::tempdir().unwrap();
        occupy(parent.path());
        let folder = SocketFolder::make_in(parent.path()).unwrap();
        assert_eq!(fs::read_dir(&folder.path).unwrap().count(), 0);
    }

    #[test]
    fn a_folder_in_use_is_left_alone() {
        let parent = tempfile::tempdir().unwrap();
        let used = SocketFolder::make_in(parent.path()).unwrap();
        fs::write(used.socket(1), "").unwrap();
        remove_leftover(&used.path).unwrap();
        assert!(used.socket(1).exists());
    }

    #[test]
    fn a_link_in_place_of_a_folder_is_not_followed() {
        let parent = tempfile::tempdir().unwrap();
        let (other, link) = (parent.path().join("other"), parent.path().join("link"));
        fs::create_dir(&other).unwrap();
        std::os::unix::fs::symlink(&other, &link).unwrap();
        remove_leftover(&link).unwrap();
        assert!(other.exists());
    }
}
