//! The metadata of files below a root.

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd};

use rudy_message::semantics::etag::FileIdentity;
use rustix::fs::{AtFlags, FileType, Statx, StatxFlags, StatxTimestamp};
use rustix::io::Errno;

/// The metadata of a file. If it is equal twice, the file and its content have not changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Stat {
    pub(super) kind: Kind,
    pub(super) size: u64,
    pub(super) modified_ns: i128,
    inode: u64,
    device: (u32, u32),
    /// No program can set it, so it reveals changes that restore the modification time.
    changed_ns: i128,
}

/// The kind of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A regular file.
    File,
    /// A folder.
    Directory,
    /// A FIFO, a device, a socket: never served.
    Other,
}

impl Stat {
    pub(super) fn of(file: impl AsFd) -> Result<Self, Errno> {
        Ok(Self::from_statx(&rustix::fs::statx(file, c"", AtFlags::EMPTY_PATH, StatxFlags::BASIC_STATS)?))
    }

    /// Returns the input of an entity tag.
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

/// An open file or folder with its metadata.
pub(super) struct Opened {
    pub(super) file: File,
    pub(super) stat: Stat,
}

impl Opened {
    /// Returns the file name after all symbolic links, if `/proc` shows it.
    pub(super) fn name(&self) -> Option<String> {
        let link = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        Some(std::fs::read_link(link).ok()?.file_name()?.to_str()?.to_owned())
    }
}

/// A path that a lookup examined, and its state then; `None` if it was missing.
#[derive(Debug)]
pub(super) struct Dependency {
    pub(super) path: String,
    pub(super) seen: Option<Stat>,
}

/// Returns whether an error means that no file can be served: it is missing, a link leads out of the root (XDEV), or it is a socket
/// or FIFO (NXIO).
pub(super) fn is_not_found(error: Errno) -> bool {
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
