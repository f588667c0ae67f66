//! Things that outlive a reload which does not change their settings.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// The values in use, each with the settings that it was created with.
#[derive(Debug)]
pub(crate) struct Registry<K, V>(Mutex<Vec<(K, Weak<V>)>>);

impl<K: Clone + PartialEq, V> Registry<K, V> {
    /// Returns the value with these settings. Creates it if there is none.
    pub(crate) fn get_or_create<E>(
        &self,
        settings: &K,
        create: impl FnOnce() -> Result<Arc<V>, E>,
    ) -> Result<Arc<V>, E> {
        let mut values = self.lock();
        values.retain(|(_, value)| value.strong_count() > 0);
        let known = values.iter().find(|(known, _)| known == settings).and_then(|(_, value)| value.upgrade());
        if let Some(value) = known {
            return Ok(value);
        }
        let value = create()?;
        values.push((settings.clone(), Arc::downgrade(&value)));
        Ok(value)
    }

    /// Returns all values.
    pub(crate) fn values(&self) -> Vec<Arc<V>> {
        self.lock().iter().filter_map(|(_, value)| value.upgrade()).collect()
    }

    /// Ignores poisoning: after a panic the list is still valid.
    fn lock(&self) -> MutexGuard<'_, Vec<(K, Weak<V>)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K, V> Default for Registry<K, V> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}
