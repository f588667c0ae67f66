//! The folder that is served, and the only way to a file in it.
//!
//! Each lookup says whether it may wait ([`Access`]). A worker takes what the kernel knows of paths and files without a disk: that
//! takes a microsecond or two, less than handing the lookup to another thread and back. Everything else is looked up on the pool
//! for blocking work, and so is all of a file system that is not local. One that hangs (NFS whose server is gone) holds threads of
//! the pool; serve such a folder with a process of its own, or listings, uploads and cold files wait with it.

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwapOption;
use rudy_http::semantics::etag::FileIdentity;
use rustix::fs::{AtFlags, FileType, OFlags, ResolveFlags, Statx, StatxFlags, StatxTimestamp};
use rustix::io::Errno;

use super::access::{Access, OpenDirectory, WouldBlock};
use super::clock;
use super::folders::Folders;
use super::options::FilesError;

/// What the file system says of a file: equal twice, it is the same file with the same content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Stat {
    pub(super) kind: Kind,
    pub(super) size: u64,
    pub(super) modified_ns: i128,
    inode: u64,
    device: (u32, u32),
    /// Nobody can set it, so it betrays a change that restored the modification time.
    changed_ns: i128,
}

/// What there is at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    File,
    Directory,
    /// A FIFO, a device, a socket: never served.
    Other,
}

impl Stat {
    pub(super) fn of(file: impl AsFd) -> Result<Self, Errno> {
        Ok(Self::from_statx(&rustix::fs::statx(file, c"", AtFlags::EMPTY_PATH, StatxFlags::BASIC_STATS)?))
    }

    /// What an entity tag is made of.
    pub(super) fn identity(&self) -> FileIdentity {
        FileIdentity { size: self.size, modified_ns: self.modified_ns, inode: self.inode }
    }

    fn from_statx(statx: &Statx) -> Self {
        Self {
            kind: match FileType::from_raw_mode(statx.stx_mode.into()) {
                FileType::RegularFile => Kind::File,
                FileType::Directory => Kind::Directory,
                _ => Kind::Other,
            },
            size: statx.stx_size,
            modified_ns: nanoseconds(statx.stx_mtime),
            inode: statx.stx_ino,
            device: (statx.stx_dev_major, statx.stx_dev_minor),
            changed_ns: nanoseconds(statx.stx_ctime),
        }
    }
}

fn nanoseconds(time: StatxTimestamp) -> i128 {
    i128::from(time.tv_sec) * 1_000_000_000 + i128::from(time.tv_nsec)
}

/// An open file or folder, and what was said of it right after.
pub(super) struct Opened {
    pub(super) file: File,
    pub(super) stat: Stat,
}

impl Opened {
    /// The last part of the path that it was found at behind all links, where the system tells.
    pub(super) fn name(&self) -> Option<String> {
        let link = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        Some(std::fs::read_link(link).ok()?.file_name()?.to_str()?.to_owned())
    }
}

/// Says now what would fail when the folder at `path` is opened and files in it are looked for.
pub(super) fn check(path: &Path, follow_symlinks: bool) -> Result<(), FilesError> {
    let wrong = |error: Errno| FilesError::Root(path.to_owned(), error.into());
    let directory = OpenDirectory::open(path, Access::Blocking).map_err(wrong)?;
    let resolve = resolve_flags(follow_symlinks);
    let found = directory.open_beneath("", LOOK, resolve, Access::Blocking);
    found.map(drop).map_err(|error| match error {
        // An old kernel has no such call; what filters calls refuses it with one of the two.
        Errno::NOSYS | Errno::PERM => FilesError::NoOpenat2(error.into()),
        _ => wrong(error),
    })
}

/// Opens without the right to read, and without asking the file system.
const LOOK: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);

fn resolve_flags(follow_symlinks: bool) -> ResolveFlags {
    let beneath = if follow_symlinks { ResolveFlags::empty() } else { ResolveFlags::BENEATH };
    beneath | ResolveFlags::NO_MAGICLINKS
}

/// The folder that is served. It is opened when it is first used, and closed by [`Folders`] when it is unused.
#[derive(Debug)]
pub(crate) struct Root {
    path: PathBuf,
    resolve: ResolveFlags,
    directory: Arc<Directory>,
    /// When it was last seen that `path` still leads to `directory`.
    checked_ms: AtomicU64,
    folders: Folders,
}

/// The descriptor of a root, while it is open. Only [`Folders`] changes it, which counts those that are open.
#[derive(Debug, Default)]
pub(super) struct Directory {
    pub(super) open: ArcSwapOption<OpenDirectory>,
    used_ms: AtomicU64,
}

impl Directory {
    /// When it was last used, on the clock that only goes forward.
    pub(super) fn used_ms(&self) -> u64 {
        self.used_ms.load(Ordering::Relaxed)
    }
}

impl Root {
    /// The folder at `path`, which is absolute, not opened yet.
    pub(super) fn new(path: PathBuf, follow_symlinks: bool, folders: Folders) -> Self {
        Self {
            path,
            resolve: resolve_flags(follow_symlinks),
            directory: Arc::default(),
            checked_ms: AtomicU64::default(),
            folders,
        }
    }

    /// Opens what `path` (decoded, relative, empty for the root) leads to.
    ///
    /// `O_NONBLOCK`, because the open of a FIFO would wait for a writer. The path holds no `..`, and `openat2` sees to it
    /// that no symbolic link leads out, not even one that is put there while we look.
    pub(super) fn open_file(&self, path: &str, access: Access) -> Result<Opened, Errno> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = File::from(self.open_beneath(path, flags, access)?);
        let stat = Stat::of(&file)?;
        Ok(Opened { file, stat })
    }

    /// What `path` leads to, under the same rules but without the right to read it; `None` where it leads nowhere.
    pub(super) fn stat(&self, path: &str, access: Access) -> Result<Option<Stat>, WouldBlock> {
        match self.open_beneath(path, LOOK, access).and_then(Stat::of) {
            Err(error) if access.must_wait(&error.into()) => Err(WouldBlock),
            stat => Ok(stat.ok()),
        }
    }

    /// What kind of thing `path` leads to, as for [`Self::stat`]; an error where that is not to be known. Sees first
    /// whether the root's own path leads elsewhere by now, at most every `check_after_ms`.
    pub(crate) fn kind(
        &self,
        path: &str,
        check_after_ms: u64,
        access: Access,
    ) -> Result<Option<Kind>, Errno> {
        // Where its path leads nowhere, what is open is asked.
        if let Err(error) = self.follow(clock::monotonic_ms(), check_after_ms, access)
            && (access.must_wait(&error.into()) || !self.is_open())
        {
            return Err(error);
        }
        match self.open_beneath(path, LOOK, access) {
            Ok(found) => Ok(Some(Stat::of(found)?.kind)),
            Err(error) if is_absence(error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Opens the root if it is closed. If it is open, sees at most every `check_after_ms` whether the root's own path leads
    /// elsewhere by now: many put a release in place by turning one symbolic link. If the path leads nowhere the open folder is
    /// kept, and the error says why.
    pub(super) fn follow(&self, now_ms: u64, check_after_ms: u64, access: Access) -> Result<(), Errno> {
        let Some(held) = self.directory.open.load_full() else {
            return self.open(now_ms, access).map(drop);
        };
        if now_ms.saturating_sub(self.checked_ms.load(Ordering::Relaxed)) < check_after_ms {
            return Ok(());
        }
        let found = OpenDirectory::open(&self.path, access);
        if let Err(error) = found
            && access.must_wait(&error.into())
        {
            // The pool looks; until then, so does every other request.
            return Err(error);
        }
        self.checked_ms.store(now_ms, Ordering::Relaxed);
        let found = found?;
        if !found.is_same(&held) {
            self.folders.keep_open(&self.directory, Arc::new(found));
        }
        Ok(())
    }

    /// Whether the folder is open.
    pub(super) fn is_open(&self) -> bool {
        self.directory.open.load().is_some()
    }

    /// The root's own path.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    fn open_beneath(&self, path: &str, flags: OFlags, access: Access) -> Result<OwnedFd, Errno> {
        let now_ms = clock::monotonic_ms();
        self.directory.used_ms.store(now_ms, Ordering::Relaxed);
        let directory = self.directory.open.load_full().map_or_else(|| self.open(now_ms, access), Ok)?;
        directory.open_beneath(path, flags, self.resolve, access)
    }

    fn open(&self, now_ms: u64, access: Access) -> Result<Arc<OpenDirectory>, Errno> {
        let opened = Arc::new(OpenDirectory::open(&self.path, access)?);
        self.directory.used_ms.store(now_ms, Ordering::Relaxed);
        self.checked_ms.store(now_ms, Ordering::Relaxed);
        self.folders.keep_open(&self.directory, opened.clone());
        Ok(opened)
    }
}

/// Whether an error says that nothing is there that could be served. XDEV: a link leads out of the root. NXIO: a socket, or
/// a FIFO. Both are as good as absent.
pub(super) fn is_absence(error: Errno) -> bool {
    matches!(
        error,
        Errno::NOENT
            | Errno::NOTDIR
            | Errno::LOOP
            | Errno::NAMETOOLONG
            | Errno::XDEV
            | Errno::NXIO
            | Errno::NODEV
    )
}
