//! The keys that occur most often.

use std::time::Instant;

use parking_lot::Mutex;

use crate::Key;

/// Finds the keys with the most events, in memory for some of them (the algorithm Space-Saving, Metwally et al. 2005): a new key
/// replaces the rarest and inherits its count. So a count may be too high, and a key that has more than its share of the events
/// is always known.
#[derive(Debug)]
pub struct TopKeys {
    keys: Mutex<Vec<(Key, TopKey)>>,
    most: usize,
}

/// A key, and how often it occurred.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopKey {
    /// What it is.
    pub name: String,
    /// The number of events.
    pub count: u64,
    /// The time of the last event.
    pub last: Instant,
}

impl TopKeys {
    /// Knows up to `most` keys, at least one.
    #[must_use]
    pub fn new(most: usize) -> Self {
        Self { keys: Mutex::default(), most: most.max(1) }
    }

    /// Counts an event. `name` is called for a key that is not known. If another worker counts at the same time, the event is left
    /// out, so that no worker waits.
    pub fn count(&self, key: Key, now: Instant, name: impl FnOnce() -> String) {
        let Some(mut keys) = self.keys.try_lock() else { return };
        if let Some((_, known)) = keys.iter_mut().find(|(known, _)| *known == key) {
            known.count += 1;
            known.last = now;
        } else if keys.len() < self.most {
            keys.push((key, TopKey { name: name(), count: 1, last: now }));
        } else if let Some(rarest) = keys.iter_mut().min_by_key(|(_, known)| known.count) {
            *rarest = (key, TopKey { name: name(), count: rarest.1.count + 1, last: now });
        }
    }

    /// Returns the known keys, the most frequent first.
    #[must_use]
    pub fn list(&self) -> Vec<TopKey> {
        let keys = self.keys.lock();
        let mut list: Vec<_> = keys.iter().map(|(_, known)| known.clone()).collect();
        list.sort_by_key(|known| std::cmp::Reverse(known.count));
        list
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::KeyHasher;

    #[test]
    fn frequent_keys_are_found_among_many() {
        let (top, keys, now) = (TopKeys::new(8), KeyHasher::default(), Instant::now());
        let count = |name: &str| {
            top.count(keys.start().bytes(name.as_bytes()).finish(), now, || name.to_owned());
        };
        for number in 0..10_000 {
            count(&format!("rare {number}"));
            count("most");
            if number % 2 == 0 {
                count("second");
            }
        }
        let list = top.list();
        assert_eq!((list.len(), list[0].name.as_str(), list[1].name.as_str()), (8, "most", "second"));
        assert_eq!(list[0].count, 10_000);
        assert!(list.iter().skip(2).all(|key| key.count < list[1].count));
    }
}
