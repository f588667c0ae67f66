//! Opens files with the rules of `openat2` for symbolic links.
//!
//! A filter of system calls can block `openat2`: systemd's `RestrictSUIDSGID=`, which `DynamicUser=` implies, and old profiles of
//! containers. Then [`walk`] opens the folders of a path one by one. Which of both is used depends on one attempt at the start.

#[cfg(test)]
mod tests;
mod walk;

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::LazyLock;

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

/// The outcome of an attempt. A filter may return any error, so no error is special.
static PROBE: LazyLock<Result<(), Errno>> = LazyLock::new(|| probe(ResolveFlags::empty()));

/// Whether the kernel supports `RESOLVE_CACHED` (since Linux 5.12).
static CACHED_LOOKUPS: LazyLock<bool> =
    LazyLock::new(|| matches!(probe(ResolveFlags::CACHED), Ok(()) | Err(Errno::AGAIN)));

fn probe(resolve: ResolveFlags) -> Result<(), Errno> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    rustix::fs::openat2(CWD, c"/", flags, Mode::empty(), resolve).map(drop)
}

/// Whether the kernel has the system call, and no filter blocks it.
pub fn is_available() -> bool {
    PROBE.is_ok()
}

/// Whether a lookup can be limited to what the kernel has cached.
#[must_use]
pub fn has_cached_lookups() -> bool {
    *CACHED_LOOKUPS
}

/// Returns a line for the log if `openat2` is not available.
#[must_use]
pub fn notice() -> Option<String> {
    let error = io::Error::from((*PROBE).err()?);
    Some(format!(
        "openat2 is not available ({error}): an old kernel, a filter such as systemd's RestrictSUIDSGID=, or the profile of a \
         container. Rudy opens the folders of a path one by one instead, with the same rules for links"
    ))
}

/// Opens `path`, relative to the folder `from`. `resolve` can contain `BENEATH`, `NO_SYMLINKS` and `NO_MAGICLINKS`.
pub fn open(
    from: impl AsFd,
    path: impl AsRef<Path>,
    flags: OFlags,
    mode: Mode,
    resolve: ResolveFlags,
) -> Result<OwnedFd, Errno> {
    let (from, path) = (from.as_fd(), path.as_ref());
    if is_available() {
        rustix::fs::openat2(from, path, flags, mode, resolve)
    } else {
        walk::open(from, path, flags, mode, resolve)
    }
}
