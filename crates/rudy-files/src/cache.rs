//! The cache of entries: small files in memory, limited by size, and larger ones as open files, limited by number.
//! Compressed larger files are kept in memory too, within the same size limit.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use quick_cache::Weighter;
use quick_cache::sync::Cache;
use rudy_message::semantics::negotiation::Coding;
use rudy_pipeline::compression::{KeptVariants, by_bytes};
use rudy_system::cores;

use super::entry::{Content, Entry, Representation};
use super::options::FilesOptions;
use super::stat::Stat;

/// Memory of a representation besides its content: two heads of up to ten fields, as a map and encoded, and its share of the
/// paths. A conservative estimate.
const OVERHEAD_BYTES: u64 = 2048;

/// How many files of the maximum size fit into one shard of the cache. An entry with three codings counts as four files.
const FILES_PER_SHARD: u64 = 8;

/// The fraction of the memory for compressed larger files: one quarter. With the defaults, the largest file that is compressed fits.
const COMPRESSED_SHARE: u64 = 4;

/// The key of a compressed file: the file at one time, in one coding. Includes the path of its entry, because the heads depend on it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct CompressedKey {
    pub(super) path: Box<str>,
    pub(super) coding: Coding,
    pub(super) stat: Stat,
}

/// The result of a compression; `None` if the file does not become smaller.
pub(super) type Compressed = Option<Arc<Representation>>;

/// Entries by requested path, decoded and with its slashes.
#[derive(Debug)]
pub(super) struct Entries {
    small: Cache<Box<str>, Arc<Entry>, ByBytes>,
    open: Cache<Box<str>, Arc<Entry>, ByDescriptors>,
    /// Its lock is only needed for larger files, and once for each coding of a small file: then the entry has the result.
    pub(super) compressed: KeptVariants<CompressedKey, Compressed, ByBytes>,
    file_bytes_max: u64,
}

impl Entries {
    pub(super) fn new(options: &FilesOptions) -> Self {
        let share = if options.compressed().is_some() { options.cache_size / COMPRESSED_SHARE } else { 0 };
        let small_bytes = options.cache_size - share;
        // Several files must fit, or each would evict the previous one.
        let file_bytes_max = options.cache_max_file_size.min(small_bytes / FILES_PER_SHARD);
        // Shards reduce contention between workers, but each must hold the largest entries.
        let shards = small_bytes / (FILES_PER_SHARD * (file_bytes_max + OVERHEAD_BYTES));
        let shards = usize::try_from(shards).unwrap_or(usize::MAX).clamp(1, 4 * cores());
        Self {
            small: by_bytes(small_bytes, shards),
            open: Cache::with_weighter(options.open_files, options.open_files as u64, ByDescriptors),
            compressed: KeptVariants::new(share),
            file_bytes_max,
        }
    }

    /// Returns the maximum size of a file that is kept in memory.
    pub(super) fn file_bytes_max(&self) -> u64 {
        self.file_bytes_max
    }

    pub(super) fn get(&self, path: &str) -> Option<Arc<Entry>> {
        self.small.get(path).or_else(|| self.open.get(path))
    }

    /// Inserts an entry. The cache ignores an entry that is too large for it.
    pub(super) fn insert(&self, path: &str, entry: Arc<Entry>) {
        if descriptors(&entry) == 0 {
            self.small.insert(path.into(), entry);
        } else if entry.mtime_is_stable {
            // A file that is being written is opened for every request: a cached length would often be wrong.
            self.open.insert(path.into(), entry);
        }
    }

    /// Replaces `old` by `new` if `old` is still cached.
    pub(super) fn replace(&self, path: &str, old: &Arc<Entry>, new: Arc<Entry>) {
        if self.small.peek(path).is_some_and(|current| Arc::ptr_eq(&current, old)) {
            self.insert(path, new);
        }
    }

    pub(super) fn remove(&self, path: &str) {
        self.small.remove(path);
        self.open.remove(path);
    }

    /// Closes files that were last checked before `before_ms`. Returns whether any is still open. Content in memory stays: it holds
    /// no descriptor and no disk space, and its size is limited.
    pub(super) fn close_unused(&self, before_ms: u64) -> bool {
        // With ten thousand sites, few have open files at a time.
        if self.open.is_empty() {
            return false;
        }
        // `retain` holds a lock that requests need, and closing a deleted file is slow because it frees the blocks. So the files
        // are closed afterwards.
        let unused = RefCell::new(Vec::new());
        self.open.retain(|_, entry| {
            let is_used = entry.checked_ms.load(Ordering::Relaxed) >= before_ms;
            if !is_used {
                unused.borrow_mut().push(entry.clone());
            }
            is_used
        });
        drop(unused);
        !self.open.is_empty()
    }
}

/// Weighs files and their compressed content.
#[derive(Debug, Clone, Default)]
pub(super) struct ByBytes;

impl Weighter<Box<str>, Arc<Entry>> for ByBytes {
    fn weight(&self, path: &Box<str>, entry: &Arc<Entry>) -> u64 {
        let content: u64 = entry.representations().map(|ready| ready.content.length() + OVERHEAD_BYTES).sum();
        content + path.len() as u64
    }
}

impl Weighter<CompressedKey, Compressed> for ByBytes {
    fn weight(&self, version: &CompressedKey, compressed: &Compressed) -> u64 {
        let content = compressed.as_ref().map_or(0, |ready| ready.content.length());
        content + OVERHEAD_BYTES + version.path.len() as u64
    }
}

#[derive(Debug, Clone)]
struct ByDescriptors;

impl Weighter<Box<str>, Arc<Entry>> for ByDescriptors {
    fn weight(&self, _: &Box<str>, entry: &Arc<Entry>) -> u64 {
        descriptors(entry)
    }
}

fn descriptors(entry: &Entry) -> u64 {
    entry.representations().map(|ready| u64::from(matches!(ready.content, Content::File(_)))).sum()
}
