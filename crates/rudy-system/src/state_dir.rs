//! The folder for what Rudy keeps between runs: certificates made on the spot, and keys of session tickets.

use std::env;
use std::fs::{self, DirBuilder};
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use rustix::process::geteuid;
use tempfile::NamedTempFile;

/// Returns the folder: `$STATE_DIRECTORY` (set by systemd), `/var/lib/rudy` for root, or the state folder of the user
/// (XDG Base Directory Specification). `None` without a home.
#[must_use]
pub fn state_dir() -> Option<PathBuf> {
    let first = |name| env::var_os(name).and_then(|paths| env::split_paths(&paths).next());
    let is_absolute = |path: &PathBuf| path.is_absolute();
    if let Some(folder) = first("STATE_DIRECTORY").filter(is_absolute) {
        return Some(folder);
    }
    if geteuid().is_root() {
        return Some("/var/lib/rudy".into());
    }
    let state = first("XDG_STATE_HOME").filter(is_absolute);
    let in_home = || first("HOME").filter(is_absolute).map(|home| home.join(".local/state"));
    state.or_else(in_home).map(|folder| folder.join("rudy"))
}

/// Creates the folder, for this user only.
pub fn create(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// Writes a file that only this user can read (0600), in one step: a reader sees the old file or the new one.
///
/// Unless `replaces` is set, an existing file stays, and the error is [`io::ErrorKind::AlreadyExists`].
pub fn write(path: &Path, content: &[u8], replaces: bool) -> io::Result<()> {
    let folder = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    create(folder)?;
    // A temporary file has mode 0600.
    let mut file = NamedTempFile::new_in(folder)?;
    file.write_all(content)?;
    file.as_file().sync_all()?;
    if replaces {
        file.persist(path)?
    } else {
        file.persist_noclobber(path)?
    };
    fs::File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_file_is_private_and_replaced_only_on_request() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/b/key");
        write(&path, b"1", false).unwrap();
        assert_eq!(write(&path, b"2", false).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&path).unwrap(), b"1");
        write(&path, b"3", true).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"3");
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(&folder.path().join("a"))), (0o600, 0o700));
        // Temporary files do not stay.
        assert_eq!(fs::read_dir(folder.path().join("a/b")).unwrap().count(), 1);
    }
}
