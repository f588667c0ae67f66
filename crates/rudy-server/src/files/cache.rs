//! The entries that are kept: small ones in memory, bounded by their bytes; others as open files, bounded by their number.
//! Larger files that were compressed are kept in memory too, within the same bytes.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{DefaultHashBuilder, OptionsBuilder, Weighter};
use rudy_http::semantics::negotiation::Coding;
use tokio::sync::Semaphore;

use super::entry::{Content, Entry, Representation};
use super::options::FilesOptions;
use super::root::Stat;

/// What a representation takes beside its content: two heads of up to ten fields, as a map and encoded, and its share of the
/// paths. An estimate, on the safe side.
const OVERHEAD_BYTES: u64 = 2048;

/// How many of the largest files one piece of the cache has room for. A file and its three codings are one entry, which
/// counts as four.
const FILES_IN_PIECE: u64 = 8;

/// Which part of the memory is for larger files that were compressed: a quarter. With the defaults the largest file that is
/// compressed has room there.
const COMPRESSED_SHARE: u64 = 4;

/// What was compressed: a file at one time, in one coding. `path` is that of its entry, because the heads depend on it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Version {
    pub(super) path: Box<str>,
    pub(super) coding: Coding,
    pub(super) stat: Stat,
}

/// The result of a compression; `None` where a file does not shrink.
pub(super) type Compressed = Option<Arc<Representation>>;

/// Entries by the path that is asked for, decoded, with its slashes.
#[derive(Debug)]
pub(super) struct Entries {
    small: Cache<Box<str>, Arc<Entry>, ByBytes>,
    open: Cache<Box<str>, Arc<Entry>, ByDescriptors>,
    /// In one piece, because each result must find room. Its lock is taken for larger files only, and once for each coding of a
    /// small one, whose entry then has the result.
    pub(super) compressed: Cache<Version, Compressed, ByBytes>,
    /// A permit for each KiB of larger files that may be compressed into memory at a time: as much as is kept of them.
    pub(super) room: Semaphore,
    file_bytes_max: u64,
}

impl Entries {
    pub(super) fn new(options: &FilesOptions) -> Self {
        let share = if options.compression.is_some() { options.cache_size / COMPRESSED_SHARE } else { 0 };
        let small_bytes = options.cache_size - share;
        // A few must fit, or each would push out the one before.
        let file_bytes_max = options.cache_max_file_size.min(small_bytes / FILES_IN_PIECE);
        // The cache is split so that cores do not wait for each other, but each piece must hold the largest entries.
        let pieces = small_bytes / (FILES_IN_PIECE * (file_bytes_max + OVERHEAD_BYTES));
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let pieces = usize::try_from(pieces).unwrap_or(usize::MAX).clamp(1, 4 * cores);
        Self {
            small: by_bytes(small_bytes, pieces),
            open: Cache::with_weighter(options.open_files, options.open_files as u64, ByDescriptors),
            compressed: by_bytes(share, 1),
            room: Semaphore::new(
                usize::try_from(share / 1024).unwrap_or(usize::MAX).min(Semaphore::MAX_PERMITS),
            ),
            file_bytes_max,
        }
    }

    /// The largest file that is kept in memory.
    pub(super) fn file_bytes_max(&self) -> u64 {
        self.file_bytes_max
    }

    pub(super) fn get(&self, path: &str) -> Option<Arc<Entry>> {
        self.small.get(path).or_else(|| self.open.get(path))
    }

    /// Keeps an entry, if it is not too large to be kept at all.
    pub(super) fn insert(&self, path: &str, entry: Arc<Entry>) {
        if descriptors(&entry) == 0 {
            self.small.insert(path.into(), entry);
        } else if entry.settled {
            // A file under change is looked at for every request: its length would be wrong too often.
            self.open.insert(path.into(), entry);
        }
    }

    /// Puts `new` where `old` still is.
    pub(super) fn replace(&self, path: &str, old: &Arc<Entry>, new: Arc<Entry>) {
        if self.small.peek(path).is_some_and(|current| Arc::ptr_eq(&current, old)) {
            self.insert(path, new);
        }
    }

    pub(super) fn remove(&self, path: &str) {
        self.small.remove(path);
        self.open.remove(path);
    }

    /// Closes files that were last checked before `before_ms`; returns whether any is still open. What is in memory stays: it
    /// holds no descriptor and no place on the disk, and its bytes have their bound.
    pub(super) fn close_unused(&self, before_ms: u64) -> bool {
        // Of ten thousand sites few have open files at a time.
        if self.open.is_empty() {
            return false;
        }
        // `retain` holds the lock that requests need: a deleted file is closed after it, because its close frees its blocks,
        // which takes time.
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

fn by_bytes<K: Eq + std::hash::Hash, V: Clone>(bytes: u64, pieces: usize) -> Cache<K, V, ByBytes>
where
    ByBytes: Weighter<K, V>,
{
    // Sites have files of 10 KiB and more; only the first size of a table depends on it.
    let likely = usize::try_from(bytes / (8 * 1024)).unwrap_or(usize::MAX).clamp(1, 64 * 1024);
    let options = OptionsBuilder::new()
        .shards(pieces)
        .estimated_items_capacity(likely)
        .weight_capacity(bytes)
        .build()
        .expect("the builder refuses only when one of the two capacities is missing");
    Cache::with_options(options, ByBytes, DefaultHashBuilder::default(), DefaultLifecycle::default())
}

#[derive(Debug, Clone)]
pub(super) struct ByBytes;

impl Weighter<Box<str>, Arc<Entry>> for ByBytes {
    fn weight(&self, path: &Box<str>, entry: &Arc<Entry>) -> u64 {
        let content: u64 = entry.representations().map(|ready| ready.content.length() + OVERHEAD_BYTES).sum();
        content + path.len() as u64
    }
}

impl Weighter<Version, Compressed> for ByBytes {
    fn weight(&self, version: &Version, compressed: &Compressed) -> u64 {
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
