//! The hash table of the index, by linear hashing (Litwin, "Linear hashing: a new tool for file and table addressing", VLDB 1980).
//!
//! Each entry is in the list of its bucket. With each entry beyond the number of buckets, one more bucket takes its share from one
//! other. So the table never doubles at once, and has four bytes for each entry at any size.
//!
//! The rejected alternative is `hashbrown`: it moves all entries at once when it is full, which takes longer than a request may wait.

use super::chunks::Chunks;

/// The number of no entry.
pub(super) const NONE: u32 = u32::MAX;

/// The entries of a table, by their numbers.
pub(super) trait Entries {
    /// Returns the hash of an entry.
    fn hash(&self, at: u32) -> u32;

    /// Returns the next entry in the bucket.
    fn next(&self, at: u32) -> u32;

    /// Changes the next entry in the bucket.
    fn set_next(&mut self, at: u32, next: u32);
}

/// The first entry of each bucket.
#[derive(Debug, Default)]
pub(super) struct Buckets {
    first: Chunks<u32>,
    count: usize,
}

impl Buckets {
    pub(super) fn memory_bytes(&self) -> usize {
        self.first.memory_bytes()
    }

    /// Finds an entry by its hash and a condition.
    pub(super) fn find<E: Entries>(
        &self,
        entries: &E,
        hash: u32,
        is_it: impl Fn(&E, u32) -> bool,
    ) -> Option<u32> {
        if self.count == 0 {
            return None;
        }
        let mut at = self.first[self.bucket(hash)];
        while at != NONE {
            if is_it(entries, at) {
                return Some(at);
            }
            at = entries.next(at);
        }
        None
    }

    /// Adds an entry.
    pub(super) fn insert(&mut self, entries: &mut impl Entries, at: u32) {
        self.count += 1;
        if self.count > self.first.len() {
            self.split(entries);
        }
        self.push(entries, self.bucket(entries.hash(at)), at);
    }

    /// Removes an entry of the table.
    pub(super) fn remove(&mut self, entries: &mut impl Entries, at: u32) {
        self.count -= 1;
        let (bucket, next) = (self.bucket(entries.hash(at)), entries.next(at));
        let mut before = self.first[bucket];
        if before == at {
            self.first[bucket] = next;
            return;
        }
        while entries.next(before) != at {
            before = entries.next(before);
        }
        entries.set_next(before, next);
    }

    /// Returns the bucket of a hash: as many of the lower bits as name a bucket.
    fn bucket(&self, hash: u32) -> u32 {
        let buckets = number(self.first.len());
        let bits = buckets.next_power_of_two() - 1;
        let bucket = hash & bits;
        if bucket < buckets { bucket } else { bucket & (bits >> 1) }
    }

    /// Adds a bucket, and moves to it the entries of another one that have its number in their hash.
    fn split(&mut self, entries: &mut impl Entries) {
        let added = number(self.first.len());
        self.first.push(NONE);
        let Some(bit) = added.checked_ilog2().map(|exponent| 1 << exponent) else { return };
        let mut at = std::mem::replace(&mut self.first[added ^ bit], NONE);
        while at != NONE {
            let next = entries.next(at);
            let bucket = if entries.hash(at) & bit == 0 { added ^ bit } else { added };
            self.push(entries, bucket, at);
            at = next;
        }
    }

    fn push(&mut self, entries: &mut impl Entries, bucket: u32, at: u32) {
        entries.set_next(at, self.first[bucket]);
        self.first[bucket] = at;
    }
}

fn number(buckets: usize) -> u32 {
    u32::try_from(buckets).expect("entries are limited to 2^31")
}
