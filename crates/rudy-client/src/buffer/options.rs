//! The limits and the folder of buffered bodies.

use std::env;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use rudy_config::{FilePath, Table};
use rudy_units::Size;
use rustix::fs::statvfs;

/// The maximum size of all files together, if no limit is configured.
const TOTAL_MAX: u64 = 10 << 30;

/// The limits of all bodies together.
#[derive(Debug, Clone, PartialEq, Eq, Table)]
#[setting(default)]
pub struct Options {
    /// Maximum memory for buffered request and response bodies, in total. A body larger than 64 KiB goes to a temporary file; when this
    /// memory is used up, every body does.
    #[setting(name = "buffer_memory", read = Size, default = Size(64 << 20), example = "128M")]
    pub memory: u64,
    /// Maximum disk space for buffered bodies, in total. The default is 10 GiB or half of the free space, whichever
    /// is smaller. When it is used up, a request gets 507. When half of it is, a response is read from the app only as
    /// fast as its client reads: clients that read slowly leave the other half to requests.
    #[setting(name = "buffer_total", read = Size, example = "20G")]
    pub total: Option<u64>,
    /// Folder for the temporary files of buffered bodies, relative to this file. The files have no names. The default
    /// is `$STATE_DIRECTORY` (set by systemd), or `/var/tmp`.
    #[setting(name = "buffer_dir", read = FilePath, example = "/var/lib/rudy")]
    pub dir: Option<PathBuf>,
}

impl Options {
    /// Returns the folder of the files.
    #[must_use]
    pub fn dir(&self) -> PathBuf {
        #[cfg_attr(not(test), expect(clippy::disallowed_methods, reason = "read once"))]
        self.dir.clone().unwrap_or_else(|| default_dir(env::var_os("STATE_DIRECTORY")))
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
