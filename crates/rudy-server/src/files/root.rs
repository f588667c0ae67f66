//! The folder that is served, and the only way to a file in it.
//!
//! Opening and `statx` block, and are called where the request is answered, as nginx does it: on a local disk with warm
//! caches they take a microsecond or two, less than handing them to another thread and back. On a file system that hangs
//! (NFS whose server is gone) they stop the core that called them; serve such a folder with a process of its own.

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwapOption;
use rudy_http::semantics::etag::FileIdentity;
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, Statx, StatxFlags, StatxTimestamp};
use rustix::io::Errno;

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
    let directory = open_directory(path).map_err(wrong)?;
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let found = rustix::fs::openat2(&directory, c".", flags, Mode::empty(), resolve_flags(follow_symlinks));
    found.map(drop).map_err(|error| match error {
        // An old kernel has no such call; what filters calls refuses it with one of the two.
        Errno::NOSYS | Errno::PERM => FilesError::NoOpenat2(error.into()),
        _ => wrong(error),
    })
}

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
    pub(super) open: ArcSwapOption<OwnedFd>,
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
    pub(super) fn open_file(&self, path: &str) -> Result<Opened, Errno> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = File::from(self.open_beneath(path, flags)?);
        let stat = Stat::of(&file)?;
        Ok(Opened { file, stat })
    }

    /// What `path` leads to, under the same rules but without the right to read it; `None` where it leads nowhere.
    pub(super) fn stat_beneath(&self, path: &str) -> Option<Stat> {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        Stat::of(self.open_beneath(path, flags).ok()?).ok()
    }

    /// What kind of thing `path` leads to, as for [`Self::stat_beneath`]; an error where that is not to be known. Sees first
    /// whether the root's own path leads elsewhere by now, at most every `check_after_ms`.
    pub(crate) fn kind(&self, path: &str, check_after_ms: u64) -> Result<Option<Kind>, Errno> {
        if let Err(error) = self.follow(clock::monotonic_ms(), check_after_ms)
            && !self.is_open()
        {
            return Err(error);
        }
        // Where its path leads nowhere, what is open is asked.
        match self.open_beneath(path, OFlags::PATH | OFlags::CLOEXEC) {
            Ok(found) => Ok(Some(Stat::of(found)?.kind)),
            Err(error) if is_absence(error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// What `path` leads to now, for a comparison with what was opened before. It follows any link: whatever is the same
    /// file has been reached beneath the root already.
    pub(super) fn stat(&self, path: &str) -> Option<Stat> {
        let directory = self.directory().ok()?;
        let statx = rustix::fs::statx(&directory, or_dot(path), AtFlags::empty(), StatxFlags::BASIC_STATS);
        Some(Stat::from_statx(&statx.ok()?))
    }

    /// Opens the root if it is closed. If it is open, sees at most every `check_after_ms` whether the root's own path leads
    /// elsewhere by now: many put a release in place by turning one symbolic link. If the path leads nowhere the open folder is
    /// kept, and the error says why.
    pub(super) fn follow(&self, now_ms: u64, check_after_ms: u64) -> Result<(), Errno> {
        let Some(held) = self.directory.open.load_full() else { return self.open(now_ms).map(drop) };
        if now_ms.saturating_sub(self.checked_ms.load(Ordering::Relaxed)) < check_after_ms {
            return Ok(());
        }
        self.checked_ms.store(now_ms, Ordering::Relaxed);
        let found = open_directory(&self.path)?;
        let place = |stat: Stat| (stat.device, stat.inode);
        if Stat::of(&found).map(place) != Stat::of(&held).map(place) {
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

    fn directory(&self) -> Result<Arc<OwnedFd>, Errno> {
        let now_ms = clock::monotonic_ms();
        self.directory.used_ms.store(now_ms, Ordering::Relaxed);
        self.directory.open.load_full().map_or_else(|| self.open(now_ms), Ok)
    }

    fn open(&self, now_ms: u64) -> Result<Arc<OwnedFd>, Errno> {
        let opened = Arc::new(open_directory(&self.path)?);
        self.directory.used_ms.store(now_ms, Ordering::Relaxed);
        self.checked_ms.store(now_ms, Ordering::Relaxed);
        self.folders.keep_open(&self.directory, opened.clone());
        Ok(opened)
    }

    fn open_beneath(&self, path: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
        let directory = self.directory()?;
        for _ in 0..OPEN_ATTEMPTS {
            match rustix::fs::openat2(&directory, or_dot(path), flags, Mode::empty(), self.resolve) {
                Err(Errno::AGAIN | Errno::INTR) => {}
                result => return result,
            }
        }
        Err(Errno::AGAIN)
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

/// `openat2` gives up with EAGAIN where a rename anywhere on the machine runs beside a link that climbs.
const OPEN_ATTEMPTS: usize = 10;

fn open_directory(path: &Path) -> Result<OwnedFd, Errno> {
    rustix::fs::openat(CWD, path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}

fn or_dot(path: &str) -> &str {
    if path.is_empty() { "." } else { path }
}
