//! What the cache remembers of keys for a short time.

use std::hash::{BuildHasher, RandomState};

use quick_cache::sync::Cache;
use rudy_cache::Key;
use rudy_files::clock::monotonic_ms;

/// The number of keys to remember. More of them only cost requests that wait for each other once more.
const KEYS: usize = 16 * 1024;

/// How long a response that was not stored keeps requests for its key from waiting for each other, as in Varnish.
const NOT_STORED_MS: u64 = 120_000;

/// How long a validation in the background, or one that failed, keeps the cache from another one.
const VALIDATION_MS: u64 = 1000;

/// Marks of keys, by their hash: a collision only costs performance.
#[derive(Debug)]
pub(super) struct Marks {
    hasher: RandomState,
    not_stored: Cache<u64, u64>,
    validated: Cache<u64, u64>,
    failed: Cache<u64, u64>,
}

impl Default for Marks {
    fn default() -> Self {
        let [not_stored, validated, failed] = std::array::from_fn(|_| Cache::new(KEYS));
        Self { hasher: RandomState::new(), not_stored, validated, failed }
    }
}

impl Marks {
    /// Marks the key of a response that was not stored ("hit for miss").
    pub(super) fn set_not_stored(&self, key: &Key) {
        self.not_stored.insert(self.hash(key), monotonic_ms() + NOT_STORED_MS);
    }

    /// Removes the mark, because a response was stored.
    pub(super) fn set_stored(&self, key: &Key) {
        if !self.not_stored.is_empty() {
            self.not_stored.remove(&self.hash(key));
        }
    }

    pub(super) fn is_not_stored(&self, key: &Key) -> bool {
        !self.not_stored.is_empty() && is_current(&self.not_stored, self.hash(key))
    }

    /// Marks the key of a validation that failed: stale responses replace the error.
    pub(super) fn set_failed(&self, key: &Key) {
        self.failed.insert(self.hash(key), monotonic_ms() + VALIDATION_MS);
        self.set_validated(key);
    }

    pub(super) fn has_failed(&self, key: &Key) -> bool {
        !self.failed.is_empty() && is_current(&self.failed, self.hash(key))
    }

    /// Marks the key of a validation that is made in the background, perhaps of one variant only.
    pub(super) fn set_validated(&self, key: &Key) {
        self.validated.insert(self.hash(key), monotonic_ms() + VALIDATION_MS);
    }

    pub(super) fn is_validated(&self, key: &Key) -> bool {
        is_current(&self.validated, self.hash(key))
    }

    fn hash(&self, key: &Key) -> u64 {
        self.hasher.hash_one(key)
    }
}

fn is_current(marks: &Cache<u64, u64>, hash: u64) -> bool {
    marks.get(&hash).is_some_and(|until| monotonic_ms() < until)
}
