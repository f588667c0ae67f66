//! Unix sockets and their files.

use std::fs;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixListener;
use std::path::Path;

use rudy_socket::file::{BindError, SocketFile};
use rustix::fs::{Access, access};

use super::{Address, BACKLOG, Endpoint, ListenError, Owner};

/// Binds `path` and listens. Dropping the [`SocketFile`] removes the file.
pub(super) fn bind(path: &Path, mode: Option<u32>) -> Result<(UnixListener, SocketFile), ListenError> {
    let address = || Address::from(Endpoint::Unix { path: path.to_owned(), mode });
    rudy_socket::file::bind(path, mode, BACKLOG).map_err(|error| match error {
        BindError::InUse => ListenError::InUse { address: address(), owner: Owner::of_path(path) },
        BindError::NotASocket => ListenError::NotASocket { path: path.to_owned() },
        BindError::System(error) => ListenError::system(&address(), error),
    })
}

/// Checks whether the path is free, or will be when its listener ends, and whether its folder is writable.
pub(super) fn check(path: &Path, mode: Option<u32>) -> Result<(), ListenError> {
    let system =
        |error| ListenError::system(&Address::from(Endpoint::Unix { path: path.to_owned(), mode }), error);
    match fs::symlink_metadata(path) {
        Ok(metadata) if !metadata.file_type().is_socket() => {
            return Err(ListenError::NotASocket { path: path.to_owned() });
        }
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(system(error)),
        Ok(_) | Err(_) => {}
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    access(folder, Access::WRITE_OK | Access::EXEC_OK).map_err(|errno| system(errno.into()))
}
