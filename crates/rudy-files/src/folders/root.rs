//! The root folder of a route. All access to its files goes through [`Root`].
//!
//! A worker only uses what the kernel has cached ([`Access`]). That takes one or two microseconds, less than handing the lookup to
//! another thread and back. The thread pool for blocking work does everything else, and all access to file systems that are not
//! local. If a network file system hangs, it blocks threads of the pool, and listings, uploads and uncached files with them. Serve
//! such a folder from a separate process.

use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwapOption;
use rudy_system::file_access::{Access, OpenDirectory, WouldBlock};
use rustix::fs::{OFlags, ResolveFlags};
use rustix::io::Errno;

use super::Folders;
use crate::clock;
use crate::options::FilesError;
use crate::stat::{Kind, Opened, Stat, is_not_found};

/// Checks that the folder at `path` can be opened and that lookups work in it. Returns its absolute path.
pub(crate) fn checked(path: &Path, follow_symlinks: bool) -> Result<PathBuf, FilesError> {
    let failure = |error: Errno| FilesError::Root(path.to_owned(), error.into());
    let directory = OpenDirectory::open(path, Access::Blocking).map_err(failure)?;
    let resolve = resolve_flags(follow_symlinks);
    let found = directory.open_beneath("", STAT_FLAGS, resolve, Access::Blocking);
    found.map_err(failure)?;
    std::path::absolute(path).map_err(|error| FilesError::Root(path.to_owned(), error))
}

/// Flags to open a file. Without `O_NONBLOCK`, opening a FIFO would wait for a writer.
const FILE_FLAGS: OFlags =
    OFlags::RDONLY.union(OFlags::CLOEXEC).union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

/// Flags to open a file for `statx` only. They need no read permission.
const STAT_FLAGS: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);

fn resolve_flags(follow_symlinks: bool) -> ResolveFlags {
    let beneath = if follow_symlinks { ResolveFlags::empty() } else { ResolveFlags::BENEATH };
    beneath | ResolveFlags::NO_MAGICLINKS
}

/// The root folder of a route. The first use opens it, and [`Folders`] closes it when it is unused.
#[derive(Debug)]
pub struct Root {
    path: PathBuf,
    resolve: ResolveFlags,
    directory: Arc<Directory>,
    /// When `path` was last checked to lead to `directory`.
    checked_ms: AtomicU64,
    folders: Folders,
}

/// The descriptor of a root while it is open. Only [`Folders`] changes it, because it counts the open ones.
#[derive(Debug, Default)]
pub(super) struct Directory {
    pub(super) open: ArcSwapOption<OpenDirectory>,
    used_ms: AtomicU64,
}

impl Directory {
    /// Returns when the folder was last used, in milliseconds of the monotonic clock.
    pub(super) fn used_ms(&self) -> u64 {
        self.used_ms.load(Ordering::Relaxed)
    }
}

impl Root {
    /// Returns the folder at `path`, an absolute path, without opening it.
    pub(super) fn new(path: PathBuf, follow_symlinks: bool, folders: Folders) -> Self {
        Self {
            path,
            resolve: resolve_flags(follow_symlinks),
            directory: Arc::default(),
            checked_ms: AtomicU64::default(),
            folders,
        }
    }

    /// Opens `path`, which is decoded and relative; empty for the root.
    ///
    /// The path contains no `..`, and [`rudy_system::openat2`] ensures that no symbolic link leads out of the root, even if one is created concurrently.
    pub(crate) fn open_file(&self, path: impl AsRef<OsStr>, access: Access) -> Result<Opened, Errno> {
        opened(self.open_beneath(path.as_ref(), FILE_FLAGS, access)?)
    }

    /// Opens the sibling of a file that was found: as [`Self::open_file`], but only in the folder that is open. A new deployment has
    /// siblings of other files, and most files have none: each search for a replacement takes longer than the lookup.
    pub(crate) fn open_sibling(&self, path: &str, access: Access) -> Result<Opened, Errno> {
        opened(self.current(clock::monotonic_ms(), access)?.open_beneath(
            path,
            FILE_FLAGS,
            self.resolve,
            access,
        )?)
    }

    /// Returns the metadata of `path` by the same rules, without read permission; `None` if it is missing.
    pub(crate) fn stat(&self, path: &str, access: Access) -> Result<Option<Stat>, WouldBlock> {
        known(self.open_beneath(path, STAT_FLAGS, access).and_then(Stat::of), access)
    }

    /// As [`Self::stat`], but only in the folder that is open, for the siblings of a file that was found: see [`Self::open_sibling`].
    pub(crate) fn stat_sibling(&self, path: &str, access: Access) -> Result<Option<Stat>, WouldBlock> {
        let current = self.current(clock::monotonic_ms(), access);
        let found = current.and_then(|current| current.open_beneath(path, STAT_FLAGS, self.resolve, access));
        known(found.and_then(Stat::of), access)
    }

    /// Returns the kind of the file at `path`, like [`Self::stat`]; an error if the kind is unknown. First revalidates the root, at
    /// most every `check_after_ms`.
    pub fn kind(&self, path: &str, check_after_ms: u64, access: Access) -> Result<Option<Kind>, Errno> {
        // If the path of the root is broken, use the open folder.
        if let Err(error) = self.revalidate(clock::monotonic_ms(), check_after_ms, access)
            && (access.must_wait(&error.into()) || !self.is_open())
        {
            return Err(error);
        }
        match self.open_beneath(path, STAT_FLAGS, access) {
            Ok(found) => Ok(Some(Stat::of(found)?.kind)),
            Err(error) if is_not_found(error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Opens the root if it is closed. If it is open, checks at most every `check_after_ms` whether its path now leads to another
    /// folder, because deployments often switch a symbolic link. If the path is broken, returns the error and keeps the open folder.
    pub(crate) fn revalidate(&self, now_ms: u64, check_after_ms: u64, access: Access) -> Result<(), Errno> {
        let Some(current) = self.directory.open.load_full() else {
            return self.open(now_ms, access).map(drop);
        };
        if now_ms.saturating_sub(self.checked_ms.load(Ordering::Relaxed)) < check_after_ms {
            return Ok(());
        }
        let found = self.replacement(&current, now_ms, access);
        if let Err(error) = &found
            && !access.must_wait(&(*error).into())
        {
            self.checked_ms.store(now_ms, Ordering::Relaxed);
        }
        // Until the thread pool has checked it, every other request tries too.
        found.map(drop)
    }

    /// Returns whether the folder is open.
    pub(crate) fn is_open(&self) -> bool {
        self.directory.open.load().is_some()
    }

    /// Returns the path of the root.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn open_beneath(&self, path: impl AsRef<OsStr>, flags: OFlags, access: Access) -> Result<OwnedFd, Errno> {
        let now_ms = clock::monotonic_ms();
        let directory = self.current(now_ms, access)?;
        let path = path.as_ref();
        match directory.open_beneath(path, flags, self.resolve, access) {
            Err(error) if is_not_found(error) => match self.replacement(&directory, now_ms, access) {
                Ok(Some(new)) => new.open_beneath(path, flags, self.resolve, access),
                Err(would_block) if access.must_wait(&would_block.into()) => Err(would_block),
                // If the path of the root is broken, use the open folder.
                Ok(None) | Err(_) => Err(error),
            },
            result => result,
        }
    }

    /// Returns the folder, which is opened if it is closed.
    fn current(&self, now_ms: u64, access: Access) -> Result<Arc<OpenDirectory>, Errno> {
        self.directory.used_ms.store(now_ms, Ordering::Relaxed);
        self.directory.open.load_full().map_or_else(|| self.open(now_ms, access), Ok)
    }

    /// Opens the folder that replaces `current` at the path of the root, if there is one. Without a file, the path is always checked: after
    /// a deployment has switched a link and removed the old folder, no request may get 404. That takes about as long as the lookup.
    fn replacement(
        &self,
        current: &OpenDirectory,
        now_ms: u64,
        access: Access,
    ) -> Result<Option<Arc<OpenDirectory>>, Errno> {
        let found = Arc::new(OpenDirectory::open(&self.path, access)?);
        self.checked_ms.store(now_ms, Ordering::Relaxed);
        if found.is_same(current) {
            return Ok(None);
        }
        self.folders.keep_open(&self.directory, found.clone());
        Ok(Some(found))
    }

    fn open(&self, now_ms: u64, access: Access) -> Result<Arc<OpenDirectory>, Errno> {
        let opened = Arc::new(OpenDirectory::open(&self.path, access)?);
        self.directory.used_ms.store(now_ms, Ordering::Relaxed);
        self.checked_ms.store(now_ms, Ordering::Relaxed);
        self.folders.keep_open(&self.directory, opened.clone());
        Ok(opened)
    }
}

/// Returns the metadata, or `None` if there is none, unless that takes time to find out.
fn known(stat: Result<Stat, Errno>, access: Access) -> Result<Option<Stat>, WouldBlock> {
    match stat {
        Err(error) if access.must_wait(&error.into()) => Err(WouldBlock),
        stat => Ok(stat.ok()),
    }
}

fn opened(file: OwnedFd) -> Result<Opened, Errno> {
    let file = File::from(file);
    let stat = Stat::of(&file)?;
    Ok(Opened { file, stat })
}
