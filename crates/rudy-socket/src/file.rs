//! The file of a Unix socket, for servers and FastCGI apps.
//!
//! [`bind`] replaces a stale socket, which no process listens on, and no other file. The [`SocketFile`] removes the file
//! when it is dropped, unless another file has replaced it.

use std::fs::{self, Permissions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use rustix::fs::{FileType, Mode, OFlags, fstat, open};
use socket2::{Domain, SockAddr, Socket, Type};

/// How long a socket that refuses connections is taken for one whose process has bound it and does not listen yet.
const LISTENS_WITHIN: Duration = Duration::from_millis(500);

/// How often such a socket is inspected.
const INSPECTION_INTERVAL: Duration = Duration::from_millis(10);

/// Binds a Unix socket to `path` and listens on it, non-blocking. The kernel limits `backlog` to `net.core.somaxconn`. `mode`
/// sets the permissions of the file; by default the umask determines them.
///
/// # Errors
///
/// See [`BindError`]. An existing file is kept, unless it is a socket that no process listens on.
pub fn bind(path: &Path, mode: Option<u32>, backlog: i32) -> Result<(UnixListener, SocketFile), BindError> {
    loop {
        match inspect(path)? {
            ExistingFile::None => break,
            ExistingFile::StaleSocket => break fs::remove_file(path)?,
            ExistingFile::NewSocket => thread::sleep(INSPECTION_INTERVAL),
            ExistingFile::LiveSocket => return Err(BindError::InUse),
            ExistingFile::Other => return Err(BindError::NotASocket),
        }
    }
    let socket = new_socket()?;
    socket.bind(&SockAddr::unix(path)?)?;
    let file = SocketFile::at(path)?;
    if let Some(mode) = mode {
        // Before `listen`, so that no client can connect with the wrong permissions.
        set_mode(path, mode)?;
    }
    socket.listen(backlog)?;
    Ok((socket.into(), file))
}

/// Connects to a socket without waiting, unlike [`UnixStream::connect`], which waits while the queue of a process that hangs
/// is full. The stream is blocking.
///
/// # Errors
///
/// No process listens, or its queue is full ([`io::ErrorKind::WouldBlock`]).
pub fn connect(path: &Path) -> io::Result<UnixStream> {
    let socket = new_socket()?;
    socket.connect(&SockAddr::unix(path)?)?;
    socket.set_nonblocking(false)?;
    Ok(socket.into())
}

/// Removes the file of a socket that no process listens on, and no other file. A socket of the last half second stays.
///
/// # Errors
///
/// The file cannot be inspected or removed.
pub fn remove_stale(path: &Path) -> io::Result<()> {
    match inspect(path)? {
        ExistingFile::StaleSocket => fs::remove_file(path),
        _ => Ok(()),
    }
}

/// Why a Unix socket cannot be bound.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// A process listens on the socket.
    #[error("another process listens on this socket")]
    InUse,
    /// The file at the path is not a socket.
    #[error("the file at this path is not a socket; remove the file, or choose another path")]
    NotASocket,
    /// A system error.
    #[error("{0}")]
    System(io::Error),
}

impl From<io::Error> for BindError {
    fn from(error: io::Error) -> Self {
        // Another process has bound the path since it was inspected.
        if error.kind() == io::ErrorKind::AddrInUse { Self::InUse } else { Self::System(error) }
    }
}

impl From<BindError> for io::Error {
    fn from(error: BindError) -> Self {
        match error {
            BindError::InUse => Self::new(io::ErrorKind::AddrInUse, error),
            BindError::NotASocket => Self::new(io::ErrorKind::AlreadyExists, error),
            BindError::System(error) => error,
        }
    }
}

/// The file of a Unix socket. Dropping it removes the file, unless another file has replaced it. Drop it before its listener:
/// the inode of an open socket is not reused, so the comparison of inodes is safe.
#[derive(Debug)]
pub struct SocketFile {
    /// Absolute, because the working directory may change.
    path: PathBuf,
    device: u64,
    inode: u64,
}

impl SocketFile {
    /// Takes over the file of a listener that another process has bound. `mode` as in [`bind`].
    ///
    /// # Errors
    ///
    /// The file does not exist, or its permissions cannot be set.
    pub fn adopt(path: &Path, mode: Option<u32>) -> io::Result<Self> {
        if let Some(mode) = mode {
            set_mode(path, mode)?;
        }
        Self::at(path)
    }

    /// Keeps the file, for another process that listens on the same socket.
    pub fn persist(mut self) {
        // No file has the inode 0.
        self.inode = 0;
    }

    /// Whether the file is still at its path: not removed, and not replaced.
    #[must_use]
    pub fn is_in_place(&self) -> bool {
        self.inode != 0
            && fs::symlink_metadata(&self.path)
                .is_ok_and(|metadata| metadata.dev() == self.device && metadata.ino() == self.inode)
    }

    fn at(path: &Path) -> io::Result<Self> {
        let metadata = fs::symlink_metadata(path)?;
        Ok(Self { path: std::path::absolute(path)?, device: metadata.dev(), inode: metadata.ino() })
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if self.is_in_place() {
            // Ignore errors: the next start replaces a stale socket.
            let _ = fs::remove_file(&self.path);
        }
    }
}

enum ExistingFile {
    None,
    StaleSocket,
    /// No process listens on it, perhaps not yet.
    NewSocket,
    LiveSocket,
    Other,
}

/// Inspects the file at a path. The kernel refuses a connection to a stale socket. Any other result of `connect`, including a
/// full queue, means that a process listens. Checks the file type first, because the kernel refuses a connection to a regular
/// file, too.
fn inspect(path: &Path) -> io::Result<ExistingFile> {
    let metadata = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(ExistingFile::None),
        Err(error) => return Err(error),
        Ok(metadata) if !metadata.file_type().is_socket() => return Ok(ExistingFile::Other),
        Ok(metadata) => metadata,
    };
    match connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            // A time in the future has no age: the clock was set back.
            let age = metadata.modified()?.elapsed();
            let is_new = age.is_ok_and(|age| age < LISTENS_WITHIN);
            Ok(if is_new { ExistingFile::NewSocket } else { ExistingFile::StaleSocket })
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(ExistingFile::None),
        Ok(_) | Err(_) => Ok(ExistingFile::LiveSocket),
    }
}

/// Sets the permissions of a socket, and of no other file: root may bind it in a folder of another user, who can replace it by a link.
fn set_mode(path: &Path, mode: u32) -> io::Result<()> {
    let file = open(path, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
    let stat = fstat(&file)?;
    // A second name can be a hard link to the socket of another program.
    if FileType::from_raw_mode(stat.st_mode) != FileType::Socket || stat.st_nlink != 1 {
        return Err(io::Error::other("another file has replaced the socket; choose a folder of Rudy's user"));
    }
    // `fchmod` rejects a descriptor that is not open for reading, and before Linux 6.6 `fchmodat` follows links.
    fs::set_permissions(format!("/proc/self/fd/{}", file.as_raw_fd()), Permissions::from_mode(mode))
}

fn new_socket() -> io::Result<Socket> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, utimensat};

    use super::*;

    fn folder() -> tempfile::TempDir {
        tempfile::tempdir().expect("a temp folder can be created")
    }

    #[test]
    fn a_stale_socket_is_replaced_and_a_live_one_is_not() {
        let folder = folder();
        let path = folder.path().join("socket");
        drop(UnixListener::bind(&path).expect("a temp folder can hold a socket"));
        let (listener, _file) = bind(&path, Some(0o600), 1).expect("the socket is stale");
        let mode = fs::metadata(&path).expect("the file exists").mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(matches!(bind(&path, None, 1), Err(BindError::InUse)));
        assert!(path.exists(), "the file stays");
        drop(listener);
        bind(&path, None, 1).expect("the socket is stale now");
    }

    #[test]
    fn a_socket_with_a_full_queue_is_live() {
        let folder = folder();
        let path = folder.path().join("socket");
        let (_listener, _file) = bind(&path, None, 0).expect("the path is free");
        for _ in 0..3 {
            assert!(matches!(bind(&path, None, 1), Err(BindError::InUse)));
        }
        assert_eq!(connect(&path).expect_err("the queue is full").kind(), io::ErrorKind::WouldBlock);
        remove_stale(&path).expect("the socket can be inspected");
        assert!(path.exists(), "the socket is live");
    }

    #[test]
    fn only_stale_sockets_are_removed() {
        let folder = folder();
        let path = folder.path().join("socket");
        remove_stale(&path).expect("there is nothing to remove");
        fs::write(&path, "text").expect("a temp folder can hold a file");
        remove_stale(&path).expect("the file can be inspected");
        assert_eq!(fs::read(&path).expect("the file stays"), b"text");
        fs::remove_file(&path).expect("the file exists");
        let socket = new_socket().expect("a descriptor is left");
        socket.bind(&SockAddr::unix(&path).expect("the path is short")).expect("the path is free");
        remove_stale(&path).expect("the socket can be inspected");
        assert!(path.exists(), "its process may listen soon");
        let epoch = Timespec { tv_sec: 0, tv_nsec: 0 };
        let times = Timestamps { last_access: epoch, last_modification: epoch };
        utimensat(CWD, &path, &times, AtFlags::empty()).expect("the file is ours");
        remove_stale(&path).expect("the socket can be removed");
        assert!(!path.exists());
    }

    #[test]
    fn a_file_that_is_not_a_socket_stays() {
        let folder = folder();
        let path = folder.path().join("notes");
        fs::write(&path, "text").expect("a temp folder can hold a file");
        assert!(matches!(bind(&path, None, 1), Err(BindError::NotASocket)));
        assert_eq!(fs::read(&path).expect("the file exists"), b"text");
    }

    #[test]
    fn only_the_permissions_of_a_socket_are_set() {
        let folder = folder();
        let path = |name| folder.path().join(name);
        fs::write(path("secret"), "text").expect("a temp folder can hold a file");
        fs::set_permissions(path("secret"), Permissions::from_mode(0o600)).expect("the file is ours");
        symlink(path("secret"), path("link")).expect("a temp folder can hold a link");
        let _listener = UnixListener::bind(path("other")).expect("the path is free");
        fs::hard_link(path("other"), path("hard link")).expect("a temp folder can hold a link");
        for name in ["secret", "link", "hard link"] {
            SocketFile::adopt(&path(name), Some(0o666)).expect_err(name);
        }
        let mode = fs::metadata(path("secret")).expect("the file exists").mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn a_listener_removes_only_its_own_file() {
        let folder = folder();
        let path = folder.path().join("socket");
        let (_first, first_file) = bind(&path, None, 1).expect("the path is free");
        fs::remove_file(&path).expect("the file exists");
        let (_second, second_file) = bind(&path, None, 1).expect("the path is free again");
        assert!(!first_file.is_in_place() && second_file.is_in_place());
        drop(first_file);
        assert!(path.exists(), "the file belongs to the second listener");
        drop(second_file);
        assert!(!path.exists());
    }

    #[test]
    fn a_persisted_file_is_removed_by_the_process_that_adopts_it() {
        let folder = folder();
        let path = folder.path().join("socket");
        let (_listener, file) = bind(&path, Some(0o600), 1).expect("the path is free");
        file.persist();
        let file = SocketFile::adopt(&path, Some(0o660)).expect("the file was persisted");
        assert_eq!(fs::metadata(&path).expect("the file exists").mode() & 0o777, 0o660);
        drop(file);
        assert!(!path.exists());
        SocketFile::adopt(&path, None).expect_err("the path is free again");
    }
}
