//! The objects of the index: two queues as linked lists through one table of slots, so that an object moves between them and leaves
//! them in constant time, and without memory of its own for each.

use super::buckets::{Buckets, Entries, NONE};
use super::chunks::Chunks;
use super::id::ObjectId;

/// An object: 32 bytes.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) id: ObjectId,
    /// The neighbours in the queue.
    newer: u32,
    older: u32,
    /// The next slot in the bucket, or the next free one.
    next: u32,
    pub(super) state: State,
}

/// The size of an object and what the index knows about it, in 32 bits.
///
/// ```text
/// 0   size in blocks
/// 27  queue
/// 28  uses
/// 30  mark
/// 31  whether it is unconfirmed
/// ```
#[derive(Debug, Clone, Copy)]
pub(super) struct State(u32);

/// The limit of the size of an object: 512 GiB.
pub(super) const BLOCKS_MAX: u32 = (1 << 27) - 1;

const QUEUE: u32 = 1 << 27;
const USES: u32 = 3 << 28;
const MARK: u32 = 1 << 30;
const UNCONFIRMED: u32 = 1 << 31;

/// More uses are not counted: an object stays for at most this many rounds after its last use.
pub const USES_MAX: u8 = 3;

impl State {
    pub(super) fn new(queue: Queue, blocks: u32) -> Self {
        Self(blocks | if queue == Queue::Main { QUEUE } else { 0 })
    }

    /// Returns the state from [`State::saved`], unconfirmed.
    pub(super) fn restored(saved: u32) -> Self {
        Self(saved & !MARK | UNCONFIRMED)
    }

    pub(super) fn saved(self) -> u32 {
        self.0 & !(MARK | UNCONFIRMED)
    }

    pub(super) fn blocks(self) -> u32 {
        self.0 & BLOCKS_MAX
    }

    pub(super) fn queue(self) -> Queue {
        if self.0 & QUEUE == 0 { Queue::Small } else { Queue::Main }
    }

    pub(super) fn uses(self) -> u8 {
        (self.0 >> 28).to_le_bytes()[0] & USES_MAX
    }

    pub(super) fn set_uses(&mut self, uses: u8) {
        self.0 = self.0 & !USES | u32::from(uses.min(USES_MAX)) << 28;
    }

    pub(super) fn is_marked(self) -> bool {
        self.0 & MARK != 0
    }

    pub(super) fn mark(&mut self) {
        self.0 |= MARK;
    }

    pub(super) fn is_confirmed(self) -> bool {
        self.0 & UNCONFIRMED == 0
    }

    pub(super) fn confirm(&mut self) {
        self.0 &= !UNCONFIRMED;
    }

    fn set_queue(&mut self, queue: Queue) {
        self.0 = self.0 & !QUEUE | Self::new(queue, 0).0;
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Queue {
    /// New objects.
    Small,
    /// Objects that were used again.
    Main,
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

/// All slots, their table, and the ends of the queues.
#[derive(Debug)]
pub(super) struct Queues {
    slots: Chunks<Slot>,
    buckets: Buckets,
    free: u32,
    ends: [Ends; 2],
}

impl Default for Queues {
    fn default() -> Self {
        Self { slots: Chunks::default(), buckets: Buckets::default(), free: NONE, ends: Default::default() }
    }
}

impl Queues {
    pub(super) fn find(&self, id: ObjectId) -> Option<u32> {
        self.buckets.find(&self.slots, id.table_hash(), |slots, at| slots[at].id == id)
    }

    pub(super) fn get(&self, at: u32) -> &Slot {
        &self.slots[at]
    }

    pub(super) fn state_mut(&mut self, at: u32) -> &mut State {
        &mut self.slots[at].state
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

    /// Returns the next object of the queue.
    pub(super) fn newer(&self, at: u32) -> u32 {
        self.slots[at].newer
    }

    /// Returns the number of slots, with those that are free.
    pub(super) fn slots(&self) -> u32 {
        u32::try_from(self.slots.len()).expect("objects are limited to 2^30")
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.slots.memory_bytes() + self.buckets.memory_bytes()
    }

    /// Adds an object as the newest of its queue.
    pub(super) fn add(&mut self, id: ObjectId, state: State) {
        let slot = Slot { id, newer: NONE, older: NONE, next: NONE, state };
        let at = self.free;
        let at = if at == NONE {
            self.slots.push(slot);
            u32::try_from(self.slots.len() - 1).expect("objects are limited to 2^30")
        } else {
            self.free = self.slots[at].next;
            self.slots[at] = slot;
            at
        };
        self.buckets.insert(&mut self.slots, at);
        self.push(at);
    }

    /// Removes an object, and makes its slot free.
    pub(super) fn remove(&mut self, at: u32) {
        self.unlink(at);
        self.buckets.remove(&mut self.slots, at);
        self.slots[at].next = self.free;
        self.slots[at].state.confirm();
        self.free = at;
    }

    /// Makes an object the newest of a queue, with another size, and without its mark.
    pub(super) fn renew(&mut self, at: u32, queue: Queue, blocks: u32) {
        self.unlink(at);
        let state = &mut self.slots[at].state;
        let uses = state.uses();
        *state = State::new(queue, blocks);
        state.set_uses(uses);
        self.push(at);
    }

    /// Makes an object the newest of a queue, with another number of uses.
    pub(super) fn move_to(&mut self, at: u32, queue: Queue, uses: u8) {
        self.unlink(at);
        let state = &mut self.slots[at].state;
        state.set_queue(queue);
        state.set_uses(uses);
        self.push(at);
    }

    /// Makes an unlinked slot the newest of its queue.
    fn push(&mut self, at: u32) {
        let state = self.slots[at].state;
        let ends = &mut self.ends[state.queue() as usize];
        let newest = std::mem::replace(&mut ends.newest, at);
        if newest == NONE {
            ends.oldest = at;
        } else {
            self.slots[newest].newer = at;
        }
        ends.count += 1;
        ends.blocks += u64::from(state.blocks());
        (self.slots[at].newer, self.slots[at].older) = (NONE, newest);
    }

    /// Takes a slot out of its queue.
    fn unlink(&mut self, at: u32) {
        let Slot { newer, older, state, .. } = self.slots[at];
        let ends = &mut self.ends[state.queue() as usize];
        if newer == NONE {
            ends.newest = older;
        } else {
            self.slots[newer].older = older;
        }
        if older == NONE {
            ends.oldest = newer;
        } else {
            self.slots[older].newer = newer;
        }
        ends.count -= 1;
        ends.blocks -= u64::from(state.blocks());
    }
}

impl Entries for Chunks<Slot> {
    fn hash(&self, at: u32) -> u32 {
        self[at].id.table_hash()
    }

    fn next(&self, at: u32) -> u32 {
        self[at].next
    }

    fn set_next(&mut self, at: u32, next: u32) {
        self[at].next = next;
    }
}
