//! The index, as threads share it.
//!
//! No thread has its lock for longer than a batch of evictions takes, about a tenth of a millisecond: evictions take it again for each
//! batch, and files are removed without it.

use rudy_cache::index::{self, Capacity, ObjectId, Position, SAVED_BYTES};

use crate::sync::Mutex;

/// The number of objects of a snapshot that are added with one lock.
const RESTORED_AT_ONCE: usize = 256;

/// An [`index::Index`] with a lock.
#[derive(Debug)]
pub(crate) struct Index(Mutex<index::Index>);

impl Index {
    pub(crate) fn new(capacity: Capacity) -> Self {
        Self(Mutex::new(index::Index::new(capacity)))
    }

    /// Forgets all objects.
    pub(crate) fn clear(&self, capacity: Capacity) {
        // The memory is returned without the lock.
        drop(std::mem::replace(&mut *self.0.lock(), index::Index::new(capacity)));
    }

    /// Returns the number of objects, the bytes that they use on the disk, and the memory of the index.
    pub(crate) fn usage(&self) -> (u32, u64, usize) {
        let index = self.0.lock();
        (index.len(), index.bytes(), index.memory_bytes())
    }

    pub(crate) fn contains(&self, id: ObjectId) -> bool {
        self.0.lock().contains(id)
    }

    pub(crate) fn mark(&self, id: ObjectId) {
        self.0.lock().mark(id);
    }

    pub(crate) fn is_marked(&self, id: ObjectId) -> bool {
        self.0.lock().is_marked(id)
    }

    /// Records a use of an object. Returns whether it is in the store.
    pub(crate) fn hit(&self, id: ObjectId) -> bool {
        self.0.lock().hit(id)
    }

    /// Records a use, unless another thread has the lock: nearly all uses are counted, and no hit waits.
    pub(crate) fn try_hit(&self, id: ObjectId) {
        if let Some(mut index) = self.0.try_lock() {
            index.hit(id);
        }
    }

    /// Adds an object, or replaces its size. Adds to `evicted` what has to leave: it too, if it alone exceeds the capacity.
    pub(crate) fn insert(&self, id: ObjectId, bytes: u64, evicted: &mut Vec<ObjectId>) {
        if !self.0.lock().insert(id, bytes) {
            evicted.push(id);
        }
        while !self.0.lock().evict(Some(id), evicted) {}
    }

    /// Adds objects of a snapshot, and returns those that have to leave.
    pub(crate) fn restore(&self, saved: &[[u8; SAVED_BYTES]]) -> Vec<ObjectId> {
        let mut evicted = Vec::new();
        for some in saved.chunks(RESTORED_AT_ONCE) {
            let mut index = self.0.lock();
            for object in some {
                index.restore(object);
            }
            drop(index);
            while !self.0.lock().evict(None, &mut evicted) {}
        }
        evicted
    }

    /// As [`index::Index::save`].
    pub(crate) fn save(&self, from: Option<Position>, out: &mut Vec<u8>) -> Option<Position> {
        self.0.lock().save(from, out)
    }

    /// Notes that an object has a file. Returns whether it is in the index.
    pub(crate) fn confirm(&self, id: ObjectId) -> bool {
        self.0.lock().confirm(id)
    }

    /// Removes the objects of a snapshot that have no file.
    pub(crate) fn remove_unconfirmed(&self) {
        let mut position = self.0.lock().remove_unconfirmed(None);
        while position.is_some() {
            position = self.0.lock().remove_unconfirmed(position);
        }
    }

    pub(crate) fn remove(&self, id: ObjectId) -> bool {
        self.0.lock().remove(id)
    }

    /// Changes the capacity in steps: `evict` gets the objects that have to leave in each of them.
    pub(crate) fn resize(&self, capacity: Capacity, evict: impl Fn(Vec<ObjectId>)) {
        loop {
            let mut evicted = Vec::new();
            let is_done = self.0.lock().resize(capacity, &mut evicted);
            evict(evicted);
            if is_done {
                return;
            }
        }
    }
}
