//! Unix sockets, and the files that stand for them.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use socket2::{Domain, SockAddr, Socket, Type};

use super::{Address, BACKLOG, ListenError, Owner};

/// Binds `path` and listens; the file is removed again when the [`SocketFile`] is dropped.
pub(super) fn bind(path: &Path, mode: Option<u32>) -> Result<(UnixListener, SocketFile), ListenError> {
    let address = || Address::Unix { path: path.to_owned(), mode };
    let system = |error: io::Error| match error.kind() {
        io::ErrorKind::AddrInUse => ListenError::InUse { address: address(), owner: Owner::of_path(path) },
        _ => ListenError::system(&address(), error),
    };
    match what_is_there(path).map_err(system)? {
        There::Nothing => {}
        There::StaleSocket => fs::remove_file(path).map_err(system)?,
        There::LiveSocket => {
            return Err(ListenError::InUse { address: address(), owner: Owner::of_path(path) });
        }
        There::SomethingElse => return Err(ListenError::NotASocket { path: path.to_owned() }),
    }
    bind_new(path, mode).map_err(system)
}

fn bind_new(path: &Path, mode: Option<u32>) -> io::Result<(UnixListener, SocketFile)> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    socket.bind(&SockAddr::unix(path)?)?;
    let file = SocketFile::at(path)?;
    if let Some(mode) = mode {
        // Before `listen`: nobody can connect until then, so nobody does with the wrong permissions.
        fs::set_permissions(path, Permissions::from_mode(mode))?;
    }
    socket.listen(BACKLOG)?;
    Ok((socket.into(), file))
}

enum There {
    Nothing,
    StaleSocket,
    LiveSocket,
    SomethingElse,
}

/// A server that died leaves its file behind, to which nobody listens: the kernel refuses the connection. Any other
/// answer, a full queue included, means that somebody does.
fn what_is_there(path: &Path) -> io::Result<There> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(There::Nothing),
        Err(error) => return Err(error),
        Ok(metadata) if !metadata.file_type().is_socket() => return Ok(There::SomethingElse),
        Ok(_) => {}
    }
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    let refused = Errno::CONNREFUSED.raw_os_error();
    match socket.connect(&SockAddr::unix(path)?) {
        Err(error) if error.raw_os_error() == Some(refused) => Ok(There::StaleSocket),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(There::Nothing),
        Ok(()) | Err(_) => Ok(There::LiveSocket),
    }
}

/// The file of a Unix socket. Removed when dropped, unless another file has taken its place.
#[derive(Debug)]
pub(crate) struct SocketFile {
    /// Absolute: the working folder may change.
    path: PathBuf,
    device: u64,
    inode: u64,
}

impl SocketFile {
    fn at(path: &Path) -> io::Result<Self> {
        let metadata = fs::symlink_metadata(path)?;
        Ok(Self { path: std::path::absolute(path)?, device: metadata.dev(), inode: metadata.ino() })
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let ours = fs::symlink_metadata(&self.path)
            .is_ok_and(|metadata| metadata.dev() == self.device && metadata.ino() == self.inode);
        if ours {
            // If it cannot be removed, it stays as a stale socket, which the next start replaces.
            let _ = fs::remove_file(&self.path);
        }
    }
}
