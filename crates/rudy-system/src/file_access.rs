//! File system access that never blocks a worker.
//!
//! A worker has one thread, so it only uses what the kernel has cached ([`Access::Cached`]). If that is not enough, the same
//! lookup starts again on the thread pool for blocking work ([`Access::Blocking`]).

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::panic::resume_unwind;
use std::path::Path;

use parking_lot::Mutex;
use rustix::fs::{AtFlags, CWD, FsWord, Mode, OFlags, ResolveFlags, StatxFlags};
use rustix::io::Errno;

use crate::openat2;

/// Whether a lookup can block on a disk or a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Fails with `EAGAIN` instead of blocking.
    Cached,
    /// Blocks.
    Blocking,
}

/// The error of a lookup with [`Access::Cached`] that would have to block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WouldBlock;

impl Access {
    /// Returns whether a lookup failed only because it would block. On the thread pool, `EAGAIN` is an ordinary error.
    #[must_use]
    pub fn must_wait(self, error: &io::Error) -> bool {
        self == Self::Cached && error.kind() == io::ErrorKind::WouldBlock
    }

    /// Fills `buffer` from the beginning of a file. Fails if the file is shorter.
    pub fn read(self, file: &File, buffer: &mut [u8]) -> io::Result<()> {
        match self {
            Self::Blocking => file.read_exact_at(buffer, 0),
            Self::Cached if rudy_service::file::read_cached(file, buffer, 0)? == buffer.len() => Ok(()),
            // The rest is not cached, or the file was truncated.
            Self::Cached => Err(io::ErrorKind::WouldBlock.into()),
        }
    }
}

/// Runs a lookup on the thread pool for blocking work.
pub async fn on_pool<T: Send + 'static>(
    lookup: impl FnOnce(Access) -> Result<T, WouldBlock> + Send + 'static,
) -> T {
    match rudy_runtime::blocking(|| lookup(Access::Blocking)).await {
        Ok(Ok(found)) => found,
        Ok(Err(WouldBlock)) => unreachable!("lookups on the thread pool can block"),
        Err(error) => match error.try_into_panic() {
            Ok(panic) => resume_unwind(panic),
            // The runtime is shutting down and drops this future.
            Err(_) => std::future::pending().await,
        },
    }
}

/// An open folder in which files are looked up.
#[derive(Debug)]
pub struct OpenDirectory {
    fd: OwnedFd,
    /// Major and minor number of the device, and the inode. They identify the folder.
    identity: (u32, u32, u64),
    file_system: FileSystem,
}

impl OpenDirectory {
    /// Opens the folder at `path`.
    pub fn open(path: &Path, access: Access) -> Result<Self, Errno> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = match access {
            Access::Blocking => rustix::fs::openat(CWD, path, flags, Mode::empty())?,
            Access::Cached if !openat2::has_cached_lookups() => return Err(Errno::AGAIN),
            Access::Cached => openat2::open(CWD, path, flags, Mode::empty(), ResolveFlags::CACHED)?,
        };
        // DONT_SYNC: device and inode never change, so a network file system need not query its server.
        let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
        let stat = rustix::fs::statx(&fd, c"", flags, StatxFlags::INO)?;
        let device = (stat.stx_dev_major, stat.stx_dev_minor);
        let file_system = file_system(&fd, device, access)?;
        Ok(Self { fd, identity: (device.0, device.1, stat.stx_ino), file_system })
    }

    /// Whether both are the same folder.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        self.identity == other.identity
    }

    /// Opens `path` below the folder with the given rules for symbolic links.
    pub fn open_beneath(
        &self,
        path: impl AsRef<OsStr>,
        flags: OFlags,
        resolve: ResolveFlags,
        access: Access,
    ) -> Result<OwnedFd, Errno> {
        let path = path.as_ref();
        let path = if path.is_empty() { OsStr::new(".") } else { path };
        let open = |resolve| openat2::open(&self.fd, path, flags, Mode::empty(), resolve);
        if access == Access::Blocking {
            for _ in 0..OPEN_ATTEMPTS {
                match open(resolve) {
                    Err(Errno::AGAIN | Errno::INTR) => {}
                    result => return result,
                }
            }
            return Err(Errno::AGAIN);
        }
        let in_memory = match self.file_system {
            // Only `openat2` can stay within a file system.
            _ if !openat2::is_available() => return Err(Errno::AGAIN),
            FileSystem::Memory => ResolveFlags::empty(),
            FileSystem::LocalDisk if openat2::has_cached_lookups() => ResolveFlags::CACHED,
            FileSystem::LocalDisk | FileSystem::Other => return Err(Errno::AGAIN),
        };
        // Another file system can be mounted in the folder, and it can be slow.
        match open(resolve | in_memory | ResolveFlags::NO_XDEV) {
            Err(Errno::XDEV | Errno::INTR) => Err(Errno::AGAIN),
            result => result,
        }
    }
}

/// Attempts before a path is given up. `openat2` fails with EAGAIN if a rename on the machine races with the resolution of `..`.
const OPEN_ATTEMPTS: usize = 10;

/// What an access to a file system can block on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FileSystem {
    /// Nothing, as with tmpfs. It caches no missing names, so `RESOLVE_CACHED` would fail for them.
    Memory,
    /// A disk. Access to cached files does not block.
    LocalDisk,
    /// A network or another process. Every `open` and `statx` can block, even if the path is cached.
    Other,
}

impl FileSystem {
    /// Returns the kind of a file system by its magic number (`statfs(2)`). Unknown ones are only accessed from the thread pool.
    fn of_type(magic: FsWord) -> Self {
        const TMPFS: FsWord = 0x0102_1994;
        const RAMFS: FsWord = 0x8584_58f6;
        const EXT: FsWord = 0xef53;
        const XFS: FsWord = 0x5846_5342;
        const BTRFS: FsWord = 0x9123_683e;
        const F2FS: FsWord = 0xf2f5_2010;
        const BCACHEFS: FsWord = 0xca45_1a4e;
        const ZFS: FsWord = 0x2fc1_2fc1;
        /// Used by containers, on top of another file system.
        const OVERLAY: FsWord = 0x794c_7630;
        const SQUASHFS: FsWord = 0x7371_7368;
        const EROFS: FsWord = 0xe0f5_e1e2;
        match magic {
            TMPFS | RAMFS => Self::Memory,
            EXT | XFS | BTRFS | F2FS | BCACHEFS | ZFS | OVERLAY | SQUASHFS | EROFS => Self::LocalDisk,
            _ => Self::Other,
        }
    }
}

/// The devices whose file system is known and not [`FileSystem::Other`]. `fstatfs` can block on a network file system, so only the
/// thread pool calls it.
static DEVICES: Mutex<Vec<((u32, u32), FileSystem)>> = Mutex::new(Vec::new());

fn file_system(folder: impl AsFd, device: (u32, u32), access: Access) -> Result<FileSystem, Errno> {
    let devices = || DEVICES.lock();
    let known = devices().iter().find(|(known, _)| *known == device).map(|(_, file_system)| *file_system);
    match (known, access) {
        (Some(known), _) => Ok(known),
        (None, Access::Cached) => Err(Errno::AGAIN),
        (None, Access::Blocking) => {
            let found = rustix::fs::fstatfs(folder);
            let found = found.map_or(FileSystem::Other, |found| FileSystem::of_type(found.f_type));
            if found != FileSystem::Other {
                devices().push((device, found));
            }
            Ok(found)
        }
    }
}
