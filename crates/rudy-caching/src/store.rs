//! The store that all caches of a configuration share: the table `[cache]`, and the store itself.

use std::convert::Infallible;
use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use arc_swap::{ArcSwap, ArcSwapOption};
use rudy_admin::RunningServer;
use rudy_cache::Key;
use rudy_cache::index::Capacity;
use rudy_config::{FilePath, Int, OneOrMany, Table};
use rudy_log::ErrorLog;
use rudy_pipeline::compression::StoredVariants;
use rudy_pipeline::registry::Registry;
use rudy_runtime::is_planted;
use rudy_store::{DiskFailure, DiskLog, Options, Purge, PurgeError, Store, Target};
use rudy_system::state_dir;
use rudy_units::Size;

use super::flights::Flights;
use super::marks::Marks;
use super::successor;

/// Where the responses of `cache` are stored, and how many.
#[derive(Debug, Clone, PartialEq, Eq, Table)]
#[setting(default)]
pub struct StoreTable {
    /// Folder of the cache, relative to this file. It belongs to Rudy alone. The default is `$CACHE_DIRECTORY` (set by systemd),
    /// `/var/cache/rudy` for root, or `~/.cache/rudy`.
    #[setting(example = "/var/cache/rudy")]
    pub path: Option<FilePath>,
    /// Maximum disk space for stored responses. The default is 10 GiB. The least used ones are removed first.
    #[setting(example = "50G")]
    pub size: Option<Size<1>>,
    /// Maximum number of stored responses. The default is 1,000,000. Each needs up to 50 bytes of memory.
    #[setting(example = 100_000)]
    pub objects: Option<Int<1, 100_000_000>>,
    /// Maximum size of a response. The default is 1 GiB.
    #[setting(example = "100M")]
    pub object_bytes: Option<Size<1>>,
    /// Memory for small responses that are used often. The default is 64 MiB. Compressed copies use up to a quarter of it in addition.
    #[setting(example = "256M")]
    pub memory: Option<Size>,
    /// Hexadecimal digits in the name of each folder level. The default is `[1, 2]`: 4,096 folders. A change empties the cache.
    #[setting(example = [2, 2])]
    pub levels: Option<OneOrMany<Int<1, 2>>>,
    /// Name of the cache in `Cache-Status`. The default is `Rudy`.
    #[setting(example = "edge-1")]
    pub name: Option<String>,
}

/// Compressed copies use up to a quarter of `memory` besides it, as for files.
const COMPRESSED_SHARE: u64 = 4;

/// The maximum size of a response, by default.
const OBJECT_BYTES_MAX: u64 = 1 << 30;

/// The maximum number of folder levels.
const LEVELS_MAX: usize = 3;

impl StoreTable {
    /// Returns the folder. `None` if it is not set and there is no default.
    #[must_use]
    pub fn folder(&self) -> Option<PathBuf> {
        if let Some(path) = &self.path {
            return Some(path.0.clone());
        }
        #[cfg_attr(not(test), expect(clippy::disallowed_methods, reason = "read once"))]
        let first = |name| env::var_os(name).and_then(|paths| env::split_paths(&paths).next());
        let absolute = |name| first(name).filter(|path: &PathBuf| path.is_absolute());
        if let Some(folder) = absolute("CACHE_DIRECTORY") {
            return Some(folder);
        }
        if rustix::process::geteuid().is_root() {
            return Some("/var/cache/rudy".into());
        }
        let cache = absolute("XDG_CACHE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".cache")));
        cache.map(|cache| cache.join("rudy"))
    }

    /// Returns what is wrong with a value, by its key.
    #[must_use]
    pub fn problem(&self) -> Option<(&'static str, String)> {
        let levels = self.levels.as_ref().map_or(0, |levels| levels.as_slice().len());
        if levels > LEVELS_MAX {
            return Some((
                "levels",
                format!("{levels} folder levels are too many\nexpected at most {LEVELS_MAX}"),
            ));
        }
        let name = self.name.as_deref()?;
        let is_token = name.starts_with(|first: char| first.is_ascii_alphabetic())
            && name
                .chars()
                .all(|character| character.is_ascii_alphanumeric() || "-_.:/*".contains(character));
        let why = "is not a name for `Cache-Status`\nexpected a letter, then letters, digits and -_.:/*";
        (!is_token).then(|| ("name", format!("\"{}\" {why}", name.escape_debug())))
    }

    /// Returns the name of the cache in `Cache-Status`.
    #[must_use]
    pub fn name(&self) -> &str {
        self.name.as_deref().unwrap_or("Rudy")
    }

    /// Returns the options of the store.
    pub fn options(&self, folder: &Path) -> Options {
        let mut options = Options::new(folder);
        if let Some(levels) = &self.levels {
            let digits = levels.as_slice().iter().map(|digits| u8::try_from(digits.as_u16()).unwrap_or(1));
            options.levels = digits.collect();
        }
        let Capacity { bytes, objects } = options.capacity;
        options.capacity = Capacity {
            bytes: self.size.map_or(bytes, |size| size.0),
            objects: self.objects.map_or(objects, Int::as_u32),
        };
        options.memory_bytes = self.memory.map_or(options.memory_bytes, |size| size.0);
        options
    }
}

/// A store for a configuration. It is opened when a server starts, but not when a configuration is only checked.
#[derive(Debug)]
pub struct CacheStore {
    pub(super) table: StoreTable,
    places: Arc<Places>,
    opened: OnceLock<Arc<OpenStore>>,
}

/// The open stores. Two of a process on one folder would be as two processes on it: one stores, and the other reads.
type Places = Registry<Place, OpenStore>;

/// What decides the places of files.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Place {
    folder: PathBuf,
    levels: Vec<u8>,
}

/// An open store, and what its caches remember beside it.
#[derive(Debug)]
pub struct OpenStore {
    /// The files.
    pub store: Store,
    pub(super) flights: Arc<Flights>,
    pub(super) marks: Marks,
    /// Compressed bodies of stored responses.
    pub(super) variants: ArcSwap<StoredVariants>,
    pub(super) folder: PathBuf,
    /// The process that replaces this one, and stores.
    successor: ArcSwapOption<RunningServer>,
    pub(super) log: ErrorLog,
}

impl CacheStore {
    /// Prepares the store of a table. Nothing is opened yet.
    #[must_use]
    pub fn new(table: &StoreTable) -> Self {
        Self::at(table, Arc::default())
    }

    fn at(table: &StoreTable, places: Arc<Places>) -> Self {
        Self { table: table.clone(), places, opened: OnceLock::new() }
    }

    /// Returns the maximum size of a response.
    pub(super) fn object_bytes_max(&self) -> u64 {
        self.table.object_bytes.map_or(OBJECT_BYTES_MAX, |size| size.0)
    }

    /// Returns the store if it is open.
    pub fn get(&self) -> Option<&Arc<OpenStore>> {
        self.opened.get()
    }

    /// Opens the store, unless it is open. Then another configuration may use it with other limits, until [`Self::take_effect`].
    pub fn open(&self, log: &ErrorLog) -> io::Result<()> {
        if self.opened.get().is_some() {
            return Ok(());
        }
        let folder = self.table.folder().ok_or_else(|| {
            io::Error::other("find a folder for the cache: set `path` in [cache] of the configuration")
        })?;
        create_folder(&folder)?;
        // It may be spelled in another way, or reached by a link.
        let folder = fs::canonicalize(&folder).unwrap_or(folder);
        let options = self.table.options(&folder);
        let place = Place { folder, levels: options.levels.clone() };
        let open = self.places.get_or_create(&place, || OpenStore::new(options, log).map(Arc::new))?;
        // Two threads that open it at a time are no case: one thread starts the server.
        self.opened.get_or_init(|| open);
        Ok(())
    }

    /// Gives the store the limits of this configuration.
    pub fn take_effect(&self) {
        let Some(open) = self.opened.get() else { return };
        let Options { capacity, memory_bytes, .. } = self.table.options(&open.folder);
        open.store.resize(capacity, memory_bytes);
        let bytes = memory_bytes / COMPRESSED_SHARE;
        if open.variants.load().bytes_max() != bytes {
            open.variants.store(Arc::new(StoredVariants::new(bytes)));
        }
    }
}

impl OpenStore {
    fn new(options: Options, log: &ErrorLog) -> io::Result<Self> {
        let folder = options.folder.clone();
        let options = Options { log: Some(Arc::new(DiskErrors(log.of_server(), folder.clone()))), ..options };
        let variants = ArcSwap::from_pointee(StoredVariants::new(options.memory_bytes / COMPRESSED_SHARE));
        let store = Store::open(options)
            .map_err(|error| io::Error::other(format!("open the cache {}: {error}", folder.display())))?;
        if !store.is_writer() {
            log.notice(&format!(
                "another process uses the cache {}: this one reads from it, and stores when the other one has stopped",
                folder.display()
            ));
        }
        Ok(Self {
            store,
            flights: Arc::default(),
            marks: Marks::default(),
            variants,
            folder,
            successor: ArcSwapOption::empty(),
            log: log.clone(),
        })
    }
}

/// Logs errors of the disk, which are misses for clients.
#[derive(Debug)]
struct DiskErrors(ErrorLog, PathBuf);

impl DiskLog for DiskErrors {
    fn failed(&self, failure: DiskFailure, error: &io::Error) {
        let (kind, effect) = match failure {
            DiskFailure::Read => ("cannot read the cache", "requests the responses again"),
            DiskFailure::Write => ("cannot write to the cache", "passes responses on without storing them"),
        };
        self.0.recurring_error(kind, &format!("{kind} {}: {error}; Rudy {effect}", self.1.display()));
    }

    fn suspended(&self, is_suspended: bool) {
        let folder = self.1.display();
        if is_suspended {
            let probe = "a probe once a minute decides when it is used again";
            self.0.error(&format!(
                "requests pass the cache {folder} by: ten errors of its disk in ten seconds; {probe}"
            ));
        } else {
            self.0.notice(&format!("requests use the cache {folder} again: its disk works"));
        }
    }
}

impl OpenStore {
    /// Returns its folder, which only this user can read.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Whether its disk fails, so that requests should go to the application.
    pub(super) fn is_suspended(&self) -> bool {
        self.store.is_suspended()
    }

    /// Purges objects. Later requests neither find them nor join a request that was sent before. Blocks. An error is why that has failed,
    /// and what to do.
    pub(super) fn purge(&self, purges: &[Purge]) -> Result<(), String> {
        self.store.purge(purges).map_err(|error| explain(&error))?;
        let key = |purge: &Purge| match &purge.target {
            Target::Key(key) => Some(key.clone()),
            // The keys of a tag are known when the responses arrive.
            Target::Prefix(_) | Target::Tag(_) | Target::TagOfSite { .. } => None,
        };
        if is_planted("a request that joins one from before a purge or a change") {
            return Ok(());
        }
        match purges.iter().map(key).collect::<Option<Vec<_>>>() {
            Some(keys) => self.flights.close(&keys),
            None => self.flights.close_all(),
        }
        Ok(())
    }

    /// Removes all objects of keys that a request has changed, as [`Self::purge`] does. Blocks.
    pub(super) fn invalidate(&self, keys: &[Key]) {
        self.store.invalidate(keys);
        if !is_planted("a request that joins one from before a purge or a change") {
            self.flights.close(keys);
        }
        let Some(successor) = &*self.successor.load() else { return };
        successor::purge(successor, keys, &self.log);
    }

    /// Lets the process that replaces this one store. It purges what requests change here.
    pub fn release(&self, successor: Arc<RunningServer>) {
        self.successor.store(Some(successor));
        self.store.release();
    }

    /// Stores again, after the process that replaced this one has ended.
    pub fn reclaim(&self) {
        self.successor.store(None);
        self.store.reclaim();
    }
}

/// Returns why a purge has failed, and what to do.
fn explain(error: &PurgeError) -> String {
    match error {
        PurgeError::Busy => {
            "another process has the lock of the cache folder: send the purge to that process".to_owned()
        }
        PurgeError::Full => {
            "too many purges are being applied: send the purge again in a few seconds".to_owned()
        }
        PurgeError::System(error) => format!("the purge cannot be written: {error}"),
        _ => "the prefix or tag is too long".to_owned(),
    }
}

/// Creates a folder that only this user can read: responses may be for clients of one network only.
fn create_folder(folder: &Path) -> io::Result<()> {
    state_dir::create(folder).map_err(|error| {
        let what =
            format!("create the folder of the cache {} (`path` in [cache]): {error}", folder.display());
        io::Error::new(error.kind(), format!("{what}; set another one there, or with `rudy mirror --cache`"))
    })
}

/// The stores of all configurations in use. Those with one folder share its store.
#[derive(Debug, Default)]
pub struct Caches {
    by_table: Registry<StoreTable, CacheStore>,
    places: Arc<Places>,
}

impl Caches {
    /// Returns the store of a table.
    pub fn store(&self, table: &StoreTable) -> Arc<CacheStore> {
        let create = || Ok::<_, Infallible>(Arc::new(CacheStore::at(table, self.places.clone())));
        let Ok(store) = self.by_table.get_or_create(table, create);
        store
    }

    /// Returns the open stores.
    pub fn open(&self) -> Vec<Arc<OpenStore>> {
        self.places.values()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configurations_with_one_folder_share_its_store_and_the_newest_limits_it() {
        let folder = tempfile::tempdir().unwrap();
        let log = ErrorLog::to(tempfile::tempfile().unwrap()).unwrap();
        let caches = Caches::default();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink("cache", &link).unwrap();
        let opened = |(name, size)| {
            let (path, size) = (Some(FilePath(folder.path().join(name))), Some(Size(size)));
            let store = caches.store(&StoreTable { path, size, ..StoreTable::default() });
            store.open(&log).unwrap();
            store
        };
        let limit = |store: &CacheStore| store.get().unwrap().store.stats().capacity.bytes;
        let [old, new] = [("cache", 7 << 20), ("link", 9 << 20)].map(opened);
        assert!(Arc::ptr_eq(old.get().unwrap(), new.get().unwrap()));
        assert!(new.get().unwrap().store.is_writer());
        assert_eq!(limit(&new), 7 << 20, "a reload can still fail");
        new.take_effect();
        assert_eq!(limit(&new), 9 << 20);
        assert_eq!(caches.open().len(), 1);
        drop((old, new));
        assert!(caches.open().is_empty());
    }
}
