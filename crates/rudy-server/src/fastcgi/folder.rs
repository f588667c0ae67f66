//! The folder of the scripts, looked into before an app is asked.

use std::path::Path;
use std::sync::Arc;

use quick_cache::sync::Cache;
use rustix::io::Errno;

use crate::files::access::Access;
use crate::files::{FilesError, Folders, Kind, Root, clock};

/// How long it may go unnoticed that a script is no more, or that the path of the folder leads elsewhere: as for files.
const CHECK_MS: u64 = 1000;

/// The scripts of which is known that they are there: most sites have one to a few dozen. Looking costs three system calls, a
/// tenth of what a small request takes of a core.
const KNOWN: usize = 1024;

/// A folder of scripts.
#[derive(Debug)]
pub(super) struct ScriptFolder {
    root: Arc<Root>,
    /// When each was seen last, of the clock that only goes forward. Only what is a file: what is not there yet is looked for
    /// each time, so that it is found as soon as it is there, and nobody fills this with what there is not.
    known: Cache<Box<str>, u64>,
}

impl ScriptFolder {
    pub(super) fn open(path: &Path, follow_symlinks: bool, folders: &Folders) -> Result<Self, FilesError> {
        Ok(Self { root: folders.root(path, follow_symlinks)?, known: Cache::new(KNOWN) })
    }

    /// Its own path.
    pub(super) fn path(&self) -> &Path {
        self.root.path()
    }

    /// What there is at a path beneath it; an error where that is not to be known.
    pub(super) fn kind(&self, path: &str, access: Access) -> Result<Option<Kind>, Errno> {
        let now_ms = clock::monotonic_ms();
        if self.known.get(path).is_some_and(|seen_ms| now_ms.saturating_sub(seen_ms) < CHECK_MS) {
            return Ok(Some(Kind::File));
        }
        let kind = self.root.kind(path, CHECK_MS, access)?;
        if kind == Some(Kind::File) {
            self.known.insert(path.into(), now_ms);
        }
        Ok(kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handlers_share_a_folder_and_one_that_is_gone_is_an_error() {
        let outer = tempfile::tempdir().unwrap();
        let path = outer.path().join("scripts");
        std::fs::create_dir(&path).unwrap();
        let folders = Folders::default();
        let [one, other] = [(); 2].map(|()| ScriptFolder::open(&path, false, &folders).unwrap());
        assert!(Arc::ptr_eq(&one.root, &other.root));
        assert_eq!(one.kind("", Access::Blocking), Ok(Some(Kind::Directory)));
        assert_eq!(one.kind("a.php", Access::Blocking), Ok(None));
        std::fs::remove_dir(&path).unwrap();
        let again = Folders::default();
        std::fs::create_dir(&path).unwrap();
        let closed = ScriptFolder::open(&path, false, &again).unwrap();
        std::fs::remove_dir(&path).unwrap();
        assert_eq!(closed.kind("a.php", Access::Blocking), Err(Errno::NOENT));
    }
}
