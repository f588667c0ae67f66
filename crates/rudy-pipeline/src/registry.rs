//! Things that outlive a reload which does not change their settings.

use std::collections::HashMap;
use std::fmt::{self, Debug, Write as _};
use std::hash::{DefaultHasher, Hasher};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

/// The values in use, each with the settings that it was created with.
#[derive(Debug)]
pub struct Registry<K, V>(Mutex<Values<K, V>>);

#[derive(Debug)]
struct Values<K, V> {
    /// By the hash of the settings: a reload looks up those of thousands of sites.
    by_hash: HashMap<u64, Vec<Entry<K, V>>>,
    created: u64,
    /// The number of values that were created when those that are not in use are removed next.
    cleanup_at: u64,
}

#[derive(Debug)]
struct Entry<K, V> {
    settings: K,
    value: Weak<V>,
    /// Values are listed in the order of their creation.
    number: u64,
}

impl<K: Clone + PartialEq + Debug, V> Registry<K, V> {
    /// Returns the value with these settings. Creates it if there is none, without a lock: that may start threads and processes. If two
    /// threads do so at the same time, both get the same value.
    pub fn get_or_create<E>(
        &self,
        settings: &K,
        create: impl FnOnce() -> Result<Arc<V>, E>,
    ) -> Result<Arc<V>, E> {
        let hash = hash(settings);
        let known = self.0.lock().find(hash, settings);
        if let Some(known) = known {
            return Ok(known);
        }
        let value = create()?;
        let mut values = self.0.lock();
        if let Some(of_other_thread) = values.find(hash, settings) {
            return Ok(of_other_thread);
        }
        values.insert(hash, settings.clone(), &value);
        Ok(value)
    }
}

impl<K, V> Registry<K, V> {
    /// Returns all values, in the order of their creation.
    pub fn values(&self) -> Vec<Arc<V>> {
        let values = self.0.lock();
        let entries = values.by_hash.values().flatten();
        let mut values: Vec<_> =
            entries.filter_map(|entry| Some((entry.number, entry.value.upgrade()?))).collect();
        values.sort_unstable_by_key(|(number, _)| *number);
        values.into_iter().map(|(_, value)| value).collect()
    }
}

impl<K: PartialEq, V> Values<K, V> {
    fn find(&self, hash: u64, settings: &K) -> Option<Arc<V>> {
        let entries = self.by_hash.get(&hash)?.iter();
        entries.filter(|entry| entry.settings == *settings).find_map(|entry| entry.value.upgrade())
    }

    fn insert(&mut self, hash: u64, settings: K, value: &Arc<V>) {
        if self.created >= self.cleanup_at {
            self.by_hash.retain(|_, entries| {
                entries.retain(|entry| entry.value.strong_count() > 0);
                !entries.is_empty()
            });
            // Not for each value: that would take the square of their number.
            self.cleanup_at = self.created + 1 + self.by_hash.len() as u64;
        }
        let (number, value) = (self.created, Arc::downgrade(value));
        self.created += 1;
        // There is nearly always one, and an empty list would make room for four.
        let entries = self.by_hash.entry(hash).or_insert_with(|| Vec::with_capacity(1));
        entries.push(Entry { settings, value, number });
    }
}

impl<K, V> Default for Registry<K, V> {
    fn default() -> Self {
        Self(Mutex::new(Values { by_hash: HashMap::new(), created: 0, cleanup_at: 0 }))
    }
}

/// Hashes the text of [`Debug`]: equal settings have the same, and the thirty types of which they consist need no other trait.
fn hash(settings: &impl Debug) -> u64 {
    struct Text(DefaultHasher);
    impl fmt::Write for Text {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            self.0.write(text.as_bytes());
            Ok(())
        }
    }
    let mut text = Text(DefaultHasher::new());
    // Writing to a hasher cannot fail.
    let _ = write!(text, "{settings:?}");
    text.0.finish()
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Settings that count how often they are compared.
    #[derive(Debug, Clone)]
    struct Counting(usize);

    static COMPARISONS: AtomicUsize = AtomicUsize::new(0);

    impl PartialEq for Counting {
        fn eq(&self, other: &Self) -> bool {
            COMPARISONS.fetch_add(1, Ordering::Relaxed);
            self.0 == other.0
        }
    }

    fn get<K: Clone + PartialEq + Debug>(
        registry: &Registry<K, usize>,
        settings: &K,
        new: usize,
    ) -> Arc<usize> {
        let Ok(value) = registry.get_or_create(settings, || Ok::<_, Infallible>(Arc::new(new)));
        value
    }

    #[test]
    fn a_reload_of_a_thousand_sites_compares_each_once() {
        const SITES: usize = 1000;
        let registry = Registry::default();
        let load = || (0..SITES).map(|site| get(&registry, &Counting(site), site)).collect::<Vec<_>>();
        let first = load();
        assert_eq!(COMPARISONS.swap(0, Ordering::Relaxed), 0, "all are new");
        let second = load();
        assert_eq!(COMPARISONS.load(Ordering::Relaxed), SITES);
        assert!(first.iter().zip(&second).all(|(first, second)| Arc::ptr_eq(first, second)));
    }

    #[test]
    fn values_are_listed_in_order_until_they_are_not_in_use() {
        let registry = Registry::default();
        let values: Vec<_> = (0..9).map(|site| get(&registry, &site, site)).collect();
        assert_eq!(registry.values(), values);
        drop(values);
        assert!(registry.values().is_empty());
        for site in 0..1000 {
            assert_eq!(*get(&registry, &site, site), site, "a new one");
        }
        let entries: usize = registry.0.lock().by_hash.values().map(Vec::len).sum();
        assert!(entries <= 3, "{entries} are kept, of which none is in use");
    }

    #[test]
    fn values_can_be_listed_while_one_is_created() {
        let registry = Registry::default();
        let first = get(&registry, &0, 7);
        let create = || {
            // It would wait forever if the list were locked.
            assert_eq!(registry.values(), std::slice::from_ref(&first));
            Ok::<_, Infallible>(get(&registry, &1, 8))
        };
        let Ok(second) = registry.get_or_create(&1, create);
        assert_eq!(registry.values(), [first.clone(), second]);
    }
}
