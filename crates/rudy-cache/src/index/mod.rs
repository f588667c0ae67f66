//! Which objects a store keeps: an index in memory with S3-FIFO eviction.
//!
//! S3-FIFO (Yang et al., "FIFO queues are all you need for cache eviction", SOSP 2023) has three queues. New objects enter a small
//! one, of a tenth of the space. Those that are used more than once there move to the main queue; the others leave the cache, and
//! only their ids remain in a ghost queue. An object whose id is a ghost enters the main queue at once. The main queue gives an
//! object another round for each of its last three uses. So a scan of objects that are used once evicts only such objects, and
//! a hit changes nothing but a counter.
//!
//! The rejected alternative is LRU: each hit moves an object within a list, and one scan empties the cache.

mod id;
mod queue;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

pub use id::{ObjectId, Seed};
use queue::{NONE, Queue, Queues, Slot};

/// The space that a store may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capacity {
    /// Bytes on the disk. An object uses whole blocks of [`BLOCK_BYTES`].
    pub bytes: u64,
    /// The number of objects. It bounds the memory of the index: at most 256 bytes for each. More than 2³⁰ are not possible.
    pub objects: u32,
}

/// The block of most file systems: a file of one byte uses as much of the disk.
pub const BLOCK_BYTES: u64 = 4096;

/// So that live objects and ghosts together have 32-bit numbers.
const OBJECTS_MAX: u32 = 1 << 30;

/// The share of the space for new objects: a tenth, as in the paper.
const SMALL_DIVISOR: u64 = 10;

/// More uses are not counted: an object stays for at most this many rounds after its last use.
const USES_MAX: u8 = 3;

/// The objects of a store, without their content: an id of 128 bits and a size for each.
///
/// ```
/// # use rudy_cache::{Key, Variant, index::{BLOCK_BYTES, Capacity, Index, ObjectId}};
/// let mut index = Index::new(Capacity { bytes: 2 * BLOCK_BYTES, objects: 100 });
/// let ids = [b"/a", b"/b", b"/c"].map(|path| {
///     ObjectId::new(&[0; 16], &Key::new(true, b"example.org", path), &Variant::default())
/// });
/// let mut evicted = Vec::new();
/// for id in ids {
///     assert!(index.insert(id, 100, |id| evicted.push(id)));
/// }
/// assert_eq!(evicted, [ids[0]]);
/// assert!(!index.hit(ids[0]) && index.hit(ids[1]));
/// ```
#[derive(Debug)]
pub struct Index {
    slots: Queues,
    by_id: HashMap<ObjectId, u32, BuildHasherDefault<IdHasher>>,
    /// In blocks.
    space: u64,
    objects: u32,
}

impl Index {
    /// Creates an empty index.
    #[must_use]
    pub fn new(capacity: Capacity) -> Self {
        let mut index = Self { slots: Queues::default(), by_id: HashMap::default(), space: 0, objects: 0 };
        index.resize(capacity, |_| {});
        index
    }

    /// Forgets all objects.
    pub fn clear(&mut self) {
        let Self { space, objects, .. } = *self;
        *self = Self { slots: Queues::default(), by_id: HashMap::default(), space, objects };
    }

    /// Returns the number of objects.
    #[must_use]
    pub fn len(&self) -> u32 {
        self.slots.count(Queue::Small) + self.slots.count(Queue::Main)
    }

    /// Whether there are no objects.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the bytes that the objects use on the disk.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.blocks() * BLOCK_BYTES
    }

    /// Whether the object is in the store.
    #[must_use]
    pub fn contains(&self, id: ObjectId) -> bool {
        self.find(id).is_some()
    }

    /// Sets the mark of an object, for the store's own use: for example that its content was verified. An insertion clears it.
    pub fn mark(&mut self, id: ObjectId) {
        if let Some(at) = self.find(id) {
            self.slots.get_mut(at).is_marked = true;
        }
    }

    /// Whether the object is in the store and has the mark.
    #[must_use]
    pub fn is_marked(&self, id: ObjectId) -> bool {
        self.find(id).is_some_and(|at| self.slots.get(at).is_marked)
    }

    /// Returns the memory of the index, in bytes: at most 256 for each object.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        // A table of the standard library is at most 7/8 full, and has a byte of its own for each place.
        let place = size_of::<(ObjectId, u32)>() + 1;
        self.slots.capacity() * size_of::<Slot>() + self.by_id.capacity() * 8 / 7 * place
    }

    /// Records a use of an object. Returns whether it is in the store.
    pub fn hit(&mut self, id: ObjectId) -> bool {
        let Some(at) = self.find(id) else { return false };
        let slot = self.slots.get_mut(at);
        slot.uses = USES_MAX.min(slot.uses + 1);
        true
    }

    /// Adds an object, or replaces its size, and calls `evicted` for each object that has to leave.
    ///
    /// Returns whether the object is now in the store: it is, unless it alone exceeds the capacity. Then a stored version of it
    /// leaves too.
    pub fn insert(&mut self, id: ObjectId, bytes: u64, mut evicted: impl FnMut(ObjectId)) -> bool {
        let blocks = bytes.div_ceil(BLOCK_BYTES);
        let Some(blocks) = u32::try_from(blocks).ok().filter(|_| blocks <= self.space && self.objects > 0)
        else {
            if self.remove(id) {
                evicted(id);
            }
            return false;
        };
        let at = self.place(id, blocks);
        self.evict(at, &mut evicted);
        true
    }

    /// Removes an object, for example after a purge. Returns whether it was in the store.
    pub fn remove(&mut self, id: ObjectId) -> bool {
        let Some(at) = self.find(id) else { return false };
        self.forget(at);
        true
    }

    /// Changes the capacity, and calls `evicted` for each object that has to leave.
    pub fn resize(&mut self, capacity: Capacity, mut evicted: impl FnMut(ObjectId)) {
        self.space = capacity.bytes / BLOCK_BYTES;
        self.objects = capacity.objects.min(OBJECTS_MAX);
        self.evict(NONE, &mut evicted);
    }

    fn blocks(&self) -> u64 {
        self.slots.blocks(Queue::Small) + self.slots.blocks(Queue::Main)
    }

    fn find(&self, id: ObjectId) -> Option<u32> {
        self.by_id.get(&id).copied().filter(|at| self.slots.get(*at).queue != Queue::Ghost)
    }

    /// Makes an object the newest of its queue, and returns its slot.
    fn place(&mut self, id: ObjectId, blocks: u32) -> u32 {
        let Some(&at) = self.by_id.get(&id) else {
            let at = self.slots.add(id, blocks);
            self.by_id.insert(id, at);
            return at;
        };
        let queue = self.slots.get(at).queue;
        self.slots.unlink(at);
        (self.slots.get_mut(at).blocks, self.slots.get_mut(at).is_marked) = (blocks, false);
        self.slots.push(at, if queue == Queue::Ghost { Queue::Main } else { queue });
        at
    }

    /// Evicts objects until the others fit. The new object is `protected`: it would be the first to leave if it is larger than
    /// the small queue.
    fn evict(&mut self, protected: u32, evicted: &mut impl FnMut(ObjectId)) {
        while self.blocks() > self.space || self.len() > self.objects {
            let own = (protected != NONE).then(|| self.slots.get(protected).queue);
            let others = |queue| self.slots.count(queue) - u32::from(own == Some(queue));
            let is_small_full = self.slots.blocks(Queue::Small) > self.space / SMALL_DIVISOR;
            if others(Queue::Small) > 0 && (is_small_full || others(Queue::Main) == 0) {
                self.advance_small(evicted);
            } else {
                self.advance_main(protected, evicted);
            }
        }
        while self.slots.count(Queue::Ghost) > self.len() {
            self.forget(self.slots.oldest(Queue::Ghost));
        }
    }

    /// Moves the oldest object of the small queue to the main queue, if it was used more than once; evicts it otherwise.
    fn advance_small(&mut self, evicted: &mut impl FnMut(ObjectId)) {
        let at = self.slots.oldest(Queue::Small);
        let Slot { id, uses, .. } = *self.slots.get(at);
        self.slots.unlink(at);
        self.slots.get_mut(at).uses = 0;
        if uses > 1 {
            self.slots.push(at, Queue::Main);
        } else {
            self.slots.push(at, Queue::Ghost);
            evicted(id);
        }
    }

    /// Gives the oldest object of the main queue another round, if it was used; evicts it otherwise.
    fn advance_main(&mut self, protected: u32, evicted: &mut impl FnMut(ObjectId)) {
        let at = self.slots.oldest(Queue::Main);
        let Slot { id, uses, .. } = *self.slots.get(at);
        if uses == 0 && at != protected {
            self.forget(at);
            evicted(id);
        } else {
            self.slots.unlink(at);
            self.slots.get_mut(at).uses = uses.saturating_sub(1);
            self.slots.push(at, Queue::Main);
        }
    }

    /// Removes a slot and its id.
    fn forget(&mut self, at: u32) {
        self.by_id.remove(&self.slots.get(at).id);
        self.slots.remove(at);
    }
}

/// The hash of an id, which is a hash already.
#[derive(Debug, Default)]
struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("an id is hashed as one number");
    }
}
