//! Encodes field blocks (RFC 7541 §6).

use bytes::BytesMut;
use rudy_message::Compression;

use super::hash_index::{HashIndex, Hashes, name_hash};
use super::integer;
use super::static_table::{self, Match};
use super::string::{self, LENGTH_PREFIX_BITS};
use super::table::{ENTRY_BYTES, Table};
use crate::field_section::Compress;

/// The maximum size of the table. A peer can make it smaller, but cannot make us keep more than the default of the protocol.
const TABLE_BYTES_MAX: u32 = 4096;

/// The bits before the index in each representation, and the number of bits of the index in the first byte (§6).
const INDEXED: (u8, u32) = (0x80, 7);
const INCREMENTAL: (u8, u32) = (0x40, 6);
const SIZE_UPDATE: (u8, u32) = (0x20, 5);
const NEVER_INDEXED: (u8, u32) = (0x10, 4);
const WITHOUT_INDEXING: (u8, u32) = (0x00, 4);

/// Whether a field is added to the dynamic table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Indexing {
    /// The field is added to the dynamic table, or refers to an equal one there: for fields that are often the same (§6.2.1).
    Incremental,
    /// The field is not added: for fields that change with every message (§6.2.2).
    Without,
    /// The field is not added, and proxies must not add it either: for secrets, whose length a table would reveal (§6.2.3).
    Never,
}

/// Encodes the field blocks of one direction of a connection.
#[derive(Debug)]
pub struct Encoder {
    table: Table,
    index: HashIndex,
    /// The maximum size of the table from the next block on, in bytes.
    table_bytes: u32,
    /// The smallest maximum size since the last block, in bytes.
    smallest_table_bytes: u32,
}

impl Default for Encoder {
    /// Creates an encoder with an empty table of at most 4096 bytes, the default of `SETTINGS_HEADER_TABLE_SIZE`.
    fn default() -> Self {
        Self {
            table: Table::new(TABLE_BYTES_MAX),
            index: HashIndex::default(),
            table_bytes: TABLE_BYTES_MAX,
            smallest_table_bytes: TABLE_BYTES_MAX,
        }
    }
}

impl Encoder {
    /// Sets the `SETTINGS_HEADER_TABLE_SIZE` of the peer. The encoder uses at most 4096 bytes. The next block announces a
    /// change.
    pub fn set_peer_table_bytes(&mut self, bytes: u32) {
        self.table_bytes = bytes.min(TABLE_BYTES_MAX);
        self.smallest_table_bytes = self.smallest_table_bytes.min(self.table_bytes);
    }

    /// Begins a block. Announces changes of the table size: the smallest size since the last block, if the table was larger,
    /// and the current size (§4.2).
    #[inline]
    pub fn begin_block(&mut self, out: &mut BytesMut) {
        for bytes in [self.smallest_table_bytes, self.table_bytes] {
            let bytes = bytes as usize;
            if bytes != self.table.max_size() {
                integer::encode(bytes, SIZE_UPDATE.1, SIZE_UPDATE.0, out);
                self.table.set_max_size(bytes);
                self.index.evict_to(self.table.length());
            }
        }
        self.smallest_table_bytes = self.table_bytes;
    }

    /// Appends a field to the current block. The name must be lower case (RFC 9113 §8.2.1).
    pub fn encode(&mut self, name: &[u8], value: &[u8], indexing: Indexing, out: &mut BytesMut) {
        debug_assert!(!name.iter().any(u8::is_ascii_uppercase), "a field name in HTTP/2 is lower case");
        let found = static_table::find(name, value);
        match (found, indexing) {
            (Match::Field(index), Indexing::Incremental | Indexing::Without) => {
                integer::encode(index, INDEXED.1, INDEXED.0, out);
            }
            (_, Indexing::Incremental) if self.is_cacheable(name, value) => {
                self.encode_incremental(name, value, found, out);
            }
            (Match::Field(index) | Match::Name(index), _) => {
                encode_literal(literal(indexing), index, name, value, out);
            }
            (Match::None, _) => {
                let index = self.find_name(name, name_hash(name));
                encode_literal(literal(indexing), index, name, value, out);
            }
        }
    }

    /// Returns the heap memory of the table, in bytes.
    #[must_use]
    pub fn table_bytes(&self) -> usize {
        self.table.heap_bytes() + self.index.heap_bytes()
    }

    /// Whether the entry would use at most three quarters of the table. Larger ones would evict too many others.
    fn is_cacheable(&self, name: &[u8], value: &[u8]) -> bool {
        (name.len() + value.len() + ENTRY_BYTES) * 4 <= self.table.max_size() * 3
    }

    /// Appends the index of an equal field in the dynamic table, or else a literal, which is added to it.
    fn encode_incremental(&mut self, name: &[u8], value: &[u8], found: Match, out: &mut BytesMut) {
        let hashes = Hashes::new(name, value);
        let is_equal = |index| self.table.field(index) == Some((name, value));
        if let Some(index) = self.index.find_field(hashes.field, is_equal) {
            return integer::encode(static_table::LENGTH + 1 + index, INDEXED.1, INDEXED.0, out);
        }
        let index = match found {
            Match::Field(index) | Match::Name(index) => index,
            Match::None => self.find_name(name, hashes.name),
        };
        encode_literal(INCREMENTAL, index, name, value, out);
        self.table.insert(name, value);
        self.index.insert(hashes);
        self.index.evict_to(self.table.length());
    }

    /// Returns the index of an entry of the dynamic table with this name, or 0.
    fn find_name(&self, name: &[u8], name_hash: u32) -> usize {
        let is_equal = |index| self.table.field(index).is_some_and(|(other, _)| other == name);
        let found = self.index.find_name(name_hash, is_equal);
        found.map_or(0, |index| static_table::LENGTH + 1 + index)
    }
}

/// Appends a field that uses the static table only, so that it is valid in the blocks of all connections. The name must be
/// lower case (RFC 9113 §8.2.1).
pub fn encode_stateless(name: &[u8], value: &[u8], out: &mut BytesMut) {
    debug_assert!(!name.iter().any(u8::is_ascii_uppercase), "a field name in HTTP/2 is lower case");
    match static_table::find(name, value) {
        Match::Field(index) => integer::encode(index, INDEXED.1, INDEXED.0, out),
        Match::Name(index) => encode_literal(WITHOUT_INDEXING, index, name, value, out),
        Match::None => encode_literal(WITHOUT_INDEXING, 0, name, value, out),
    }
}

/// The compression without state.
pub(crate) struct Hpack;

impl Compress for Hpack {
    const COMPRESSION: Compression = Compression::Hpack;

    #[inline]
    fn put_field(name: &[u8], value: &[u8], out: &mut BytesMut) {
        encode_stateless(name, value, out);
    }
}

fn literal(indexing: Indexing) -> (u8, u32) {
    if indexing == Indexing::Never { NEVER_INDEXED } else { WITHOUT_INDEXING }
}

/// Appends a literal. `index` is that of its name, or 0 (§6.2).
#[inline]
fn encode_literal(
    (pattern, prefix_bits): (u8, u32),
    index: usize,
    name: &[u8],
    value: &[u8],
    out: &mut BytesMut,
) {
    integer::encode(index, prefix_bits, pattern, out);
    if index == 0 {
        string::encode::<LENGTH_PREFIX_BITS, 0>(name, out);
    }
    string::encode::<LENGTH_PREFIX_BITS, 0>(value, out);
}

#[cfg(test)]
impl Encoder {
    pub(super) fn table(&self) -> &Table {
        &self.table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encode(encoder: &mut Encoder, name: &str, value: &str, indexing: Indexing) -> Vec<u8> {
        let mut out = BytesMut::new();
        encoder.begin_block(&mut out);
        encoder.encode(name.as_bytes(), value.as_bytes(), indexing, &mut out);
        out.to_vec()
    }

    fn begin(encoder: &mut Encoder) -> Vec<u8> {
        let mut out = BytesMut::new();
        encoder.begin_block(&mut out);
        out.to_vec()
    }

    #[test]
    fn indexes_fields_as_requested() {
        let mut encoder = Encoder::default();
        assert_eq!(encode(&mut encoder, ":method", "GET", Indexing::Incremental), [0x82]);
        assert_eq!(encode(&mut encoder, ":method", "GET", Indexing::Without), [0x82]);
        assert_eq!(encode(&mut encoder, ":method", "GET", Indexing::Never), b"\x12\x03GET");
        assert_eq!(encode(&mut encoder, "age", "7", Indexing::Without), b"\x0f\x06\x017");
        assert_eq!(encode(&mut encoder, "age", "7", Indexing::Never), b"\x1f\x06\x017");
        assert_eq!(encoder.table_bytes(), 0);
        assert_eq!(encode(&mut encoder, "age", "7", Indexing::Incremental), b"\x55\x017");
        assert_eq!(encode(&mut encoder, "age", "7", Indexing::Incremental), [0xbe]);
        assert_eq!(encode(&mut encoder, "z", "Z", Indexing::Incremental), b"\x40\x01z\x01Z");
        assert_eq!(encode(&mut encoder, "age", "7", Indexing::Incremental), [0xbf]);
        assert_eq!(encode(&mut encoder, "z", "z", Indexing::Incremental), b"\x7e\x01z");
        assert_eq!(encode(&mut encoder, "z", "y", Indexing::Without), b"\x0f\x2f\x01y");
        assert_eq!(encode(&mut encoder, "z", "y", Indexing::Never), b"\x1f\x2f\x01y");
    }

    #[test]
    fn a_field_of_more_than_three_quarters_of_the_table_is_not_indexed() {
        let mut encoder = Encoder::default();
        encode(&mut encoder, "a", &"v".repeat(3 * 1024 - 33), Indexing::Incremental);
        assert_eq!(encoder.table.fields().len(), 1);
        let block = encode(&mut encoder, "a", &"w".repeat(3 * 1024 - 32), Indexing::Incremental);
        assert_eq!((block[0], encoder.table.fields().len()), (0x0f, 1));
    }

    #[test]
    fn announces_changes_of_the_table_size() {
        let update = |bytes: &[u32]| {
            let mut encoder = Encoder::default();
            for bytes in bytes {
                encoder.set_peer_table_bytes(*bytes);
            }
            let block = begin(&mut encoder);
            assert_eq!(begin(&mut encoder), b"");
            block
        };
        assert_eq!(update(&[]), b"");
        assert_eq!(update(&[4096]), b"");
        assert_eq!(update(&[u32::MAX]), b"");
        assert_eq!(update(&[0]), b"\x20");
        assert_eq!(update(&[0, 65536]), b"\x20\x3f\xe1\x1f");
        assert_eq!(update(&[100, 0, 100]), b"\x20\x3f\x45");
        assert_eq!(update(&[100, 200]), b"\x3f\x45\x3f\xa9\x01");
        assert_eq!(update(&[200, 100]), b"\x3f\x45");
    }

    #[test]
    fn a_table_of_size_zero_has_no_entries() {
        let mut encoder = Encoder::default();
        encode(&mut encoder, "age", "7", Indexing::Incremental);
        encoder.set_peer_table_bytes(0);
        for first in [&b"\x20\x0f\x06\x017"[..], b"\x0f\x06\x017"] {
            assert_eq!(encode(&mut encoder, "age", "7", Indexing::Incremental), first);
            assert_eq!(encoder.table_bytes(), 0);
        }
    }

    #[test]
    fn a_full_table_has_at_most_half_more_memory_than_its_limit() {
        for value_bytes in [4, 32, 64, 200, 1000, 3000] {
            let mut encoder = Encoder::default();
            for number in 0..300 {
                encode(&mut encoder, "a", &format!("{number:0value_bytes$}"), Indexing::Incremental);
                assert!(encoder.table_bytes() <= 4096 + 2048, "{value_bytes}: {}", encoder.table_bytes());
            }
        }
    }
}
