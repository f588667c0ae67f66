//! Files that a running server reads again when they change.
//!
//! The files are compared every few seconds. Notifications of the kernel would be faster, but miss changes behind symbolic
//! links, as certbot and Kubernetes make them, and on network file systems.

use std::fmt::Debug;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

/// The time between two comparisons.
pub(crate) const INTERVAL: Duration = Duration::from_secs(2);

/// What identifies the content of a file: device, inode, size, and time of change. `None` without a file.
pub(crate) type Stamp = Option<(u64, u64, u64, i64, i64)>;

/// Returns the stamp of a file. It is taken before the file is read, so that a change in between is found later.
pub(crate) fn stamp(path: &Path) -> Stamp {
    let data = fs::metadata(path).ok()?;
    Some((data.dev(), data.ino(), data.size(), data.ctime(), data.ctime_nsec()))
}

/// What was read from a file.
pub(crate) trait Watched: Debug + Send + Sync {
    /// Reads the file again if it has changed. Returns a line for the log: an error if the old content stays in use.
    fn update(&self) -> Option<Result<String, String>>;
}

/// The watched files of all configurations of a process.
#[derive(Debug, Default)]
pub(crate) struct WatchedFiles {
    files: Mutex<Vec<Weak<dyn Watched>>>,
    /// What the operator should know, until it is logged.
    notices: Mutex<Vec<String>>,
}

impl WatchedFiles {
    /// Watches a file for as long as its content is in use.
    pub(crate) fn add<W: Watched + 'static>(&self, file: &Arc<W>) {
        let file: Weak<W> = Arc::downgrade(file);
        self.lock().push(file);
    }

    /// Keeps lines for the log.
    pub(crate) fn notify(&self, lines: impl IntoIterator<Item = String>) {
        self.notices.lock().unwrap_or_else(PoisonError::into_inner).extend(lines);
    }

    /// Returns the notices since the last call.
    pub(crate) fn take_notices(&self) -> Vec<String> {
        std::mem::take(&mut *self.notices.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns whether the content of a file is in use.
    pub(crate) fn is_in_use(&self) -> bool {
        self.lock().iter().any(|file| file.strong_count() > 0)
    }

    /// Reads the files that have changed. Returns a line for the log about each.
    pub(crate) fn update(&self) -> Vec<Result<String, String>> {
        let mut files = self.lock();
        files.retain(|file| file.strong_count() > 0);
        let in_use: Vec<_> = files.iter().filter_map(Weak::upgrade).collect();
        // Reading may take long, and a reload must not wait for it.
        drop(files);
        in_use.iter().filter_map(|file| file.update()).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Weak<dyn Watched>>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
