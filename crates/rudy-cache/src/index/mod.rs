//! Which objects a store keeps: an index in memory with S3-FIFO eviction.
//!
//! S3-FIFO (Yang et al., "FIFO queues are all you need for cache eviction", SOSP 2023) has three queues. New objects enter a small
//! one, of a tenth of the space. Those that are used more than once there move to the main queue; the others leave the cache, and
//! only their ids remain in a ghost queue. An object whose id is a ghost enters the main queue at once. The main queue gives an
//! object another round for each of its last three uses. So a scan of objects that are used once evicts only such objects, and
//! a hit changes nothing but a counter.
//!
//! No call moves more than a few hundred objects, however many there are: its tables grow in small steps, and evictions are calls of
//! their own ([`Index::evict`]). So threads can share an index by a lock, and none waits for long.
//!
//! The rejected alternative is LRU: each hit moves an object within a list, and one scan empties the cache.

mod buckets;
mod chunks;
mod ghosts;
mod id;
mod queue;
mod saved;
#[cfg(test)]
mod tests;

use ghosts::Ghosts;
pub use id::{ObjectId, Seed};
pub use queue::USES_MAX;
use queue::{BLOCKS_MAX, Queue, Queues, State};
pub use saved::{Position, SAVED_BYTES};

/// The space that a store may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capacity {
    /// Bytes on the disk. An object uses whole blocks of [`BLOCK_BYTES`].
    pub bytes: u64,
    /// The number of objects. It bounds the memory of the index: at most 50 bytes for each. More than 2³⁰ are not possible.
    pub objects: u32,
}

/// The block of most file systems: a file of one byte uses as much of the disk.
pub const BLOCK_BYTES: u64 = 4096;

const OBJECTS_MAX: u32 = 1 << 30;

/// The share of the space for new objects: a tenth, as in the paper.
const SMALL_DIVISOR: u64 = 10;

/// The number of objects that one call of [`Index::evict`] moves or evicts. It takes about a tenth of a millisecond.
const MOVES_MAX: u32 = 512;

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
///     assert!(index.insert(id, 100));
///     while !index.evict(Some(id), &mut evicted) {}
/// }
/// assert_eq!(evicted, [ids[0]]);
/// assert!(!index.hit(ids[0]) && index.hit(ids[1]));
/// ```
#[derive(Debug)]
pub struct Index {
    queues: Queues,
    ghosts: Ghosts,
    /// In blocks.
    space: u64,
    objects: u32,
    /// Eighths of rounds of the main queue, and the moves in the current one.
    eighths: u64,
    moves: u32,
}

impl Index {
    /// Creates an empty index.
    #[must_use]
    pub fn new(capacity: Capacity) -> Self {
        let (space, objects) = limits(capacity);
        Self { queues: Queues::default(), ghosts: Ghosts::default(), space, objects, eighths: 0, moves: 0 }
    }

    /// Returns the number of objects.
    #[must_use]
    pub fn len(&self) -> u32 {
        self.queues.count(Queue::Small) + self.queues.count(Queue::Main)
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
        self.queues.find(id).is_some()
    }

    /// Sets the mark of an object, for the store's own use: for example that its content was verified. An insertion clears it.
    pub fn mark(&mut self, id: ObjectId) {
        if let Some(at) = self.queues.find(id) {
            self.queues.state_mut(at).mark();
        }
    }

    /// Whether the object is in the store and has the mark.
    #[must_use]
    pub fn is_marked(&self, id: ObjectId) -> bool {
        self.queues.find(id).is_some_and(|at| self.queues.get(at).state.is_marked())
    }

    /// Returns the memory of the index, in bytes: at most 50 for each object, if there are thousands.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.queues.memory_bytes() + self.ghosts.memory_bytes()
    }

    /// Records a use of an object. Returns whether it is in the store.
    pub fn hit(&mut self, id: ObjectId) -> bool {
        let Some(at) = self.queues.find(id) else { return false };
        let state = self.queues.state_mut(at);
        state.set_uses(state.uses() + 1);
        true
    }

    /// Returns how often an eighth of the main queue has moved. Uses that were counted remain until this number changes several times, so
    /// more than [`USES_MAX`] calls of [`Index::hit`] for an object with the same number have no effect.
    #[must_use]
    pub fn eighths(&self) -> u64 {
        self.eighths
    }

    /// Adds an object, or replaces its size. Others have to leave then until there is room: call [`Index::evict`].
    ///
    /// Returns whether the object is now in the store: it is, unless it alone exceeds the capacity. Then a stored version of it
    /// leaves.
    pub fn insert(&mut self, id: ObjectId, bytes: u64) -> bool {
        let blocks = u32::try_from(bytes.div_ceil(BLOCK_BYTES)).unwrap_or(u32::MAX);
        if blocks > BLOCKS_MAX || u64::from(blocks) > self.space || self.objects == 0 {
            self.remove(id);
            return false;
        }
        if let Some(at) = self.queues.find(id) {
            let queue = self.queues.get(at).state.queue();
            self.queues.renew(at, queue, blocks);
        } else {
            let was_here = self.ghosts.take(id.table_hash());
            self.queues.add(id, State::new(if was_here { Queue::Main } else { Queue::Small }, blocks));
        }
        true
    }

    /// Evicts objects until the others fit, and adds them to `evicted`. An object that was just inserted is `protected`: it would be the
    /// first to leave if it is larger than the small queue.
    ///
    /// Returns whether they fit. If not, call it again: one call evicts at least one, and does not take long.
    pub fn evict(&mut self, protected: Option<ObjectId>, evicted: &mut Vec<ObjectId>) -> bool {
        let protected = protected.and_then(|id| self.queues.find(id));
        let before = evicted.len();
        for moves in 0..MOVES_MAX {
            if !self.is_over() {
                return true;
            }
            // If all that could leave were used, some leave nevertheless.
            let is_long = moves >= MOVES_MAX - 2 && evicted.len() == before;
            let own = protected.map(|at| self.queues.get(at).state.queue());
            let others = |queue| self.queues.count(queue) - u32::from(own == Some(queue));
            let is_small = others(Queue::Small) > 0 && (self.is_small_full() || others(Queue::Main) == 0);
            evicted.extend(if is_small {
                self.advance_small(is_long)
            } else {
                self.advance_main(protected, is_long)
            });
        }
        !self.is_over()
    }

    /// Removes an object, for example after a purge. Returns whether it was in the store.
    pub fn remove(&mut self, id: ObjectId) -> bool {
        let Some(at) = self.queues.find(id) else { return false };
        self.queues.remove(at);
        self.trim_ghosts();
        true
    }

    /// Changes the capacity, and adds the objects that have to leave to `evicted`.
    ///
    /// Returns whether it is done. If not, call it again: the space shrinks in steps, so that an insertion has to evict few objects
    /// meanwhile.
    pub fn resize(&mut self, capacity: Capacity, evicted: &mut Vec<ObjectId>) -> bool {
        let (space, objects) = limits(capacity);
        self.space = space.max(self.blocks().saturating_sub(MOVES_MAX.into()));
        self.objects = objects.max(self.len().saturating_sub(MOVES_MAX));
        self.evict(None, evicted) && (self.space, self.objects) == (space, objects)
    }

    fn blocks(&self) -> u64 {
        self.queues.blocks(Queue::Small) + self.queues.blocks(Queue::Main)
    }

    fn is_over(&self) -> bool {
        self.blocks() > self.space || self.len() > self.objects
    }

    /// Whether the small queue has more than its share of the space, or of the number of objects: either may be what is scarce.
    fn is_small_full(&self) -> bool {
        self.queues.blocks(Queue::Small) > self.space / SMALL_DIVISOR
            || u64::from(self.queues.count(Queue::Small)) > u64::from(self.objects) / SMALL_DIVISOR
    }

    /// Moves the oldest object of the small queue to the main queue, if it was used more than once; evicts it otherwise.
    fn advance_small(&mut self, is_long: bool) -> Option<ObjectId> {
        let at = self.queues.oldest(Queue::Small);
        let (id, uses) = self.object(at);
        if uses > 1 && !is_long {
            self.count_move();
            self.queues.move_to(at, Queue::Main, 0);
            return None;
        }
        self.queues.remove(at);
        self.ghosts.push(id.table_hash());
        self.trim_ghosts();
        Some(id)
    }

    /// Gives the oldest object of the main queue another round, if it was used; evicts it otherwise.
    fn advance_main(&mut self, protected: Option<u32>, is_long: bool) -> Option<ObjectId> {
        self.count_move();
        let at = self.queues.oldest(Queue::Main);
        let (id, uses) = self.object(at);
        if Some(at) == protected || uses > 0 && !is_long {
            self.queues.move_to(at, Queue::Main, uses.saturating_sub(1));
            return None;
        }
        self.queues.remove(at);
        self.trim_ghosts();
        Some(id)
    }

    /// Counts an object that enters the main queue from the small one, or that was its oldest.
    fn count_move(&mut self) {
        self.moves += 1;
        if 8 * u64::from(self.moves) >= self.queues.count(Queue::Main).into() {
            (self.eighths, self.moves) = (self.eighths + 1, 0);
        }
    }

    fn object(&self, at: u32) -> (ObjectId, u8) {
        let slot = self.queues.get(at);
        (slot.id, slot.state.uses())
    }

    /// Removes ghosts until there are no more than objects: two after an eviction.
    fn trim_ghosts(&mut self) {
        while self.ghosts.len() > self.len() {
            self.ghosts.pop();
        }
    }
}

/// Returns the space in blocks, and the number of objects.
fn limits(capacity: Capacity) -> (u64, u32) {
    (capacity.bytes / BLOCK_BYTES, capacity.objects.min(OBJECTS_MAX))
}
