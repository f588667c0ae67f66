//! What a worker has for requests, by a hash of how they are spelled.

/// The sets of entries. Together with their ways, a worker has room for 16,384.
const SETS: usize = 2048;

/// The entries of a set. With 10,000 in the table, one in 50 finds no room; with one way, nearly half would.
const WAYS: usize = 8;

/// A table of fixed size. The first entry of a set that is full leaves for another one.
pub(super) struct Spellings<T>(Vec<Option<Entry<T>>>);

/// The hash is beside the pointer, so that a search reads the memory of one entry only.
struct Entry<T> {
    hash: u64,
    value: Box<T>,
}

impl<T> Spellings<T> {
    /// Creates an empty table, which has no memory until the first insertion.
    pub(super) const fn new() -> Self {
        Self(Vec::new())
    }

    /// Returns the entry with a hash that is the one, or `None`.
    pub(super) fn get_mut(&mut self, hash: u64, is_it: impl Fn(&T) -> bool) -> Option<&mut T> {
        let set = self.0.get_mut(set_of(hash))?.iter_mut();
        let mut values = set.flatten().filter(|entry| entry.hash == hash).map(|entry| &mut *entry.value);
        values.find(|value| is_it(value))
    }

    /// Adds an entry in place of those that `is_replaced`, such as one that is the same, or the first of its set.
    pub(super) fn insert(&mut self, hash: u64, value: T, is_replaced: impl Fn(&T) -> bool) {
        self.0.resize_with(SETS * WAYS, || None);
        let set = &mut self.0[set_of(hash)];
        for slot in &mut *set {
            slot.take_if(|entry| is_replaced(&entry.value));
        }
        let entry = Some(Entry { hash, value: Box::new(value) });
        if let Some(free) = set.iter_mut().find(|slot| slot.is_none()) {
            *free = entry;
        } else {
            set.rotate_left(1);
            set[WAYS - 1] = entry;
        }
    }
}

fn set_of(hash: u64) -> std::ops::Range<usize> {
    let set = usize::try_from(hash % SETS as u64).expect("less than the number of sets");
    set * WAYS..(set + 1) * WAYS
}

#[cfg(test)]
mod tests {
    use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher};

    use super::*;

    #[test]
    fn nearly_all_of_ten_thousand_are_found() {
        let mut table = Spellings::new();
        let hash = |number: u64| BuildHasherDefault::<DefaultHasher>::default().hash_one(number);
        assert!(table.get_mut(0, |_| true).is_none());
        for number in 0..10_000 {
            table.insert(hash(number), number, |_| false);
        }
        let found = |number: &u64| table.get_mut(hash(*number), |found| found == number).is_some();
        assert_eq!((0..10_000).filter(found).count() / 100, 97, "percent");
    }

    #[test]
    fn an_entry_replaces_the_same_one_or_the_first_of_its_set() {
        let mut table = Spellings::new();
        for value in [1, 1, 2, 3, 4, 5, 6, 7, 8] {
            table.insert(7, value, |other| *other == value);
        }
        let mut has = |hash, value| table.get_mut(hash, |found| *found == value).is_some();
        assert!((1..=8).all(|value| has(7, value)));
        assert!(!has(7 + SETS as u64, 1), "the same set, another hash");
        table.insert(7, 9, |_| false);
        let mut has = |value| table.get_mut(7, |found| *found == value).is_some();
        assert!(!has(1), "it was the first");
        assert!((2..=9).all(has));
    }
}
