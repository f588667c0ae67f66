//! Finds entries of the dynamic table by hashes.

use std::collections::VecDeque;

/// The hashes of the entries of a table, the newest last.
#[derive(Debug, Default)]
pub(super) struct HashIndex {
    /// The hashes of names.
    names: VecDeque<u32>,
    /// The hashes of names with values. In a separate queue, because most searches compare only these.
    fields: VecDeque<u32>,
}

/// The hashes of one field.
#[derive(Debug, Clone, Copy)]
pub(super) struct Hashes {
    pub(super) name: u32,
    pub(super) field: u32,
}

impl Hashes {
    pub(super) fn new(name: &[u8], value: &[u8]) -> Self {
        let name = hash(0, name);
        Self { name: top(name), field: top(hash(name, value)) }
    }
}

/// Returns the hash of a name without a value.
pub(super) fn name_hash(name: &[u8]) -> u32 {
    top(hash(0, name))
}

impl HashIndex {
    /// Returns the index of the newest entry with this hash of its name and value for which `is_equal` is true. The newest
    /// entry has the index 0.
    pub(super) fn find_field(&self, hash: u32, is_equal: impl Fn(usize) -> bool) -> Option<usize> {
        find(&self.fields, hash, is_equal)
    }

    /// Returns the index of the newest entry with this hash of its name for which `is_equal` is true.
    pub(super) fn find_name(&self, hash: u32, is_equal: impl Fn(usize) -> bool) -> Option<usize> {
        find(&self.names, hash, is_equal)
    }

    pub(super) fn insert(&mut self, hashes: Hashes) {
        self.names.push_back(hashes.name);
        self.fields.push_back(hashes.field);
    }

    /// Removes the oldest entries until `length` are left.
    pub(super) fn evict_to(&mut self, length: usize) {
        if length == 0 {
            *self = Self::default();
        }
        for hashes in [&mut self.names, &mut self.fields] {
            hashes.drain(..hashes.len().saturating_sub(length));
        }
    }

    /// Returns the heap memory, in bytes.
    pub(super) fn heap_bytes(&self) -> usize {
        (self.names.capacity() + self.fields.capacity()) * size_of::<u32>()
    }
}

/// Compares whole blocks without an early exit, which the compiler vectorizes.
fn find(hashes: &VecDeque<u32>, hash: u32, is_equal: impl Fn(usize) -> bool) -> Option<usize> {
    let in_block = |block: &[u32]| block.iter().map(|other| u32::from(*other == hash)).sum::<u32>() > 0;
    let (older, newer) = hashes.as_slices();
    // The number of entries that are newer than the block.
    let mut newest = 0;
    for slice in [newer, older] {
        let (rest, blocks) = slice.as_rchunks::<8>();
        let blocks = blocks.iter().rev().map(<[u32; 8]>::as_slice).chain([rest]);
        for block in blocks {
            if in_block(block) {
                let equal = block.iter().rev().zip(newest..).filter(|(other, _)| **other == hash);
                if let Some((_, index)) = equal.into_iter().find(|(_, index)| is_equal(*index)) {
                    return Some(index);
                }
            }
            newest += block.len();
        }
    }
    None
}

/// Continues a hash with `bytes`. Equal hashes only cost more comparisons, at most one for each entry of a table. A secret
/// seed is therefore not needed.
#[inline]
fn hash(seed: u64, bytes: &[u8]) -> u64 {
    // The golden ratio: an odd number without a pattern.
    let mix = |hash: u64, word: u64| (hash.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let seed = mix(seed, bytes.len() as u64);
    if let Some(last) = bytes.last_chunk() {
        // The last word may overlap the one before it.
        let words = bytes[..bytes.len() - 1].as_chunks().0.iter().chain([last]);
        return words.fold(seed, |hash, word| mix(hash, u64::from_le_bytes(*word)));
    }
    let word = if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        u64::from(u32::from_le_bytes(*first)) << 32 | u64::from(u32::from_le_bytes(*last))
    } else {
        bytes.iter().fold(0, |word, byte| word << 8 | u64::from(*byte))
    };
    mix(seed, word)
}

/// Returns the bits of a hash that depend on all of its input.
fn top(hash: u64) -> u32 {
    (hash >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_newest_equal_entry_with_the_hash() {
        for evicted in 0..40_u32 {
            let mut index = HashIndex::default();
            for number in 0..100 {
                index.insert(Hashes { name: number % 10, field: number });
                index.evict_to(100 - evicted as usize);
            }
            let length = index.fields.len();
            assert_eq!(length, 100 - evicted as usize);
            for (age, number) in (0..length).zip((0..100).rev()) {
                assert_eq!(index.find_field(number, |_| true), Some(age));
                assert_eq!(index.find_field(number, |index| index != age), None);
                assert_eq!(index.find_name(number % 10, |index| index >= age), Some(age));
            }
            assert_eq!(index.find_field(100, |_| true), None);
            index.evict_to(0);
            assert_eq!((index.heap_bytes(), index.find_field(99, |_| true)), (0, None));
        }
    }

    #[test]
    fn hashes_depend_on_every_byte_and_on_the_border_of_name_and_value() {
        let text: Vec<u8> = (0..40).collect();
        let mut hashes = Vec::new();
        for length in 0..text.len() {
            hashes
                .extend((0..=length).map(|border| Hashes::new(&text[..border], &text[border..length]).field));
            for changed in 0..length {
                let mut other = text[..length].to_vec();
                other[changed] ^= 0x80;
                hashes.push(Hashes::new(&other, b"").field);
            }
        }
        let count = hashes.len();
        hashes.sort_unstable();
        hashes.dedup();
        assert_eq!(hashes.len(), count);
    }
}
