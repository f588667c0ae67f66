//! The folders of a server and their caches, shared by all sites, routes and generations of the configuration.
//!
//! The first request for a folder opens it. A thread closes unused folders and files, so the disk space of a deleted file is freed
//! without further requests. The thread runs only while something is open.

mod root;

use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use rudy_pipeline::registry::Registry;
use rudy_system::file_access::OpenDirectory;

use self::root::Directory;
pub use self::root::Root;
pub(super) use self::root::checked;
use super::options::{FilesError, FilesOptions};
use super::{Definition, Shared, clock};

/// How long an unused file or folder stays open, as with `open_file_cache inactive` of nginx.
const IDLE_TIMEOUT: Duration = Duration::from_mins(1);

/// How many times within the idle timeout the thread looks for unused files.
const SWEEPS: u32 = 4;

/// Maximum number of open folders: a quarter of the usual soft limit of 1024 descriptors. A request for one more closes the least
/// recently used one. Opening it again takes a few microseconds.
const OPEN_FOLDERS_MAX: usize = 256;

/// The folders of a server, for the lifetime of the process. Clones share everything.
#[derive(Debug, Clone)]
pub struct Folders(Arc<Known>);

#[derive(Debug)]
struct Known {
    /// By absolute path and `follow_symlinks`.
    roots: Registry<(PathBuf, bool), Root>,
    /// By folder and options.
    files: Registry<(PathBuf, Arc<FilesOptions>), Shared>,
    state: Mutex<State>,
    idle_timeout: Duration,
    open_max: usize,
}

#[derive(Debug, Default)]
struct State {
    /// The open folders, in the order in which they were opened.
    open: Vec<Weak<Directory>>,
    /// Whether the thread that closes unused folders and files runs.
    is_swept: bool,
}

impl Default for Folders {
    fn default() -> Self {
        Self::with_bounds(IDLE_TIMEOUT, OPEN_FOLDERS_MAX)
    }
}

impl Folders {
    pub(super) fn with_bounds(idle_timeout: Duration, open_max: usize) -> Self {
        let (roots, files, state) = Default::default();
        Self(Arc::new(Known { roots, files, state, idle_timeout, open_max }))
    }

    /// Returns the folder at `path`, which the first request opens. Fails if that would fail.
    pub fn root(&self, path: &Path, follow_symlinks: bool) -> Result<Arc<Root>, FilesError> {
        Ok(self.root_at(&checked(path, follow_symlinks)?, follow_symlinks))
    }

    fn root_at(&self, absolute: &Path, follow_symlinks: bool) -> Arc<Root> {
        let key = (absolute.to_owned(), follow_symlinks);
        let create = || Ok(Arc::new(Root::new(absolute.to_owned(), follow_symlinks, self.clone())));
        let Ok::<_, Infallible>(root) = self.0.roots.get_or_create(&key, create);
        root
    }

    /// Returns what routes to a folder share: that of another route or generation with the same options, or a new one.
    pub(super) fn files(&self, definition: &Definition) -> Arc<Shared> {
        let Definition { root, options, cache_rules } = definition;
        let key = (root.clone(), Arc::new(options.clone()));
        let create = || {
            let root = self.root_at(root, options.follow_symlinks);
            Ok(Arc::new(Shared::new(root, key.1.clone(), cache_rules.clone())))
        };
        let Ok::<_, Infallible>(files) = self.0.files.get_or_create(&key, create);
        files
    }

    /// Stores the descriptor of `directory`. At the limit, closes the least recently used folder.
    fn keep_open(&self, directory: &Arc<Directory>, opened: Arc<OpenDirectory>) {
        let mut state = self.0.state.lock();
        if directory.open.swap(Some(opened)).is_some() {
            return;
        }
        state.open.retain(|other| other.strong_count() > 0);
        if state.open.len() >= self.0.open_max {
            let used = |other: &Weak<Directory>| other.upgrade().map_or(0, |other| other.used_ms());
            let oldest = (0..state.open.len()).min_by_key(|&index| used(&state.open[index]));
            if let Some(oldest) = oldest.and_then(|index| state.open.remove(index).upgrade()) {
                oldest.open.store(None);
            }
        }
        state.open.push(Arc::downgrade(directory));
        if !state.is_swept {
            // If the thread cannot be started, the next opened folder tries again.
            state.is_swept = self.start_sweeping().is_ok();
        }
    }

    fn start_sweeping(&self) -> std::io::Result<()> {
        let known = Arc::downgrade(&self.0);
        let period = self.0.idle_timeout / SWEEPS;
        let run = move || {
            loop {
                #[cfg_attr(not(test), expect(clippy::disallowed_methods, reason = "a thread of its own"))]
                thread::sleep(period);
                let Some(known) = known.upgrade() else { return };
                if !Self(known).sweep(clock::monotonic_ms()) {
                    return;
                }
            }
        };
        thread::Builder::new().name("files".to_owned()).spawn(run).map(drop)
    }

    /// Closes folders and files that were last used before the idle timeout. Returns whether any is still open.
    pub(super) fn sweep(&self, now_ms: u64) -> bool {
        let idle_ms = u64::try_from(self.0.idle_timeout.as_millis()).unwrap_or(u64::MAX);
        let mut state = self.0.state.lock();
        state.open.retain(|directory| {
            let Some(directory) = directory.upgrade() else { return false };
            let is_used = directory.used_ms() >= now_ms.saturating_sub(idle_ms);
            if !is_used {
                directory.open.store(None);
            }
            is_used
        });
        // Closing a deleted file frees its blocks, which is slow.
        drop(state);
        let mut has_files = false;
        for files in self.0.files.values() {
            // A file in use is checked every `revalidate_after`.
            let unused_ms = idle_ms.saturating_add(files.revalidate_after_ms);
            has_files |= files.entries.close_unused(now_ms.saturating_sub(unused_ms));
        }
        let mut state = self.0.state.lock();
        state.is_swept = has_files || !state.open.is_empty();
        state.is_swept
    }
}
