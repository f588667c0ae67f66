//! The limits and the folder of buffered bodies.

use std::env;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::statvfs;

/// The maximum size of all files together, if no limit is configured.
const TOTAL_MAX: u64 = 10 << 30;

/// The limits of all bodies together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// The number of bytes in memory. Beyond it, even small bodies are written to files.
    pub memory: u64,
    /// The number of bytes in files. The default is the smaller of 10 GiB and half of the free space of the
    /// folder's file system.
    pub total: Option<u64>,
    /// The folder of the files. The default is the first of `$STATE_DIRECTORY`, or `/var/tmp`.
    pub dir: Option<PathBuf>,
}

impl Options {
    /// The default number of bytes in memory.
    pub const MEMORY: u64 = 64 << 20;

    /// Returns the folder of the files.
    #[must_use]
    pub fn dir(&self) -> PathBuf {
        self.dir.clone().unwrap_or_else(|| default_dir(env::var_os("STATE_DIRECTORY")))
    }
}

impl Default for Options {
    fn default() -> Self {
        Self { memory: Self::MEMORY, total: None, dir: None }
    }
}

/// Returns the default folder. systemd separates several state directories by colons. `/tmp` is often in
/// memory, so it is not used.
pub(super) fn default_dir(state_directory: Option<OsString>) -> PathBuf {
    let directories = state_directory.map(OsString::into_vec).unwrap_or_default();
    match directories.split(|byte| *byte == b':').next() {
        None | Some([]) => "/var/tmp".into(),
        Some(first) => OsString::from_vec(first.to_vec()).into(),
    }
}

/// Returns the default limit of all files. `on_disk` is the number of bytes that the files themselves occupy.
pub(super) fn default_total(dir: &Path, on_disk: u64) -> u64 {
    // If this fails, no file can be opened either, and that error has the reason.
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
    fn the_files_may_use_half_of_the_free_space_and_at_most_10_gib() {
        let dir = env::temp_dir();
        assert_eq!(default_total(&dir, u64::MAX), TOTAL_MAX);
        assert!(default_total(Path::new("/proc"), 0) < TOTAL_MAX, "nothing is free there");
        assert_eq!(default_total(Path::new("/proc"), 1000), 500, "its own files do not lower the limit");
        assert_eq!(default_total(Path::new("/nowhere"), 0), TOTAL_MAX);
    }
}
