//! A sketch of the most frequent keys of a stream, in bounded memory.
//!
//! "Space-saving" (Metwally, Agrawal and El Abbadi, 2005): there is a counter for each of the last keys. A new key takes over the
//! lowest counter, with its count as the possible error. With `n` counters, every key with more than `1/n` of the weight is listed,
//! and no count is too low.

use std::hash::BuildHasher;

use rudy_runtime::random::RandomState;

/// Maximum length of a key in bytes; longer ones are cut.
pub(super) const KEY_BYTES_MAX: usize = 200;

/// A sketch with a fixed number of counters.
#[derive(Debug, Clone)]
pub(super) struct Sketch {
    counters: Vec<Counter>,
    /// Keyed, so that clients cannot choose colliding keys.
    hasher: RandomState,
    /// The weight of all keys.
    pub(super) total: u64,
}

#[derive(Debug, Clone)]
struct Counter {
    hash: u64,
    key: Box<[u8]>,
    count: u64,
    error: u64,
}

impl Sketch {
    /// Number of counters: every key with more than 0.8 % of the requests is listed.
    const COUNTERS: usize = 128;

    pub(super) fn new() -> Self {
        Self { counters: Vec::new(), hasher: RandomState::new(), total: 0 }
    }

    /// Counts a key.
    pub(super) fn add(&mut self, key: &[u8], weight: u64) {
        let key = &key[..key.len().min(KEY_BYTES_MAX)];
        self.total += weight;
        let hash = self.hasher.hash_one(key);
        let is_key = |counter: &&mut Counter| counter.hash == hash && *counter.key == *key;
        if let Some(counter) = self.counters.iter_mut().find(is_key) {
            counter.count += weight;
            return;
        }
        if self.counters.len() < Self::COUNTERS {
            self.counters.push(Counter { hash, key: key.into(), count: weight, error: 0 });
            return;
        }
        if let Some(lowest) = self.counters.iter_mut().min_by_key(|counter| counter.count) {
            let error = lowest.count;
            *lowest = Counter { hash, key: key.into(), count: error + weight, error };
        }
    }

    /// Returns the keys with the weight that each has at least.
    pub(super) fn counts(&self) -> impl Iterator<Item = (&[u8], u64)> {
        self.counters.iter().map(|counter| (&*counter.key, counter.count - counter.error))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    fn counts(sketch: &Sketch) -> HashMap<String, u64> {
        sketch.counts().map(|(key, count)| (String::from_utf8(key.to_vec()).unwrap(), count)).collect()
    }

    #[test]
    fn few_keys_are_counted_exactly() {
        let mut sketch = Sketch::new();
        for (key, weight) in [("a", 1), ("b", 2), ("a", 3)] {
            sketch.add(key.as_bytes(), weight);
        }
        assert_eq!(counts(&sketch), HashMap::from([("a".to_owned(), 4), ("b".to_owned(), 2)]));
        assert_eq!(sketch.total, 6);
    }

    #[test]
    fn frequent_keys_are_found_among_a_million_others() {
        let mut sketch = Sketch::new();
        for number in 0..1_000_000_u64 {
            if number % 20 == 0 {
                sketch.add(b"/hot", 1);
            }
            sketch.add(format!("/{number}").as_bytes(), 1);
        }
        assert_eq!(sketch.counters.len(), Sketch::COUNTERS);
        let hot = counts(&sketch)["/hot"];
        assert!((40_000..=50_000).contains(&hot), "{hot}");
        // The others are known to be rare.
        assert!(counts(&sketch).iter().all(|(key, count)| key == "/hot" || *count <= 1));
    }

    #[test]
    fn long_keys_are_cut() {
        let mut sketch = Sketch::new();
        sketch.add(&[b'a'; 1000], 1);
        sketch.add(&[b'a'; KEY_BYTES_MAX], 1);
        assert_eq!(counts(&sketch), HashMap::from([("a".repeat(KEY_BYTES_MAX), 2)]));
    }
}
