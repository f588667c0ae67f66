//! The entries that are kept: small ones in memory, bounded by their bytes; others as open files, bounded by their number.

use std::sync::Arc;

use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{DefaultHashBuilder, OptionsBuilder, Weighter};

use super::entry::{Content, Entry};

/// What a representation takes beside its content: two heads of up to ten fields, as a map and encoded, and its share of the
/// paths. An estimate, on the safe side.
const OVERHEAD_BYTES: u64 = 2048;

/// How many of the largest files one piece of the cache has room for. A file and its three codings are one entry, which
/// counts as four.
const FILES_IN_PIECE: u64 = 8;

/// The largest file that is kept, where `wanted` was asked for: a few must fit, or each would push out the one before.
pub(super) fn largest_file_bytes(memory_bytes: u64, wanted: u64) -> u64 {
    wanted.min(memory_bytes / FILES_IN_PIECE)
}

/// Entries by the path that is asked for, decoded, with its slashes.
#[derive(Debug)]
pub(super) struct Entries {
    small: Cache<Box<str>, Arc<Entry>, ByBytes>,
    open: Cache<Box<str>, Arc<Entry>, ByDescriptors>,
}

impl Entries {
    pub(super) fn new(memory_bytes: u64, memory_file_bytes: u64, open_files: usize) -> Self {
        // Sites have files of 10 KiB and more; only the first size of a table depends on it.
        let likely = usize::try_from(memory_bytes / (8 * 1024)).unwrap_or(usize::MAX).clamp(1, 64 * 1024);
        // The cache is split so that cores do not wait for each other, but each piece must hold the largest entries.
        let pieces = memory_bytes / (FILES_IN_PIECE * (memory_file_bytes + OVERHEAD_BYTES));
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let pieces = usize::try_from(pieces).unwrap_or(usize::MAX).clamp(1, 4 * cores);
        let options = OptionsBuilder::new()
            .shards(pieces)
            .estimated_items_capacity(likely)
            .weight_capacity(memory_bytes)
            .build()
            .expect("the builder refuses only when one of the two capacities is missing");
        Self {
            small: Cache::with_options(
                options,
                ByBytes,
                DefaultHashBuilder::default(),
                DefaultLifecycle::default(),
            ),
            open: Cache::with_weighter(open_files, open_files as u64, ByDescriptors),
        }
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
}

#[derive(Debug, Clone)]
struct ByBytes;

impl Weighter<Box<str>, Arc<Entry>> for ByBytes {
    fn weight(&self, path: &Box<str>, entry: &Arc<Entry>) -> u64 {
        let content: u64 = entry.representations().map(|ready| ready.content.length() + OVERHEAD_BYTES).sum();
        content + path.len() as u64
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
