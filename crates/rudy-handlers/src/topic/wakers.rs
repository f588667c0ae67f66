//! The wakers of a topic's subscribers, stored compactly: 16 bytes each.

use std::task::Waker;

/// The number of wakers that are taken under one lock, so that nothing else waits long for it.
pub(super) const WAKE_BATCH: usize = 64;

/// A slot for the waker of each subscriber.
#[derive(Debug, Default)]
pub(super) struct Wakers {
    slots: Vec<Option<Waker>>,
    /// Unused slots.
    free: Vec<u32>,
}

impl Wakers {
    /// Returns the number of slots in use.
    pub(super) fn in_use(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub(super) fn allocate(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            // The number of descriptors bounds the subscribers, and is below 2^31.
            u32::try_from(self.slots.len() - 1).unwrap_or(u32::MAX)
        })
    }

    pub(super) fn release(&mut self, slot: u32) {
        self.slots[slot as usize] = None;
        self.free.push(slot);
        if self.in_use() == 0 {
            // Free the memory that many subscribers used.
            *self = Self::default();
        }
    }

    /// Stores the waker for the next message.
    pub(super) fn set(&mut self, slot: u32, waker: &Waker) {
        match &mut self.slots[slot as usize] {
            Some(known) => known.clone_from(waker),
            empty => *empty = Some(waker.clone()),
        }
    }

    /// Moves at most [`WAKE_BATCH`] wakers, starting at slot `from`, into `batch`. Returns the next slot.
    pub(super) fn take(&mut self, from: usize, batch: &mut Vec<Waker>) -> usize {
        let mut next = from;
        while next < self.slots.len() && batch.len() < WAKE_BATCH {
            batch.extend(self.slots[next].take());
            next += 1;
        }
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_waker_occupies_sixteen_bytes() {
        assert_eq!(size_of::<Option<Waker>>(), 16);
    }

    #[test]
    fn slots_are_reused_and_each_waker_is_taken_once() {
        let mut wakers = Wakers::default();
        let slots: Vec<_> = (0..100).map(|_| wakers.allocate()).collect();
        wakers.release(slots[3]);
        assert_eq!((wakers.allocate(), wakers.in_use()), (slots[3], 100));
        for slot in &slots {
            wakers.set(*slot, Waker::noop());
        }
        let mut batch = Vec::new();
        assert_eq!(wakers.take(0, &mut batch), WAKE_BATCH);
        assert_eq!(batch.len(), WAKE_BATCH);
        batch.clear();
        assert_eq!(wakers.take(WAKE_BATCH, &mut batch), 100);
        assert_eq!((batch.len(), wakers.take(0, &mut Vec::new())), (100 - WAKE_BATCH, 100));
        for slot in &slots {
            wakers.release(*slot);
        }
        assert_eq!((wakers.in_use(), wakers.slots.capacity()), (0, 0));
    }
}
