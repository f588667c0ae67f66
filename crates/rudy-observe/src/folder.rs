//! The folder of a process in `/proc`, held open.

use std::ffi::CString;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::os::fd::OwnedFd;

use rustix::buffer::spare_capacity;
use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags, openat, readlinkat, statat};
use rustix::io::Errno;

use crate::Error;

/// `/proc/PID`, held open. Reads through it always refer to this process, even if its id is reused. All reads
/// fail after the process has ended.
#[derive(Debug)]
pub struct Folder {
    pid: u32,
    descriptor: OwnedFd,
}

impl Folder {
    /// Opens the folder of a process.
    pub fn open(pid: u32) -> Result<Self, Error> {
        let path = format!("/proc/{pid}");
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        match openat(CWD, &path, flags, Mode::empty()) {
            Ok(descriptor) => Ok(Self { pid, descriptor }),
            Err(Errno::NOENT | Errno::SRCH) => Err(Error::NoSuchProcess { pid }),
            Err(errno) => Err(unreadable(path, errno)),
        }
    }

    /// The process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Replaces `buffer` with the contents of a file.
    pub fn read(&self, name: &str, buffer: &mut Vec<u8>) -> Result<(), Error> {
        self.try_read(name, buffer).map_err(|errno| self.error(name, errno))
    }

    /// Like [`read`](Self::read), for a file that may disappear while the process runs. Returns whether it
    /// existed.
    pub fn read_if_there(&self, name: &str, buffer: &mut Vec<u8>) -> Result<bool, Error> {
        match self.try_read(name, buffer) {
            Ok(()) => Ok(true),
            Err(Errno::NOENT | Errno::SRCH) => Ok(false),
            Err(errno) => Err(unreadable(self.path(name), errno)),
        }
    }

    fn try_read(&self, name: &str, buffer: &mut Vec<u8>) -> Result<(), Errno> {
        let file = openat(&self.descriptor, name, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        read_to_end(&file, buffer)
    }

    /// The numeric names in `task` and in `fd`.
    pub fn list(&self, name: &str) -> Result<Vec<u32>, Error> {
        self.try_list(name).map_err(|errno| self.error(name, errno))
    }

    fn try_list(&self, name: &str) -> Result<Vec<u32>, Errno> {
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        let folder = Dir::new(openat(&self.descriptor, name, flags, Mode::empty())?)?;
        let mut numbers = Vec::new();
        for entry in folder {
            // `.` and `..` are the only other names.
            numbers.extend(entry?.file_name().to_str().ok().and_then(|name| name.parse::<u32>().ok()));
        }
        Ok(numbers)
    }

    /// The size of a file or folder, from `stat`.
    pub fn size(&self, name: &str) -> Result<u64, Error> {
        let stat =
            statat(&self.descriptor, name, AtFlags::empty()).map_err(|errno| self.error(name, errno))?;
        Ok(u64::try_from(stat.st_size).unwrap_or(0))
    }

    /// The target of a link, or `None` if it is gone.
    #[must_use]
    pub fn link(&self, name: &str) -> Option<Vec<u8>> {
        readlinkat(&self.descriptor, name, Vec::new()).ok().map(CString::into_bytes)
    }

    /// Calls a function for each line of a file. A missing file has no lines.
    pub fn lines(&self, name: &str, mut take: impl FnMut(&[u8])) -> Result<(), Error> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let file = match openat(&self.descriptor, name, flags, Mode::empty()) {
            Ok(file) => File::from(file),
            Err(Errno::NOENT) => return Ok(()),
            Err(errno) => return Err(self.error(name, errno)),
        };
        let unreadable = |source| Error::Unreadable { path: self.path(name), source };
        let mut reader = BufReader::with_capacity(TABLE_BYTES, file);
        let mut line = Vec::new();
        while reader.read_until(b'\n', &mut line).map_err(unreadable)? > 0 {
            take(&line);
            line.clear();
        }
        Ok(())
    }

    fn path(&self, name: &str) -> String {
        format!("/proc/{}/{name}", self.pid)
    }

    /// The error of a file that differs from proc(5).
    #[must_use]
    pub fn unexpected(&self, name: &str, expected: &'static str) -> Error {
        Error::Unexpected { path: self.path(name), expected }
    }

    /// The folder of an ended process is empty, and its open files cannot be read.
    fn error(&self, name: &str, errno: Errno) -> Error {
        match errno {
            Errno::NOENT | Errno::SRCH => Error::Ended { pid: self.pid },
            errno => unreadable(self.path(name), errno),
        }
    }
}

/// A file outside of process folders.
pub(crate) fn read(path: &str, buffer: &mut Vec<u8>) -> Result<(), Error> {
    openat(CWD, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
        .and_then(|file| read_to_end(&file, buffer))
        .map_err(|errno| unreadable(path.to_owned(), errno))
}

/// The kernel returns a table in pages; reading several at once saves system calls.
const TABLE_BYTES: usize = 64 * 1024;

/// A page, the unit in which the kernel returns `/proc` files.
const READ_BYTES: usize = 4096;

fn read_to_end(file: &OwnedFd, buffer: &mut Vec<u8>) -> Result<(), Errno> {
    buffer.clear();
    loop {
        buffer.reserve(READ_BYTES);
        match rustix::io::read(file, spare_capacity(buffer)) {
            Ok(0) => return Ok(()),
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
}

fn unreadable(path: String, errno: Errno) -> Error {
    match errno {
        Errno::ACCESS | Errno::PERM => Error::Denied { path },
        errno => Error::Unreadable { path, source: io::Error::from(errno) },
    }
}
