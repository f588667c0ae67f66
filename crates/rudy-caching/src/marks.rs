//! What the cache remembers of keys for a short time.

use std::hash::BuildHasher;

use quick_cache::sync::Cache;
use rudy_cache::Key;
use rudy_files::clock::monotonic_ms;
use rudy_runtime::random::RandomState;

/// The number of keys to remember. More of them only cost requests that wait for each other once more, or that are not stored yet.
const KEYS: usize = 16 * 1024;

/// How long a response that was not stored keeps requests for its key from waiting for each other, as in Varnish.
const NOT_STORED_MS: u64 = 120_000;

/// How long a validation in the background, or one that failed, keeps the cache from another one.
const VALIDATION_MS: u64 = 1000;

/// How long the requests for a key are counted from the first one on, the default of `inactive` in nginx.
const USES_MS: u64 = 600_000;

/// Marks of keys, by their hash: a collision only costs performance.
#[derive(Debug)]
pub(super) struct Marks {
    hasher: RandomState,
    not_stored: Cache<u64, u64>,
    validated: Cache<u64, u64>,
    failed: Cache<u64, u64>,
    uses: Cache<u64, Uses>,
}

/// The number of requests for a key until a time.
#[derive(Debug, Clone, Copy)]
struct Uses {
    count: u32,
    until: u64,
}

impl Default for Marks {
    fn default() -> Self {
        let [not_stored, validated, failed] = std::array::from_fn(|_| Cache::new(KEYS));
        Self { hasher: RandomState::new(), not_stored, validated, failed, uses: Cache::new(KEYS) }
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

    /// Counts a request that has found nothing stored. Returns their number so far.
    pub(super) fn count_use(&self, key: &Key) -> u32 {
        self.count_use_at(key, monotonic_ms())
    }

    /// Of two requests at a time, one may not be counted: the response is stored a request later.
    fn count_use_at(&self, key: &Key, now: u64) -> u32 {
        let hash = self.hash(key);
        let current = self.uses.get(&hash).filter(|uses| now < uses.until);
        let Uses { count, until } = current.unwrap_or(Uses { count: 0, until: now + USES_MS });
        let count = count.saturating_add(1);
        self.uses.insert(hash, Uses { count, until });
        count
    }

    fn hash(&self, key: &Key) -> u64 {
        self.hasher.hash_one(key)
    }
}

fn is_current(marks: &Cache<u64, u64>, hash: u64) -> bool {
    marks.get(&hash).is_some_and(|until| monotonic_ms() < until)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_for_a_key_are_counted_for_a_time() {
        let (marks, [key, other]) =
            (Marks::default(), [b"/a", b"/b"].map(|path| Key::new(false, b"a", path)));
        let counts = [0, 1, USES_MS - 1].map(|at| marks.count_use_at(&key, at));
        assert_eq!((counts, marks.count_use_at(&other, 1)), ([1, 2, 3], 1));
        assert_eq!(marks.count_use_at(&key, USES_MS), 1);
    }

    #[test]
    fn the_number_of_counted_keys_is_limited() {
        let marks = Marks::default();
        for number in 0..2 * KEYS {
            marks.count_use_at(&Key::new(false, b"a", number.to_string().as_bytes()), 0);
        }
        assert!(marks.uses.len() <= KEYS);
    }
}
