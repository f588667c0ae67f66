//! The folder in which the sockets of an app's processes are.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::{env, io, process};

use super::MemberId;

/// How many names are tried. Names that are taken come from a Rudy with this process id that was killed.
const TRIES: u32 = 1000;
/// The next name.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// A folder of ours alone. It is removed, with what is in it, when this is dropped.
#[derive(Debug)]
pub(super) struct SocketFolder(PathBuf);

impl SocketFolder {
    /// Makes it where the service manager or the session wants such things, or else among the temporary files.
    pub(super) fn make() -> io::Result<Self> {
        let parent = parent();
        for _ in 0..TRIES {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let path = parent.join(format!("rudy-{}-{number}", process::id()));
            // This fails where anything is, a link of somebody else's too.
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(Self(path)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => {
                    let message =
                        format!("cannot make a folder for sockets in {}: {error}", parent.display());
                    return Err(io::Error::new(error.kind(), message));
                }
            }
        }
        Err(io::Error::other(format!("{} is full of folders rudy-*: remove them", parent.display())))
    }

    /// Where the socket of a process is.
    pub(super) fn socket(&self, id: MemberId) -> PathBuf {
        self.0.join(id.to_string())
    }
}

impl Drop for SocketFolder {
    fn drop(&mut self) {
        // If it cannot be removed it does no harm, and the next to have this name takes another.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// `RUNTIME_DIRECTORY` is systemd's for a unit with `RuntimeDirectory=`, and names several with colons between them.
fn parent() -> PathBuf {
    let of_service = env::var_os("RUNTIME_DIRECTORY").and_then(|folders| env::split_paths(&folders).next());
    let of_session = || env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|folder| folder.is_dir());
    of_service.or_else(of_session).unwrap_or_else(env::temp_dir)
}
