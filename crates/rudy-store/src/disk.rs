//! The files of a store, relative to its folder. Every change of the folder is made here, so that tests can let any of them fail.

use std::cell::Cell;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, IoSliceMut};
use std::marker::PhantomData;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use rudy_runtime::is_planted;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, ResolveFlags, StatxFlags};
use rustix::io::{Errno, ReadWriteFlags};

/// Whether a call may wait for the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// It uses only what the kernel has cached, and fails with [`WouldBlock`] otherwise: for a worker.
    Cached,
    /// It waits: for a thread of its own.
    Blocking,
}

/// A call with [`Access::Cached`] has to be repeated with [`Access::Blocking`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WouldBlock;

/// A change of the folder.
#[derive(Debug, Clone, Copy)]
pub enum Change<'a> {
    /// Create a file.
    Create(&'a str),
    /// Create a folder that need not be new.
    CreateFolder(&'a str),
    /// Write to a file.
    Write {
        /// The file.
        file: &'a File,
        /// What is written.
        data: &'a [u8],
        /// Where.
        offset: u64,
    },
    /// Give a file or a folder another name.
    Rename {
        /// Its name.
        from: &'a str,
        /// Its next name, perhaps that of another file, in a folder that need not exist.
        to: &'a str,
    },
    /// Remove a file that need not exist.
    Remove(&'a str),
    /// Remove a folder and all that is in it.
    RemoveFolder(&'a str),
    /// Wait until a file is on the disk.
    Sync(&'a File),
    /// Wait until the names in the folder itself are on the disk.
    SyncNames,
    /// Wait until everything is on the disk.
    SyncAll,
}

/// Decides which changes fail, for tests and simulations. Names are relative to the folder.
pub trait Faults: fmt::Debug + Send + Sync {
    /// Is called before each change. A change that fails has no effect, except that a write writes `written` bytes first.
    fn before(&self, change: Change<'_>) -> Result<(), Fault>;

    /// Is called before a file or a folder is read. With [`Access::Cached`], it decides what is cached:
    /// [`io::ErrorKind::WouldBlock`] is what is not.
    fn before_read(&self, _name: &str, _access: Access) -> io::Result<()> {
        Ok(())
    }
}

/// A disk that is not the kernel's, for all stores of the threads that have [entered](OnDisk) it.
pub trait SimulatedDisk {
    /// Returns the faults of a folder that a store opens.
    fn open(&self, folder: &Path) -> Arc<dyn Faults>;
}

thread_local! {
    static CURRENT: Cell<Option<&'static dyn SimulatedDisk>> = const { Cell::new(None) };
}

/// The time in which a thread is on a simulated disk. Dropping it returns to the kernel's.
#[derive(Debug)]
pub struct OnDisk(PhantomData<*const ()>);

impl OnDisk {
    /// Puts the thread on a disk.
    #[must_use]
    pub fn enter(disk: &'static dyn SimulatedDisk) -> Self {
        CURRENT.set(Some(disk));
        Self(PhantomData)
    }
}

impl Drop for OnDisk {
    fn drop(&mut self) {
        CURRENT.set(None);
    }
}

/// The failure of a change.
#[derive(Debug)]
pub struct Fault {
    /// For a write: how many bytes are written before it fails.
    pub written: usize,
    /// The error.
    pub error: io::Error,
}

/// The folder of a store.
#[derive(Debug)]
pub(crate) struct Disk {
    folder: OwnedFd,
    path: PathBuf,
    faults: Option<Arc<dyn Faults>>,
}

/// Only the user of the server may read what it stores for its clients.
const FILE_MODE: Mode = Mode::from_raw_mode(0o600);
const FOLDER_MODE: Mode = Mode::from_raw_mode(0o700);

/// A foreign file may be a link, or a pipe that would block.
const OPEN: OFlags = OFlags::CLOEXEC.union(OFlags::NOFOLLOW).union(OFlags::NONBLOCK);

/// Whether the kernel has `openat2` with `RESOLVE_CACHED` (since Linux 5.12). A filter of system calls may block it: systemd's
/// `RestrictSUIDSGID=`, or the profile of a container.
static CACHED_LOOKUPS: LazyLock<bool> = LazyLock::new(|| {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let found = rustix::fs::openat2(CWD, c"/", flags, Mode::empty(), ResolveFlags::CACHED);
    matches!(found, Ok(_) | Err(Errno::AGAIN))
});

impl Disk {
    /// Opens the folder, and creates it if it does not exist.
    pub(crate) fn open(path: &Path, faults: Option<Arc<dyn Faults>>) -> io::Result<Self> {
        let path = std::path::absolute(path)?;
        fs::create_dir_all(&path)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = rustix::fs::openat(CWD, &path, flags, Mode::empty())?;
        let faults = faults.or_else(|| CURRENT.get().map(|disk| disk.open(&path)));
        Ok(Self { folder, path, faults })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Opens a file for reading.
    pub(crate) fn read(&self, path: &str, access: Access) -> Result<File, Errno> {
        let (flags, mode) = (OFlags::RDONLY | OPEN, Mode::empty());
        if let Some(faults) = &self.faults {
            faults.before_read(path, access).map_err(|error| errno(&error))?;
        }
        let file = match self.access_to_open(access) {
            Access::Blocking => rustix::fs::openat(&self.folder, path, flags, mode),
            Access::Cached if !*CACHED_LOOKUPS => Err(Errno::AGAIN),
            Access::Cached => rustix::fs::openat2(&self.folder, path, flags, mode, ResolveFlags::CACHED),
        };
        file.map(File::from)
    }

    /// Whether reads of a file may wait that was opened with this access. Faults have decided about all of them then.
    pub(crate) fn access_to_open(&self, access: Access) -> Access {
        if self.faults.is_some() { Access::Blocking } else { access }
    }

    /// Opens a file for changes.
    pub(crate) fn edit(&self, path: &str) -> io::Result<File> {
        Ok(rustix::fs::openat(&self.folder, path, OFlags::RDWR | OPEN, Mode::empty())?.into())
    }

    /// Opens a file that need not exist, without counting it as a change: the lock.
    pub(crate) fn lock_file(&self, path: &str) -> io::Result<File> {
        Ok(rustix::fs::openat(&self.folder, path, OFlags::RDWR | OFlags::CREATE | OPEN, FILE_MODE)?.into())
    }

    /// Creates a file that does not exist.
    pub(crate) fn create(&self, path: &str) -> io::Result<File> {
        self.before(Change::Create(path))?;
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OPEN;
        Ok(rustix::fs::openat(&self.folder, path, flags, FILE_MODE)?.into())
    }

    /// Creates a folder that need not be new.
    pub(crate) fn create_folder(&self, path: &str) -> io::Result<()> {
        self.before(Change::CreateFolder(path))?;
        match rustix::fs::mkdirat(&self.folder, path, FOLDER_MODE) {
            Ok(()) | Err(Errno::EXIST) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    pub(crate) fn write(&self, file: &File, data: &[u8], offset: u64) -> io::Result<()> {
        if let Some(Err(fault)) =
            self.faults.as_ref().map(|faults| faults.before(Change::Write { file, data, offset }))
        {
            file.write_all_at(&data[..fault.written.min(data.len())], offset)?;
            return if is_planted("a half-written record") { Ok(()) } else { Err(fault.error) };
        }
        file.write_all_at(data, offset)
    }

    /// Renames a file, over another if that exists.
    pub(crate) fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.before(Change::Rename { from, to })?;
        Ok(rustix::fs::renameat(&self.folder, from, &self.folder, to)?)
    }

    /// Renames a file into a folder that need not exist.
    pub(crate) fn rename_into(&self, from: &str, to: &str) -> io::Result<()> {
        match self.rename(from, to) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                for (end, _) in to.match_indices('/') {
                    self.create_folder(&to[..end])?;
                }
                self.rename(from, to)
            }
            result => result,
        }
    }

    /// Removes a file that need not exist.
    pub(crate) fn remove(&self, path: &str) -> io::Result<()> {
        self.before(Change::Remove(path))?;
        match rustix::fs::unlinkat(&self.folder, path, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Removes a folder and all that is in it.
    pub(crate) fn remove_folder(&self, path: &str) -> io::Result<()> {
        self.before(Change::RemoveFolder(path))?;
        fs::remove_dir_all(self.path.join(path))
    }

    /// Waits until a file is on the disk.
    pub(crate) fn sync(&self, file: &File) -> io::Result<()> {
        self.sync_by(Change::Sync(file), || file.sync_data())
    }

    /// Waits until the names in the folder itself are on the disk.
    pub(crate) fn sync_names(&self) -> io::Result<()> {
        self.sync_by(Change::SyncNames, || Ok(rustix::fs::fsync(&self.folder)?))
    }

    /// Waits until all changes of the file system are on the disk.
    pub(crate) fn sync_all(&self) -> io::Result<()> {
        self.sync_by(Change::SyncAll, || Ok(rustix::fs::syncfs(&self.folder)?))
    }

    /// What faults decide about has to outlive no power failure.
    fn sync_by(&self, change: Change<'_>, sync: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        self.before(change)?;
        if self.faults.is_some() { Ok(()) } else { sync() }
    }

    /// Returns the size of a file and its inode, without waiting for other attributes. `None` if it is not a file.
    pub(crate) fn stat(&self, path: &str) -> Option<(u64, u64)> {
        let mask = StatxFlags::SIZE | StatxFlags::TYPE | StatxFlags::INO;
        let stat = rustix::fs::statx(&self.folder, path, AtFlags::SYMLINK_NOFOLLOW, mask).ok()?;
        let is_file = rustix::fs::FileType::from_raw_mode(stat.stx_mode.into()).is_file();
        is_file.then_some((stat.stx_size, stat.stx_ino))
    }

    /// Returns the names in a folder that need not exist, with whether each is a folder.
    pub(crate) fn names(&self, path: &str) -> io::Result<Vec<(String, bool)>> {
        if let Some(faults) = &self.faults {
            faults.before_read(path, Access::Blocking)?;
        }
        let entries = match fs::read_dir(self.path.join(path)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let names = entries.map(|entry| {
            let entry = entry?;
            let is_folder = entry.file_type()?.is_dir();
            Ok((entry.file_name().to_string_lossy().into_owned(), is_folder))
        });
        let mut names = names.collect::<io::Result<Vec<_>>>()?;
        if self.faults.is_some() {
            // The order of the kernel depends on more than the seed of a simulation.
            names.sort_unstable();
        }
        Ok(names)
    }

    fn before(&self, change: Change<'_>) -> io::Result<()> {
        let Some(faults) = &self.faults else { return Ok(()) };
        faults.before(change).map_err(|fault| fault.error)
    }
}

/// Returns the error of a fault as one of the kernel.
fn errno(error: &io::Error) -> Errno {
    match error.kind() {
        io::ErrorKind::WouldBlock => Errno::AGAIN,
        _ => Errno::from_io_error(error).unwrap_or(Errno::IO),
    }
}

/// Reads until the buffer is full or the file ends, and returns the number of bytes.
pub(crate) fn read_at(
    file: &File,
    mut buffer: &mut [u8],
    mut offset: u64,
    access: Access,
) -> Result<usize, Errno> {
    let mut total = 0;
    while !buffer.is_empty() {
        let read = match access {
            Access::Blocking => rustix::io::pread(file, &mut *buffer, offset),
            // EOPNOTSUPP: the file system cannot report what is cached.
            Access::Cached => {
                rustix::io::preadv2(file, &mut [IoSliceMut::new(buffer)], offset, ReadWriteFlags::NOWAIT)
                    .map_err(|error| if error == Errno::OPNOTSUPP { Errno::AGAIN } else { error })
            }
        };
        match read {
            Ok(0) => break,
            Ok(read) => {
                (buffer, offset, total) = (&mut buffer[read..], offset + read as u64, total + read);
            }
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(total)
}
