//! Where the bodies that do not fit into memory are stored, and how much there may be of them.

use std::env;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::statvfs;

/// Bytes of all files where no bound is configured.
const TOTAL_MAX: u64 = 10 << 30;

/// The bounds of all messages together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Bytes in memory. Beyond it a message goes to its file at once, however small it is.
    pub memory: u64,
    /// Bytes in files. If absent, the smaller of 10 GiB and half of the free space of the folder's file system.
    pub total: Option<u64>,
    /// The folder of the files. If absent, the first of `$STATE_DIRECTORY`, else `/var/tmp`.
    pub dir: Option<PathBuf>,
}

impl Options {
    /// Bytes in memory where nothing else is configured.
    pub const MEMORY: u64 = 64 << 20;

    /// The folder of the files, the default one included.
    pub(crate) fn dir(&self) -> PathBuf {
        self.dir.clone().unwrap_or_else(|| default_dir(env::var_os("STATE_DIRECTORY")))
    }
}

impl Default for Options {
    fn default() -> Self {
        Self { memory: Self::MEMORY, total: None, dir: None }
    }
}

/// The folder where none is configured. systemd separates several state directories by colons. Not `/tmp`, which is often in
/// memory.
pub(super) fn default_dir(state_directory: Option<OsString>) -> PathBuf {
    let directories = state_directory.map(OsString::into_vec).unwrap_or_default();
    match directories.split(|byte| *byte == b':').next() {
        None | Some([]) => "/var/tmp".into(),
        Some(first) => OsString::from_vec(first.to_vec()).into(),
    }
}

/// The bound on all files where none is configured. `on_disk` bytes of the occupied space are those of the files themselves.
pub(super) fn default_total(dir: &Path, on_disk: u64) -> u64 {
    // Where the file system cannot be asked, no file can be opened either, and that error says why.
    let Ok(system) = statvfs(dir) else { return TOTAL_MAX };
    let free = system.f_bavail.saturating_mul(system.f_frsize);
    TOTAL_MAX.min(free.saturating_add(on_disk) / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_is_the_first_state_directory_or_var_tmp() {
        for (state, expected) in [
            (None, "/var/tmp"),
            (Some(""), "/var/tmp"),
            (Some("/var/lib/rudy"), "/var/lib/rudy"),
            (Some("/var/lib/a:/var/lib/b"), "/var/lib/a"),
        ] {
            assert_eq!(default_dir(state.map(OsString::from)), Path::new(expected), "{state:?}");
        }
    }

    #[test]
    fn the_files_may_take_half_of_the_free_space_and_no_more_than_10_gib() {
        let dir = env::temp_dir();
        assert_eq!(default_total(&dir, u64::MAX), TOTAL_MAX);
        assert!(default_total(Path::new("/proc"), 0) < TOTAL_MAX, "nothing is free there");
        assert_eq!(default_total(Path::new("/proc"), 1000), 500, "its own files do not lower the bound");
        assert_eq!(default_total(Path::new("/nowhere"), 0), TOTAL_MAX);
    }
}
