//! The folder of the scripts. Rudy checks that a script exists before it calls the app.

use std::path::Path;
use std::sync::Arc;

use quick_cache::sync::Cache;
use rudy_files::{FilesError, Folders, Kind, Root, clock};
use rudy_system::file_access::Access;
use rustix::io::Errno;

/// How long a deleted script, or a replaced folder, may go unnoticed: as for files.
const CHECK_MS: u64 = 1000;

/// The number of scripts that are cached as existing. Most sites have one to a few dozen. A check costs three
/// system calls, a tenth of the CPU time of a small request.
const CACHED_SCRIPTS: usize = 1024;

/// A folder of scripts.
#[derive(Debug)]
pub(super) struct ScriptFolder {
    root: Arc<Root>,
    /// When each script was last seen, on the monotonic clock. Missing files are not cached, so a new file is
    /// found at once, and requests for missing files cannot fill the cache.
    cached: Cache<Box<str>, u64>,
}

impl ScriptFolder {
    pub(super) fn open(path: &Path, follow_symlinks: bool, folders: &Folders) -> Result<Self, FilesError> {
        Ok(Self { root: folders.root(path, follow_symlinks)?, cached: Cache::new(CACHED_SCRIPTS) })
    }

    /// Returns the path of the folder.
    pub(super) fn path(&self) -> &Path {
        self.root.path()
    }

    /// Returns the type of the file at a path below the folder, or an error if that cannot be determined.
    pub(super) fn kind(&self, path: &str, access: Access) -> Result<Option<Kind>, Errno> {
        let now_ms = clock::monotonic_ms();
        if self.cached.get(path).is_some_and(|seen_ms| now_ms.saturating_sub(seen_ms) < CHECK_MS) {
            return Ok(Some(Kind::File));
        }
        let kind = self.root.kind(path, CHECK_MS, access)?;
        if kind == Some(Kind::File) {
            self.cached.insert(path.into(), now_ms);
        }
        Ok(kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handlers_share_a_folder_and_a_deleted_folder_is_an_error() {
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
