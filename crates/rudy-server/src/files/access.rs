//! What a worker may ask of the file system, and what only the pool for blocking work may.
//!
//! A worker has one thread, so it asks for what is in memory alone ([`Access::Cached`]). Where that does not tell, the same
//! lookup runs from its start on the pool, and may wait there ([`Access::Blocking`]).

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::panic::resume_unwind;
use std::path::Path;
use std::sync::{LazyLock, Mutex, PoisonError};

use rustix::fs::{AtFlags, CWD, FsWord, Mode, OFlags, ResolveFlags, StatxFlags};
use rustix::io::Errno;

/// Whether a lookup may wait for a disk or a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// It may not: it fails with `EAGAIN` where it would have to.
    Cached,
    /// It may.
    Blocking,
}

/// A lookup with [`Access::Cached`] would have had to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WouldBlock;

impl Access {
    /// Whether a lookup has failed only because it may not wait. On the pool, `EAGAIN` is a failure like others.
    pub(crate) fn must_wait(self, error: &io::Error) -> bool {
        self == Self::Cached && error.kind() == io::ErrorKind::WouldBlock
    }

    /// Reads as much of the beginning of a file as `buffer` has room for; an error if that is not there.
    pub(super) fn read(self, file: &File, buffer: &mut [u8]) -> io::Result<()> {
        match self {
            Self::Blocking => file.read_exact_at(buffer, 0),
            Self::Cached if rudy_net::file::read_cached(file, buffer, 0)? == buffer.len() => Ok(()),
            // Either the rest is not in memory, or the file has become shorter.
            Self::Cached => Err(io::ErrorKind::WouldBlock.into()),
        }
    }
}

/// Runs a lookup on the pool for blocking work.
pub(crate) async fn on_pool<T: Send + 'static>(
    look: impl FnOnce(Access) -> Result<T, WouldBlock> + Send + 'static,
) -> T {
    match tokio::task::spawn_blocking(|| look(Access::Blocking)).await {
        Ok(Ok(found)) => found,
        Ok(Err(WouldBlock)) => unreachable!("a lookup may wait on the pool"),
        Err(error) => match error.try_into_panic() {
            Ok(panic) => resume_unwind(panic),
            // The runtime ends, and drops what waits here.
            Err(_) => std::future::pending().await,
        },
    }
}

/// A folder that is open, to look for files in.
#[derive(Debug)]
pub(super) struct OpenDirectory {
    fd: OwnedFd,
    /// Device and inode, which make it this folder and no other.
    place: (u32, u32, u64),
    file_system: FileSystem,
}

impl OpenDirectory {
    /// Opens the folder at `path`.
    pub(super) fn open(path: &Path, access: Access) -> Result<Self, Errno> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = match access {
            Access::Blocking => rustix::fs::openat(CWD, path, flags, Mode::empty())?,
            Access::Cached if !*CACHED_LOOKUPS => return Err(Errno::AGAIN),
            Access::Cached => rustix::fs::openat2(CWD, path, flags, Mode::empty(), ResolveFlags::CACHED)?,
        };
        // DONT_SYNC: device and inode do not change, so no server of a network file system has to be asked.
        let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
        let stat = rustix::fs::statx(&fd, c"", flags, StatxFlags::INO)?;
        let device = (stat.stx_dev_major, stat.stx_dev_minor);
        let file_system = file_system(&fd, device, access)?;
        Ok(Self { fd, place: (device.0, device.1, stat.stx_ino), file_system })
    }

    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.place == other.place
    }

    /// Opens what `path` leads to, under the rules of `resolve`.
    pub(super) fn open_beneath(
        &self,
        path: &str,
        flags: OFlags,
        resolve: ResolveFlags,
        access: Access,
    ) -> Result<OwnedFd, Errno> {
        let path = if path.is_empty() { "." } else { path };
        let open = |resolve| rustix::fs::openat2(&self.fd, path, flags, Mode::empty(), resolve);
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
            FileSystem::Memory => ResolveFlags::empty(),
            FileSystem::Local if *CACHED_LOOKUPS => ResolveFlags::CACHED,
            FileSystem::Local | FileSystem::Other => return Err(Errno::AGAIN),
        };
        // What is mounted in the folder may be of any kind.
        match open(resolve | in_memory | ResolveFlags::NO_XDEV) {
            Err(Errno::XDEV | Errno::INTR) => Err(Errno::AGAIN),
            result => result,
        }
    }
}

/// `openat2` gives up with EAGAIN where a rename anywhere on the machine runs beside a link that climbs.
const OPEN_ATTEMPTS: usize = 10;

/// Whether the system looks for a path in its cache alone where it is asked to: kernels before 5.12 refuse that.
static CACHED_LOOKUPS: LazyLock<bool> = LazyLock::new(|| {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let found = rustix::fs::openat2(CWD, c"/", flags, Mode::empty(), ResolveFlags::CACHED);
    matches!(found, Ok(_) | Err(Errno::AGAIN))
});

/// What a file system may wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FileSystem {
    /// Nothing: tmpfs. It does not remember what is not there, so the cache alone would not tell.
    Memory,
    /// A disk. What it has in memory it opens and describes at once.
    Local,
    /// A network, or another process, in every `open` and `statx`, wherever the path is cached.
    Other,
}

impl FileSystem {
    /// By the numbers of `statfs(2)`. One that is not here costs the way to the pool and back.
    fn of_type(magic: FsWord) -> Self {
        const TMPFS: FsWord = 0x0102_1994;
        const RAMFS: FsWord = 0x8584_58f6;
        const EXT: FsWord = 0xef53;
        const XFS: FsWord = 0x5846_5342;
        const BTRFS: FsWord = 0x9123_683e;
        const F2FS: FsWord = 0xf2f5_2010;
        const BCACHEFS: FsWord = 0xca45_1a4e;
        const ZFS: FsWord = 0x2fc1_2fc1;
        /// Of containers, over one of the others.
        const OVERLAY: FsWord = 0x794c_7630;
        const SQUASHFS: FsWord = 0x7371_7368;
        const EROFS: FsWord = 0xe0f5_e1e2;
        match magic {
            TMPFS | RAMFS => Self::Memory,
            EXT | XFS | BTRFS | F2FS | BCACHEFS | ZFS | OVERLAY | SQUASHFS | EROFS => Self::Local,
            _ => Self::Other,
        }
    }
}

/// The devices whose file system is known, but for [`FileSystem::Other`]. To ask for the type of a network file system may wait
/// for its server, so only the pool asks.
static DEVICES: Mutex<Vec<((u32, u32), FileSystem)>> = Mutex::new(Vec::new());

fn file_system(folder: impl AsFd, device: (u32, u32), access: Access) -> Result<FileSystem, Errno> {
    let devices = || DEVICES.lock().unwrap_or_else(PoisonError::into_inner);
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
