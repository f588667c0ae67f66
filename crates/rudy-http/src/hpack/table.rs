//! The dynamic table (RFC 7541 §2.3.2 and §4).

use std::collections::VecDeque;

/// The size that an entry counts in addition to its name and value (§4.1).
pub(crate) const ENTRY_BYTES: usize = 32;

/// The smallest buffer for names and values: the fields of a small response.
const TEXT_BYTES_MIN: usize = 128;

/// Fields that later blocks can refer to.
///
/// The names and values are in one buffer, in the order of their insertion. Evicted ones stay at its start until the space
/// is needed: a ring buffer would need less copying, but would split some names and values. The buffer grows by a quarter,
/// up to the maximum size, and an empty table has no heap memory.
#[derive(Debug)]
pub(crate) struct Table {
    /// Names and values, those of the oldest entry first.
    text: Vec<u8>,
    /// The position of the start of `text` in all names and values so far, modulo 2^32.
    text_start: u32,
    /// From the oldest entry to the newest.
    entries: VecDeque<Entry>,
    /// The size of all entries (§4.1).
    size: usize,
    max_size: usize,
}

#[derive(Debug)]
struct Entry {
    /// The position of the name in all names and values so far, modulo 2^32. The value follows it.
    start: u32,
    name_bytes: u32,
}

impl Table {
    /// `max_size` is in bytes, by the rules of §4.1.
    pub(crate) fn new(max_size: u32) -> Self {
        Self {
            text: Vec::new(),
            text_start: 0,
            entries: VecDeque::new(),
            size: 0,
            max_size: max_size as usize,
        }
    }

    pub(crate) fn max_size(&self) -> usize {
        self.max_size
    }

    /// Returns the number of entries.
    pub(crate) fn length(&self) -> usize {
        self.entries.len()
    }

    /// Changes the maximum size, and evicts the entries above it (§4.3).
    pub(crate) fn set_max_size(&mut self, max_size: usize) {
        self.max_size = max_size;
        self.evict_to(max_size);
        if self.text.capacity() > max_size.max(TEXT_BYTES_MIN) {
            self.compact();
            self.text.shrink_to_fit();
            self.entries.shrink_to_fit();
        }
    }

    /// Adds an entry, and evicts the oldest ones that do not fit beside it. An entry that is larger than the table empties
    /// the table (§4.4).
    pub(crate) fn insert(&mut self, name: &[u8], value: &[u8]) {
        let text_bytes = name.len() + value.len();
        let Some(space) = self.max_size.checked_sub(text_bytes + ENTRY_BYTES) else {
            return self.evict_to(0);
        };
        if self.size > space {
            self.evict_to(space);
        }
        if self.text.capacity() - self.text.len() < text_bytes {
            self.make_space(text_bytes);
        }
        let start = self.text_start.wrapping_add(position(self.text.len()));
        self.entries.push_back(Entry { start, name_bytes: position(name.len()) });
        self.text.extend_from_slice(name);
        self.text.extend_from_slice(value);
        self.size += text_bytes + ENTRY_BYTES;
    }

    /// Returns the name and the value of an entry. The newest has the index 0.
    #[inline]
    pub(crate) fn field(&self, index: usize) -> Option<(&[u8], &[u8])> {
        let index = self.entries.len().checked_sub(index + 1)?;
        let entry = self.entries.get(index)?;
        self.text[self.offset(entry.start)..self.end(index)].split_at_checked(entry.name_bytes as usize)
    }

    /// Returns the heap memory, in bytes.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.text.capacity() + self.entries.capacity() * size_of::<Entry>()
    }

    /// Evicts the oldest entries until the size is at most `size`.
    fn evict_to(&mut self, size: usize) {
        while self.size > size
            && let Some(entry) = self.entries.pop_front()
        {
            let next = self.entries.front().map_or(self.text.len(), |next| self.offset(next.start));
            self.size -= next - self.offset(entry.start) + ENTRY_BYTES;
        }
        if self.entries.is_empty() {
            self.text = Vec::new();
            self.entries = VecDeque::new();
        }
    }

    /// Makes space for `text_bytes`, which the maximum size has space for.
    #[cold]
    fn make_space(&mut self, text_bytes: usize) {
        self.compact();
        let used = self.text.len();
        // With a quarter to spare, the next call comes after that many bytes.
        let wanted = (used + text_bytes + used / 4).max(TEXT_BYTES_MIN).min(self.max_size);
        if wanted > self.text.capacity() {
            self.text.reserve_exact(wanted - used);
        }
    }

    /// Removes the names and values of evicted entries.
    fn compact(&mut self) {
        let evicted = self.entries.front().map_or(self.text.len(), |oldest| self.offset(oldest.start));
        self.text.drain(..evicted);
        self.text_start = self.text_start.wrapping_add(position(evicted));
    }

    /// Returns the end of the value of the entry at `index` of `entries`.
    #[inline]
    fn end(&self, index: usize) -> usize {
        self.entries.get(index + 1).map_or(self.text.len(), |next| self.offset(next.start))
    }

    #[inline]
    fn offset(&self, start: u32) -> usize {
        start.wrapping_sub(self.text_start) as usize
    }
}

/// Converts a length within the text, which is at most the maximum size, to 32 bits.
#[inline]
fn position(length: usize) -> u32 {
    u32::try_from(length).unwrap_or_default()
}

#[cfg(test)]
impl Table {
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// All fields, the newest first.
    pub(crate) fn fields(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        (0..)
            .map_while(|index| self.field(index))
            .map(|(name, value)| (name.to_vec(), value.to_vec()))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The table as RFC 7541 describes it.
    struct Model {
        fields: VecDeque<(Vec<u8>, Vec<u8>)>,
        max_size: usize,
    }

    impl Model {
        fn size(&self) -> usize {
            self.fields.iter().map(|(name, value)| name.len() + value.len() + 32).sum()
        }

        fn evict(&mut self, reserved: usize) {
            while !self.fields.is_empty() && self.size() + reserved > self.max_size {
                self.fields.pop_back();
            }
        }

        fn insert(&mut self, name: &[u8], value: &[u8]) {
            let size = name.len() + value.len() + 32;
            self.evict(size);
            if size <= self.max_size {
                self.fields.push_front((name.to_vec(), value.to_vec()));
            }
        }
    }

    #[derive(Debug, Clone)]
    enum Operation {
        Insert(Vec<u8>, Vec<u8>),
        SetMaxSize(u16),
    }

    fn operation() -> impl Strategy<Value = Operation> {
        let bytes = |most| proptest::collection::vec(any::<u8>(), 0..most);
        prop_oneof![
            20 => (bytes(20), bytes(60)).prop_map(|(name, value)| Operation::Insert(name, value)),
            2 => (bytes(200), bytes(600)).prop_map(|(name, value)| Operation::Insert(name, value)),
            1 => (0..1000_u16).prop_map(Operation::SetMaxSize),
        ]
    }

    proptest! {
        #[test]
        fn agrees_with_the_model(
            start in prop_oneof![Just(0), Just(u32::MAX - 700)],
            operations in proptest::collection::vec(operation(), 0..200),
        ) {
            let mut table = Table { text_start: start, ..Table::new(500) };
            let mut model = Model { fields: VecDeque::new(), max_size: 500 };
            for operation in operations {
                match operation {
                    Operation::Insert(name, value) => {
                        table.insert(&name, &value);
                        model.insert(&name, &value);
                    }
                    Operation::SetMaxSize(size) => {
                        table.set_max_size(size.into());
                        model.max_size = size.into();
                        model.evict(0);
                    }
                }
                prop_assert_eq!(table.fields(), Vec::from(model.fields.clone()));
                prop_assert_eq!(table.size(), model.size());
                prop_assert!(table.size() <= model.max_size);
                prop_assert!(table.text.capacity() <= model.max_size.max(TEXT_BYTES_MIN));
                prop_assert_eq!(table.heap_bytes() == 0, model.fields.is_empty());
            }
        }
    }

    #[test]
    fn memory_follows_the_contents() {
        let mut table = Table::new(4096);
        for (count, value_bytes, most) in
            [(1, 30, 200), (10, 30, 700), (40, 50, 3200), (500, 30, 4096), (500, 0, 2300)]
        {
            for number in 0..count {
                table.insert(format!("name{number}").as_bytes(), &vec![b'v'; value_bytes]);
            }
            assert!(table.heap_bytes() <= most, "{} bytes for {count} entries", table.heap_bytes());
            table.set_max_size(0);
            assert_eq!(table.heap_bytes(), 0);
            table.set_max_size(4096);
        }
    }

    #[test]
    fn an_entry_as_large_as_the_table_fits_and_a_larger_one_empties_it() {
        let mut table = Table::new(100);
        table.insert(b"a", b"b");
        table.insert(&[b'n'; 34], &[b'v'; 34]);
        assert_eq!((table.fields().len(), table.size()), (1, 100));
        table.insert(&[b'n'; 34], &[b'v'; 35]);
        assert_eq!((table.fields().len(), table.size(), table.heap_bytes()), (0, 0, 0));
    }
}
