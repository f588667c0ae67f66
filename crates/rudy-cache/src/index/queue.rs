//! The queues of the index: three linked lists through one table of slots, so that an object moves between them and leaves them in
//! constant time, and without memory of its own for each.

use super::id::ObjectId;

/// The number of no slot.
pub(super) const NONE: u32 = u32::MAX;

/// An object, or the ghost of one.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) id: ObjectId,
    /// The size in blocks. Zero for a ghost.
    pub(super) blocks: u32,
    /// The neighbours in the queue, or the next free slot.
    newer: u32,
    older: u32,
    pub(super) queue: Queue,
    pub(super) uses: u8,
    pub(super) is_marked: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Queue {
    /// New objects.
    Small,
    /// Objects that were used again.
    Main,
    /// Ids of objects that left the small queue.
    Ghost,
}

#[derive(Debug)]
struct Ends {
    newest: u32,
    oldest: u32,
    count: u32,
    blocks: u64,
}

impl Default for Ends {
    fn default() -> Self {
        Self { newest: NONE, oldest: NONE, count: 0, blocks: 0 }
    }
}

/// All slots and the ends of the queues.
#[derive(Debug)]
pub(super) struct Queues {
    slots: Vec<Slot>,
    free: u32,
    ends: [Ends; 3],
}

impl Default for Queues {
    fn default() -> Self {
        Self { slots: Vec::new(), free: NONE, ends: Default::default() }
    }
}

impl Queues {
    pub(super) fn get(&self, at: u32) -> &Slot {
        &self.slots[at as usize]
    }

    pub(super) fn get_mut(&mut self, at: u32) -> &mut Slot {
        &mut self.slots[at as usize]
    }

    pub(super) fn count(&self, queue: Queue) -> u32 {
        self.ends[queue as usize].count
    }

    pub(super) fn blocks(&self, queue: Queue) -> u64 {
        self.ends[queue as usize].blocks
    }

    pub(super) fn oldest(&self, queue: Queue) -> u32 {
        self.ends[queue as usize].oldest
    }

    /// Returns the number of slots that the memory has space for.
    pub(super) fn capacity(&self) -> usize {
        self.slots.capacity()
    }

    /// Adds a new object to the small queue, and returns its slot.
    pub(super) fn add(&mut self, id: ObjectId, blocks: u32) -> u32 {
        let slot =
            Slot { id, blocks, newer: NONE, older: NONE, queue: Queue::Small, uses: 0, is_marked: false };
        let at = if self.free == NONE {
            self.slots.push(slot);
            u32::try_from(self.slots.len() - 1).expect("objects and ghosts are limited to 2^31")
        } else {
            let at = self.free;
            self.free = self.get(at).older;
            *self.get_mut(at) = slot;
            at
        };
        self.push(at, Queue::Small);
        at
    }

    /// Removes a slot, and makes it free.
    pub(super) fn remove(&mut self, at: u32) {
        self.unlink(at);
        self.get_mut(at).older = self.free;
        self.free = at;
    }

    /// Makes an unlinked slot the newest of a queue.
    pub(super) fn push(&mut self, at: u32, queue: Queue) {
        let newest = self.ends[queue as usize].newest;
        let slot = self.get_mut(at);
        (slot.newer, slot.older, slot.queue) = (NONE, newest, queue);
        if queue == Queue::Ghost {
            slot.blocks = 0;
        }
        let blocks = slot.blocks;
        if newest != NONE {
            self.get_mut(newest).newer = at;
        }
        let ends = &mut self.ends[queue as usize];
        ends.newest = at;
        if ends.oldest == NONE {
            ends.oldest = at;
        }
        ends.count += 1;
        ends.blocks += u64::from(blocks);
    }

    /// Takes a slot out of its queue.
    pub(super) fn unlink(&mut self, at: u32) {
        let Slot { newer, older, queue, blocks, .. } = *self.get(at);
        if newer != NONE {
            self.get_mut(newer).older = older;
        }
        if older != NONE {
            self.get_mut(older).newer = newer;
        }
        let ends = &mut self.ends[queue as usize];
        if ends.newest == at {
            ends.newest = older;
        }
        if ends.oldest == at {
            ends.oldest = newer;
        }
        ends.count -= 1;
        ends.blocks -= u64::from(blocks);
    }
}
