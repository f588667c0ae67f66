//! Unix sockets, and the files that stand for them.

use std::os::unix::net::UnixListener;
use std::path::Path;

use rudy_socket_file::{BindError, SocketFile};

use super::{Address, BACKLOG, ListenError, Owner};

/// Binds `path` and listens; the file is removed again when the [`SocketFile`] is dropped.
pub(super) fn bind(path: &Path, mode: Option<u32>) -> Result<(UnixListener, SocketFile), ListenError> {
    let address = || Address::Unix { path: path.to_owned(), mode };
    rudy_socket_file::bind(path, mode, BACKLOG).map_err(|error| match error {
        BindError::InUse => ListenError::InUse { address: address(), owner: Owner::of_path(path) },
        BindError::NotASocket => ListenError::NotASocket { path: path.to_owned() },
        BindError::System(error) => ListenError::system(&address(), error),
    })
}
