//! The wakers of those who wait, kept as compactly as they can be: sixteen bytes each.

use std::task::Waker;

/// So many are woken between two looks at the list, so that nobody waits long for it meanwhile.
pub(super) const BATCH: usize = 64;

/// A place for the waker of each listener.
#[derive(Debug, Default)]
pub(super) struct Wakers {
    slots: Vec<Option<Waker>>,
    /// Slots that nobody has.
    free: Vec<u32>,
}

impl Wakers {
    /// How many have a slot.
    pub(super) fn in_use(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub(super) fn take_slot(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            // Listeners are bounded by descriptors, of which there are fewer than 2^31.
            u32::try_from(self.slots.len() - 1).unwrap_or(u32::MAX)
        })
    }

    pub(super) fn give_back(&mut self, slot: u32) {
        self.slots[slot as usize] = None;
        self.free.push(slot);
        if self.in_use() == 0 {
            // What a crowd took is not kept when it has gone.
            *self = Self::default();
        }
    }

    /// Has `waker` woken at the next message.
    pub(super) fn set(&mut self, slot: u32, waker: &Waker) {
        match &mut self.slots[slot as usize] {
            Some(known) => known.clone_from(waker),
            empty => *empty = Some(waker.clone()),
        }
    }

    /// Moves at most [`BATCH`] wakers into `batch`, from the slot `from` on. Returns where to go on.
    pub(super) fn take(&mut self, from: usize, batch: &mut Vec<Waker>) -> usize {
        let mut next = from;
        while next < self.slots.len() && batch.len() < BATCH {
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
    fn a_waker_takes_sixteen_bytes() {
        assert_eq!(size_of::<Option<Waker>>(), 16);
    }

    #[test]
    fn slots_are_taken_again_and_each_waker_is_taken_once() {
        let mut wakers = Wakers::default();
        let slots: Vec<_> = (0..100).map(|_| wakers.take_slot()).collect();
        wakers.give_back(slots[3]);
        assert_eq!((wakers.take_slot(), wakers.in_use()), (slots[3], 100));
        for slot in &slots {
            wakers.set(*slot, Waker::noop());
        }
        let mut batch = Vec::new();
        assert_eq!(wakers.take(0, &mut batch), BATCH);
        assert_eq!(batch.len(), BATCH);
        batch.clear();
        assert_eq!(wakers.take(BATCH, &mut batch), 100);
        assert_eq!((batch.len(), wakers.take(0, &mut Vec::new())), (100 - BATCH, 100));
        for slot in &slots {
            wakers.give_back(*slot);
        }
        assert_eq!((wakers.in_use(), wakers.slots.capacity()), (0, 0));
    }
}
