//! The file of a Unix socket, for servers and for apps.
//!
//! [`bind`] replaces a file that a dead process has left behind, and nothing else. The [`SocketFile`] removes the file again,
//! unless another one has taken its place. It depends on nothing but the system, so that a FastCGI app pulls in no server.

#![forbid(unsafe_code)]

use std::error::Error;
use std::fmt;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use socket2::{Domain, SockAddr, Socket, Type};

/// Binds a Unix socket to `path` and listens on it, non-blocking; `backlog` connections may wait to be accepted, or as many as
/// `net.core.somaxconn` says if that is less. `mode` is the file's, where it is not to be what the umask leaves.
///
/// # Errors
///
/// See [`BindError`]. A file that is there stays, unless it is a socket that no process listens on.
pub fn bind(path: &Path, mode: Option<u32>, backlog: i32) -> Result<(UnixListener, SocketFile), BindError> {
    match what_is_there(path)? {
        There::Nothing => {}
        There::StaleSocket => fs::remove_file(path)?,
        There::LiveSocket => return Err(BindError::InUse),
        There::SomethingElse => return Err(BindError::NotASocket),
    }
    let socket = new_socket()?;
    socket.bind(&SockAddr::unix(path)?)?;
    let file = SocketFile::at(path)?;
    if let Some(mode) = mode {
        // Before `listen`: no client can connect until then, so none does with the wrong permissions.
        fs::set_permissions(path, Permissions::from_mode(mode))?;
    }
    socket.listen(backlog)?;
    Ok((socket.into(), file))
}

/// Why a Unix socket cannot be bound.
#[derive(Debug)]
pub enum BindError {
    /// A process listens at the path.
    InUse,
    /// A file is at the path that is not a socket. It is not touched.
    NotASocket,
    /// What the system says.
    System(io::Error),
}

impl From<io::Error> for BindError {
    fn from(error: io::Error) -> Self {
        // Another process was faster, between the look and the bind.
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

impl fmt::Display for BindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InUse => f.write_str("a process listens on this socket already"),
            Self::NotASocket => {
                f.write_str("the file at this path is not a socket; remove it, or choose another path")
            }
            Self::System(error) => error.fmt(f),
        }
    }
}

impl Error for BindError {}

/// The file of a Unix socket. Removed when dropped, unless another file has taken its place. Drop it before its listener: an
/// open socket keeps its inode from being given to another file.
#[derive(Debug)]
pub struct SocketFile {
    /// Absolute: the working folder may change.
    path: PathBuf,
    device: u64,
    inode: u64,
}

impl SocketFile {
    /// The file of a listener that was bound elsewhere, to be removed here from now on. `mode` as in [`bind`].
    ///
    /// # Errors
    ///
    /// The file is not there, or its permissions cannot be set.
    pub fn adopt(path: &Path, mode: Option<u32>) -> io::Result<Self> {
        let file = Self::at(path)?;
        if let Some(mode) = mode {
            fs::set_permissions(path, Permissions::from_mode(mode))?;
        }
        Ok(file)
    }

    /// Leaves the file where it is, for another process that listens on the same socket.
    pub fn leave(mut self) {
        // No file has the inode 0.
        self.inode = 0;
    }

    fn at(path: &Path) -> io::Result<Self> {
        let metadata = fs::symlink_metadata(path)?;
        Ok(Self { path: std::path::absolute(path)?, device: metadata.dev(), inode: metadata.ino() })
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let ours = self.inode != 0
            && fs::symlink_metadata(&self.path)
                .is_ok_and(|metadata| metadata.dev() == self.device && metadata.ino() == self.inode);
        if ours {
            // If it cannot be removed, it stays as a stale socket, which the next start replaces.
            let _ = fs::remove_file(&self.path);
        }
    }
}

enum There {
    Nothing,
    StaleSocket,
    LiveSocket,
    SomethingElse,
}

/// A process that died leaves its file behind, on which no process listens: the kernel refuses the connection. Any other
/// answer, a full queue included, means that one does. (The kernel refuses a connection to an ordinary file as well, so the
/// type of the file is checked first.)
fn what_is_there(path: &Path) -> io::Result<There> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(There::Nothing),
        Err(error) => return Err(error),
        Ok(metadata) if !metadata.file_type().is_socket() => return Ok(There::SomethingElse),
        Ok(_) => {}
    }
    match new_socket()?.connect(&SockAddr::unix(path)?) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(There::StaleSocket),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(There::Nothing),
        Ok(()) | Err(_) => Ok(There::LiveSocket),
    }
}

fn new_socket() -> io::Result<Socket> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder() -> tempfile::TempDir {
        tempfile::tempdir().expect("a temp folder can be made")
    }

    #[test]
    fn a_stale_socket_is_replaced_and_a_live_one_is_not() {
        let folder = folder();
        let path = folder.path().join("socket");
        drop(UnixListener::bind(&path).expect("a temp folder can hold a socket"));
        let (listener, _file) = bind(&path, Some(0o600), 1).expect("the socket is stale");
        let mode = fs::metadata(&path).expect("it is there").mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(matches!(bind(&path, None, 1), Err(BindError::InUse)));
        assert!(path.exists(), "it stays");
        drop(listener);
        bind(&path, None, 1).expect("it is stale now");
    }

    #[test]
    fn a_socket_whose_queue_is_full_is_live() {
        let folder = folder();
        let path = folder.path().join("socket");
        let (_listener, _file) = bind(&path, None, 0).expect("nothing is there");
        for _ in 0..3 {
            assert!(matches!(bind(&path, None, 1), Err(BindError::InUse)));
        }
    }

    #[test]
    fn a_file_that_is_no_socket_stays() {
        let folder = folder();
        let path = folder.path().join("notes");
        fs::write(&path, "mine").expect("a temp folder can hold a file");
        assert!(matches!(bind(&path, None, 1), Err(BindError::NotASocket)));
        assert_eq!(fs::read(&path).expect("it is there"), b"mine");
    }

    #[test]
    fn a_file_is_removed_by_its_own_listener_alone() {
        let folder = folder();
        let path = folder.path().join("socket");
        let (_first, first_file) = bind(&path, None, 1).expect("nothing is there");
        fs::remove_file(&path).expect("it is there");
        let (_second, second_file) = bind(&path, None, 1).expect("nothing is there any more");
        drop(first_file);
        assert!(path.exists(), "it is another's");
        drop(second_file);
        assert!(!path.exists());
    }

    #[test]
    fn a_file_that_is_left_is_removed_by_the_process_that_adopts_it() {
        let folder = folder();
        let path = folder.path().join("socket");
        let (_listener, file) = bind(&path, Some(0o600), 1).expect("nothing is there");
        file.leave();
        let file = SocketFile::adopt(&path, Some(0o660)).expect("it was left");
        assert_eq!(fs::metadata(&path).expect("it is there").mode() & 0o777, 0o660);
        drop(file);
        assert!(!path.exists());
        SocketFile::adopt(&path, None).expect_err("nothing is there any more");
    }
}
