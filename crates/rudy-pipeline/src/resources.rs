//! What the configurations of a process share.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;

/// What outlives a configuration, one value of each type: open folders and their caches, the keys of TLS sessions, the counts of limits,
/// the connections to upstreams. Each part of the server gets its own with [`Self::of`], which makes it at the first call, so that no list names them
/// all. A reload builds the next `App` with the same resources.
#[derive(Default)]
pub struct Resources(Mutex<Vec<Arc<dyn Any + Send + Sync>>>);

impl Resources {
    /// Sets a value that is not made by its default, before [`Self::of`] makes it.
    #[must_use]
    pub fn with<T: Send + Sync + 'static>(self, value: Arc<T>) -> Self {
        self.0.lock().push(value);
        self
    }

    /// Returns the value of this type.
    #[must_use]
    pub fn of<T: Default + Send + Sync + 'static>(&self) -> Arc<T> {
        let mut values = self.0.lock();
        // There are about twenty types.
        let known = values.iter().find_map(|value| value.clone().downcast().ok());
        known.unwrap_or_else(|| {
            let value = Arc::<T>::default();
            values.push(value.clone());
            value
        })
    }
}

impl fmt::Debug for Resources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resources").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU8, Ordering};

    use super::*;

    #[test]
    fn each_type_has_one_value() {
        let resources = Resources::default().with(Arc::new(7_u32));
        assert_eq!((*resources.of::<u32>(), *resources.of::<u64>()), (7, 0));
        resources.of::<AtomicU8>().store(5, Ordering::Relaxed);
        assert_eq!(resources.of::<AtomicU8>().load(Ordering::Relaxed), 5);
    }
}
