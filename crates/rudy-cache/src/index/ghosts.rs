//! The ids of objects that left the small queue not long ago.
//!
//! A ghost has 32 bits of its id. Another object with the same bits, one among thousands of millions, enters the main queue at once: an
//! object is at most kept for longer than it deserves.

use std::collections::VecDeque;

use super::buckets::{Buckets, Entries, NONE};

/// The number of ghosts in a chunk of the ring.
const CHUNK: u32 = 1024;

/// Numbers of ghosts begin again at 2³¹. There are never as many ghosts at once.
const NUMBERS: u32 = (1 << 31) - 1;

/// In place of the next entry: the ghost has returned as an object, and is in no bucket.
const RETURNED: u32 = NONE - 1;

/// A queue of ghosts, with a table.
#[derive(Debug, Default)]
pub(super) struct Ghosts {
    ring: Ring,
    buckets: Buckets,
}

/// The ghosts from the oldest to the newest, by consecutive numbers.
#[derive(Debug, Default)]
struct Ring {
    chunks: VecDeque<Vec<Ghost>>,
    oldest: u32,
    next: u32,
}

#[derive(Debug)]
struct Ghost {
    hash: u32,
    /// The next ghost in the bucket.
    next: u32,
}

impl Ghosts {
    /// Returns the number of ghosts. One that has returned counts until it would have left: its place in the ring is in use.
    pub(super) fn len(&self) -> u32 {
        self.ring.next.wrapping_sub(self.ring.oldest) & NUMBERS
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let ring = self.ring.chunks.len() * CHUNK as usize * size_of::<Ghost>();
        ring + self.ring.chunks.capacity() * size_of::<Vec<Ghost>>() + self.buckets.memory_bytes()
    }

    /// Adds a ghost as the newest one.
    pub(super) fn push(&mut self, hash: u32) {
        let at = self.ring.next;
        if at.is_multiple_of(CHUNK) {
            self.ring.chunks.push_back(Vec::with_capacity(CHUNK as usize));
        }
        let newest = self.ring.chunks.back_mut().expect("the first number is that of a new chunk");
        newest.push(Ghost { hash, next: NONE });
        self.ring.next = (at + 1) & NUMBERS;
        self.buckets.insert(&mut self.ring, at);
    }

    /// Removes the oldest ghost.
    pub(super) fn pop(&mut self) {
        let at = self.ring.oldest;
        if self.ring.get(at).next != RETURNED {
            self.buckets.remove(&mut self.ring, at);
        }
        self.ring.oldest = (at + 1) & NUMBERS;
        if self.ring.oldest.is_multiple_of(CHUNK) {
            self.ring.chunks.pop_front();
        }
    }

    /// Removes a ghost that returns as an object. Returns whether there was one.
    pub(super) fn take(&mut self, hash: u32) -> bool {
        let found = self.buckets.find(&self.ring, hash, |ring, at| ring.get(at).hash == hash);
        if let Some(at) = found {
            self.buckets.remove(&mut self.ring, at);
            self.ring.set_next(at, RETURNED);
        }
        found.is_some()
    }
}

impl Ring {
    /// Returns the chunk of a ghost, and its place there.
    fn place(&self, at: u32) -> (usize, usize) {
        let from_first = at.wrapping_sub(self.oldest - self.oldest % CHUNK) & NUMBERS;
        ((from_first / CHUNK) as usize, (from_first % CHUNK) as usize)
    }

    fn get(&self, at: u32) -> &Ghost {
        let (chunk, place) = self.place(at);
        &self.chunks[chunk][place]
    }
}

impl Entries for Ring {
    fn hash(&self, at: u32) -> u32 {
        self.get(at).hash
    }

    fn next(&self, at: u32) -> u32 {
        self.get(at).next
    }

    fn set_next(&mut self, at: u32, next: u32) {
        let (chunk, place) = self.place(at);
        self.chunks[chunk][place].next = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_begin_again() {
        let first = NUMBERS + 1 - 4 * CHUNK;
        let ring = Ring { oldest: first, next: first, ..Ring::default() };
        let mut ghosts = Ghosts { ring, ..Ghosts::default() };
        for hash in 1000..11_000 {
            ghosts.push(hash);
            if ghosts.len() > 100 {
                ghosts.pop();
            }
            assert!(!ghosts.take(hash - 100), "it has left");
            assert_eq!(ghosts.take(hash - 50), hash >= 1050);
            assert!(!ghosts.take(hash - 50), "it has returned");
        }
        assert!(ghosts.ring.next < 10_000 && ghosts.ring.chunks.len() <= 2);
    }
}
