//! The cache in memory, for tests.

use std::hash::Hash;

use quick_cache::Weighter;
use quick_cache::sync;

use super::Mutex;

/// A cache with a lock around its own, which `shuttle` does not know: a thread of a model that waits for those would wait forever.
#[derive(Debug)]
pub(crate) struct Cache<K, V, W> {
    cache: Mutex<sync::Cache<K, V, W>>,
}

impl<K: Eq + Hash, V: Clone, W: Weighter<K, V> + Clone> Cache<K, V, W> {
    pub(crate) fn with_weighter(items: usize, weight: u64, weighter: W) -> Self {
        Self { cache: Mutex::new(sync::Cache::with_weighter(items, weight, weighter)) }
    }

    pub(crate) fn get(&self, key: &K) -> Option<V> {
        self.cache.lock().get(key)
    }

    pub(crate) fn insert(&self, key: K, value: V) {
        self.cache.lock().insert(key, value);
    }

    pub(crate) fn remove(&self, key: &K) -> Option<(K, V)> {
        self.cache.lock().remove(key)
    }

    pub(crate) fn retain(&self, keeps: impl Fn(&K, &V) -> bool) {
        self.cache.lock().retain(keeps);
    }

    pub(crate) fn clear(&self) {
        self.cache.lock().clear();
    }

    pub(crate) fn set_capacity(&self, weight: u64) {
        self.cache.lock().set_capacity(weight);
    }

    pub(crate) fn len(&self) -> usize {
        self.cache.lock().len()
    }

    pub(crate) fn weight(&self) -> u64 {
        self.cache.lock().weight()
    }
}
