//! The index, as threads share it.
//!
//! No thread has its lock for longer than a batch of evictions takes, about a tenth of a millisecond: evictions take it again for each
//! batch, and files are removed without it.

use rudy_cache::index::{self, Capacity, ObjectId, Position, SAVED_BYTES};

use crate::sync::Mutex;
use crate::sync::atomic::{AtomicU64, Ordering};

/// The number of objects of a snapshot that are added with one lock.
const RESTORED_AT_ONCE: usize = 256;

/// An [`index::Index`] with a lock.
#[derive(Debug)]
pub(crate) struct Index {
    index: Mutex<index::Index>,
    /// That of the index, for hits without the lock.
    eighths: AtomicU64,
}

/// The uses of an object in memory that the index knows. An object that is used all the time counts a few, and takes no lock for the
/// others.
///
/// It has four times [`index::Index::eighths`] at the last use that counted, and the number of them since that changed.
#[derive(Debug, Default)]
pub(crate) struct Uses(AtomicU64);

impl Clone for Uses {
    /// The clone is another object for the index.
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl Index {
    pub(crate) fn new(capacity: Capacity) -> Self {
        Self { index: Mutex::new(index::Index::new(capacity)), eighths: AtomicU64::default() }
    }

    /// Forgets all objects. None may be in memory.
    pub(crate) fn clear(&self, capacity: Capacity) {
        self.eighths.store(0, Ordering::Relaxed);
        // The memory is returned without the lock.
        drop(std::mem::replace(&mut *self.index.lock(), index::Index::new(capacity)));
    }

    /// Returns the number of objects, the bytes that they use on the disk, and the memory of the index.
    pub(crate) fn usage(&self) -> (u32, u64, usize) {
        let index = self.index.lock();
        (index.len(), index.bytes(), index.memory_bytes())
    }

    pub(crate) fn contains(&self, id: ObjectId) -> bool {
        self.index.lock().contains(id)
    }

    pub(crate) fn mark(&self, id: ObjectId) {
        self.index.lock().mark(id);
    }

    pub(crate) fn is_marked(&self, id: ObjectId) -> bool {
        self.index.lock().is_marked(id)
    }

    /// Records a use of an object. Returns whether it is in the store.
    pub(crate) fn hit(&self, id: ObjectId) -> bool {
        self.index.lock().hit(id)
    }

    /// Records a use, unless another thread has the lock: nearly all uses are counted, and no hit waits.
    pub(crate) fn try_hit(&self, id: ObjectId, uses: &Uses) {
        let (known, none) = (uses.0.load(Ordering::Relaxed), 4 * self.eighths.load(Ordering::Relaxed));
        let count = known.max(none);
        if count < none + u64::from(index::USES_MAX)
            && let Some(mut index) = self.index.try_lock()
        {
            index.hit(id);
            uses.0.store(count + 1, Ordering::Relaxed);
        }
    }

    /// Adds an object, or replaces its size. Adds to `evicted` what has to leave: it too, if it alone exceeds the capacity.
    pub(crate) fn insert(&self, id: ObjectId, bytes: u64, evicted: &mut Vec<ObjectId>) {
        if !self.index.lock().insert(id, bytes) {
            evicted.push(id);
        }
        while !self.evict(Some(id), evicted) {}
    }

    fn evict(&self, protected: Option<ObjectId>, evicted: &mut Vec<ObjectId>) -> bool {
        let mut index = self.index.lock();
        let is_done = index.evict(protected, evicted);
        if self.eighths.load(Ordering::Relaxed) != index.eighths() {
            self.eighths.store(index.eighths(), Ordering::Relaxed);
        }
        is_done
    }

    /// Adds objects of a snapshot, and returns those that have to leave.
    pub(crate) fn restore(&self, saved: &[[u8; SAVED_BYTES]]) -> Vec<ObjectId> {
        let mut evicted = Vec::new();
        for some in saved.chunks(RESTORED_AT_ONCE) {
            let mut index = self.index.lock();
            for object in some {
                index.restore(object);
            }
            drop(index);
            while !self.evict(None, &mut evicted) {}
        }
        evicted
    }

    /// As [`index::Index::save`].
    pub(crate) fn save(&self, from: Option<Position>, out: &mut Vec<u8>) -> Option<Position> {
        self.index.lock().save(from, out)
    }

    /// Notes that an object has a file. Returns whether it is in the index.
    pub(crate) fn confirm(&self, id: ObjectId) -> bool {
        self.index.lock().confirm(id)
    }

    /// Removes the objects of a snapshot that have no file.
    pub(crate) fn remove_unconfirmed(&self) {
        let mut position = self.index.lock().remove_unconfirmed(None);
        while position.is_some() {
            position = self.index.lock().remove_unconfirmed(position);
        }
    }

    pub(crate) fn remove(&self, id: ObjectId) -> bool {
        self.index.lock().remove(id)
    }

    /// Changes the capacity in steps: `evict` gets the objects that have to leave in each of them.
    pub(crate) fn resize(&self, capacity: Capacity, evict: impl Fn(Vec<ObjectId>)) {
        loop {
            let mut evicted = Vec::new();
            let is_done = self.index.lock().resize(capacity, &mut evicted);
            evict(evicted);
            if is_done {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use rudy_cache::index::BLOCK_BYTES;

    use super::*;

    fn id(number: u64) -> ObjectId {
        ObjectId::from_bytes(*[number, number].map(u64::to_le_bytes).as_flattened().first_chunk().unwrap())
    }

    #[test]
    fn an_object_in_memory_that_is_used_all_the_time_stays() {
        let objects = 1000;
        let index = Index::new(Capacity { bytes: u64::from(objects) * BLOCK_BYTES, objects });
        let (hot, uses) = (id(u64::MAX), Uses::default());
        index.insert(hot, 1, &mut Vec::new());
        for number in 0..100_000 {
            index.try_hit(hot, &uses);
            index.insert(id(number), 1, &mut Vec::new());
            // The others are used too, so that the main queue moves.
            assert!(index.hit(id(number)) && index.hit(id(number)));
        }
        assert!(index.contains(hot));
        let eighths = index.eighths.load(Ordering::Relaxed);
        assert!(eighths > 100, "{eighths}");
        assert_eq!(uses.0.load(Ordering::Relaxed) / 4, eighths);
    }
}
