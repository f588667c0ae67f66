//! Requests in progress, by key.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};

use crate::Key;

/// The number of locks.
const SHARDS: usize = 64;

/// The number of keys for which an empty shard keeps its memory.
const KEPT_KEYS: usize = 64;

/// A limit for requests in progress by key. All workers share it. Its memory is bounded by the number of requests in progress: a
/// key without one is not stored.
#[derive(Debug)]
pub struct Slots {
    max: u32,
    shards: Box<[Mutex<Shard>]>,
}

type Shard = HashMap<u64, u32, BuildHasherDefault<Hashed>>;

/// A request in progress. Dropping it ends the request.
#[derive(Debug)]
pub struct Slot {
    slots: Arc<Slots>,
    key: Key,
}

impl Slots {
    /// Creates a limit of `max` requests for each key.
    #[must_use]
    pub fn new(max: u32) -> Self {
        Self { max, shards: (0..SHARDS).map(|_| Mutex::default()).collect() }
    }

    /// Begins a request; `None` if its key has `max` requests in progress.
    #[must_use]
    pub fn acquire(self: &Arc<Self>, key: Key) -> Option<Slot> {
        let mut shard = self.shard(key);
        let active = shard.entry(key.hash).or_default();
        if *active >= self.max {
            return None;
        }
        *active += 1;
        Some(Slot { slots: self.clone(), key })
    }

    /// Begins a request, also above the limit.
    #[must_use]
    pub fn acquire_over(self: &Arc<Self>, key: Key) -> Slot {
        let mut shard = self.shard(key);
        let active = shard.entry(key.hash).or_default();
        *active = active.saturating_add(1);
        Slot { slots: self.clone(), key }
    }

    /// Returns the number of requests in progress with a key.
    #[must_use]
    pub fn active(&self, key: Key) -> u32 {
        self.shard(key).get(&key.hash).copied().unwrap_or(0)
    }

    /// Returns the number of keys with requests in progress.
    #[must_use]
    pub fn keys(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().len()).sum()
    }

    fn release(&self, key: Key) {
        let mut shard = self.shard(key);
        if let Entry::Occupied(mut active) = shard.entry(key.hash) {
            if *active.get() > 1 {
                *active.get_mut() -= 1;
            } else {
                active.remove();
            }
        }
        if shard.is_empty() && shard.capacity() > KEPT_KEYS {
            *shard = Shard::default();
        }
    }

    fn shard(&self, key: Key) -> MutexGuard<'_, Shard> {
        // A map uses the high and the low bits.
        let shard = usize::try_from((key.hash >> 32) % SHARDS as u64).unwrap_or(0);
        self.shards[shard].lock()
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.slots.release(self.key);
    }
}

/// Passes on a hash, because keys are hashed already.
#[derive(Debug, Default)]
struct Hashed(u64);

impl Hasher for Hashed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::KeyHasher;

    #[test]
    fn a_key_has_as_many_requests_as_allowed_until_one_ends() {
        let slots = Arc::new(Slots::new(2));
        let keys = KeyHasher::default();
        let [a, b] = ["a", "b"].map(|name| keys.start().bytes(name.as_bytes()).finish());
        let first = slots.acquire(a).unwrap();
        let second = slots.acquire(a).unwrap();
        assert!(slots.acquire(a).is_none());
        assert!(slots.acquire(b).is_some());
        drop(first);
        let third = slots.acquire(a).unwrap();
        assert!(slots.acquire(a).is_none());
        let over = slots.acquire_over(a);
        assert_eq!((slots.active(a), slots.active(b)), (3, 0));
        drop((second, third, over));
        assert_eq!(slots.active(a), 0);
    }

    #[test]
    fn keys_without_requests_use_no_memory() {
        let slots = Arc::new(Slots::new(1));
        let keys = KeyHasher::default();
        let key = |number: u32| keys.start().bytes(&number.to_be_bytes()).finish();
        let held: Vec<_> = (0..100_000).filter_map(|number| slots.acquire(key(number))).collect();
        assert_eq!((held.len(), slots.keys()), (100_000, 100_000));
        drop(held);
        let capacity = slots.shards.iter().map(|shard| shard.lock().capacity()).max();
        assert!(slots.keys() == 0 && capacity.unwrap() <= KEPT_KEYS, "{capacity:?}");
    }

    #[test]
    fn workers_never_exceed_the_limit() {
        let slots = Arc::new(Slots::new(3));
        let key = KeyHasher::default().start().bytes(b"a").finish();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..1000 {
                        let held = slots.acquire(key);
                        assert!(slots.active(key) <= 3);
                        drop(held);
                    }
                });
            }
        });
        assert_eq!(slots.active(key), 0);
    }
}
