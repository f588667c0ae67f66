//! Decodes field blocks (RFC 7541 §3 and §6).

use super::string::{self, Decoded, LENGTH_PREFIX_BITS};
use super::table::Table;
use super::{DecodeError, integer, static_table};

/// The maximum number of size updates at the start of a block: the smallest size since the last block, and the current one
/// (§4.2).
const SIZE_UPDATES_MAX: usize = 2;

/// Decodes the field blocks of one direction of a connection.
#[derive(Debug)]
pub struct Decoder {
    table: Table,
    /// The maximum size of the table in our settings, in bytes.
    max_table_bytes: usize,
}

impl Decoder {
    /// Creates a decoder with an empty table. `max_table_bytes` is our `SETTINGS_HEADER_TABLE_SIZE` (4096 by default), which never
    /// changes.
    #[must_use]
    pub fn new(max_table_bytes: u32) -> Self {
        Self { table: Table::new(max_table_bytes), max_table_bytes: max_table_bytes as usize }
    }

    /// Decodes one complete field block and calls `field` with the name and the value of each field.
    ///
    /// `scratch` is a buffer for decoded strings; its contents do not matter. Connections can share it. The decoder always
    /// continues to the end of the block, because the table must remain in step with the peer: to ignore fields, ignore the
    /// calls.
    pub fn decode(
        &mut self,
        block: &[u8],
        scratch: &mut Vec<u8>,
        field: &mut impl FnMut(&[u8], &[u8]),
    ) -> Result<(), DecodeError> {
        let mut input = block;
        self.decode_size_updates(&mut input)?;
        while let Some(first) = input.first() {
            // The number of leading zeros determines the representation (§6).
            match first.leading_zeros() {
                0 => {
                    let (name, value) = self.field(integer::decode(&mut input, 7)?)?;
                    field(name, value);
                }
                1 => {
                    let (name, value) = self.decode_literal(&mut input, 6, scratch)?;
                    let (name, value) = (name.bytes(scratch), value.bytes(scratch));
                    field(name, value);
                    self.table.insert(name, value);
                }
                2 => return Err(DecodeError::MisplacedSizeUpdate),
                // Without indexing, or never indexed.
                _ => {
                    let (name, value) = self.decode_literal(&mut input, 4, scratch)?;
                    field(name.bytes(scratch), value.bytes(scratch));
                }
            }
        }
        Ok(())
    }

    /// Returns the heap memory of the table, in bytes.
    #[must_use]
    pub fn table_bytes(&self) -> usize {
        self.table.heap_bytes()
    }

    /// Decodes the size updates at the start of a block (§4.2 and §6.3).
    fn decode_size_updates(&mut self, input: &mut &[u8]) -> Result<(), DecodeError> {
        let mut count = 0;
        while input.first().is_some_and(|first| first.leading_zeros() == 2) {
            let size = integer::decode(input, 5)?;
            count += 1;
            if count > SIZE_UPDATES_MAX {
                return Err(DecodeError::TooManySizeUpdates);
            }
            if size > self.max_table_bytes {
                return Err(DecodeError::SizeUpdateTooLarge);
            }
            self.table.set_max_size(size);
        }
        Ok(())
    }

    /// Decodes the name and the value of a literal field, whose first byte has `prefix_bits` bits of the index of its name
    /// (§6.2).
    #[inline]
    fn decode_literal<'a>(
        &self,
        input: &mut &'a [u8],
        prefix_bits: u32,
        scratch: &mut Vec<u8>,
    ) -> Result<(Decoded<'a>, Decoded<'a>), DecodeError> {
        scratch.clear();
        let index = integer::decode(input, prefix_bits)?;
        let name = if index == 0 {
            string::decode::<LENGTH_PREFIX_BITS>(input, scratch)?
        } else if let Some((name, _)) = static_table::field(index) {
            Decoded::Borrowed(name)
        } else {
            // The insertion of the new field can evict the entry of its name (§4.4).
            scratch.extend_from_slice(self.field(index)?.0);
            Decoded::Scratch(0..scratch.len())
        };
        Ok((name, string::decode::<LENGTH_PREFIX_BITS>(input, scratch)?))
    }

    /// Returns the field at an index of both tables (§2.3.3).
    #[inline]
    fn field(&self, index: usize) -> Result<(&[u8], &[u8]), DecodeError> {
        if let Some(field) = static_table::field(index) {
            return Ok(field);
        }
        let index = index.checked_sub(static_table::LENGTH + 1).ok_or(DecodeError::IndexZero)?;
        self.table.field(index).ok_or(DecodeError::IndexOutOfRange)
    }
}

#[cfg(test)]
impl Decoder {
    pub(super) fn table(&self) -> &Table {
        &self.table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(decoder: &mut Decoder, block: &[u8]) -> Result<Vec<(String, String)>, DecodeError> {
        let mut fields = Vec::new();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        decoder.decode(block, &mut Vec::new(), &mut |name, value| fields.push((text(name), text(value))))?;
        Ok(fields)
    }

    #[test]
    fn rejects_malformed_blocks_with_the_reason() {
        use DecodeError as E;
        for (block, error) in [
            (&b"\x80"[..], E::IndexZero),
            (b"\xbe", E::IndexOutOfRange),
            (b"\x7e\x01a", E::IndexOutOfRange),
            (b"\x0f\x2f\x01a", E::IndexOutOfRange),
            (b"\xff", E::Truncated),
            (b"\xff\x80", E::Truncated),
            (b"\xff\xff\xff\xff\xff\x0f", E::IntegerTooLarge),
            (b"\x40", E::Truncated),
            (b"\x40\x02a", E::Truncated),
            (b"\x40\x01a", E::Truncated),
            (b"\x40\x01a\x02b", E::Truncated),
            (b"\x00\x01a\x7f\xff\xff\xff\x3f", E::Truncated),
            (b"\x00\x81\x00", E::HuffmanPadding),
            (b"\x00\x84\xff\xff\xff\xff\x00", E::HuffmanEndOfString),
            (b"\x82\x20", E::MisplacedSizeUpdate),
            (b"\x20\x82\x20", E::MisplacedSizeUpdate),
            (b"\x20\x20\x20", E::TooManySizeUpdates),
            (b"\x3f\xe2\x1f", E::SizeUpdateTooLarge),
            (b"\x3f\xe1", E::Truncated),
        ] {
            let mut decoder = Decoder::new(4096);
            assert_eq!(decode(&mut decoder, block), Err(error), "{}", block.escape_ascii());
            assert!(!error.to_string().is_empty());
        }
    }

    #[test]
    fn accepts_up_to_two_size_updates_within_the_limit() {
        for block in [&b"\x82"[..], b"\x20\x82", b"\x3f\xe1\x1f\x82", b"\x20\x3f\xe1\x1f\x82"] {
            assert_eq!(decode(&mut Decoder::new(4096), block).map(|fields| fields.len()), Ok(1));
        }
        assert_eq!(decode(&mut Decoder::new(4096), b"\x20\x20"), Ok(Vec::new()));
        assert_eq!(decode(&mut Decoder::new(4096), b""), Ok(Vec::new()));
    }

    #[test]
    fn the_name_of_an_entry_survives_its_eviction() {
        let mut decoder = Decoder::new(100);
        let block = [b"\x40\x0a0123456789\x14", &[b'v'; 20][..], b"\x7e\x1e", &[b'w'; 30]].concat();
        let fields = decode(&mut decoder, &block).unwrap();
        assert_eq!(fields[1], ("0123456789".to_owned(), "w".repeat(30)));
        assert_eq!(decode(&mut decoder, b"\xbe").unwrap(), fields[1..]);
        assert_eq!(decode(&mut decoder, b"\xbf"), Err(DecodeError::IndexOutOfRange));
    }

    #[test]
    fn references_to_a_large_entry_use_no_memory() {
        let mut decoder = Decoder::new(4096);
        let mut block = [b"\x40\x01a\x7f\xa1\x1e", &[b'v'; 4000][..]].concat();
        block.resize(block.len() + 10_000, 0xbe);
        let (mut count, mut scratch) = (0, Vec::new());
        decoder.decode(&block, &mut scratch, &mut |_, value| count += value.len()).unwrap();
        assert_eq!(count, 10_001 * 4000);
        assert!(scratch.capacity() == 0 && decoder.table_bytes() <= 4096 + 1024);
    }

    #[test]
    fn a_full_table_has_at_most_a_quarter_more_memory_than_its_limit() {
        for value_bytes in [0, 1, 31, 32, 33, 64, 200, 1000, 4000] {
            let mut decoder = Decoder::new(4096);
            assert_eq!(decoder.table_bytes(), 0);
            let mut block = bytes::BytesMut::from(&b"\x40\x01a"[..]);
            integer::encode(value_bytes, 7, 0, &mut block);
            block.extend(vec![b'v'; value_bytes]);
            for _ in 0..300 {
                decode(&mut decoder, &block).unwrap();
                assert!(decoder.table_bytes() <= 4096 + 1024, "{value_bytes}: {}", decoder.table_bytes());
            }
            decode(&mut decoder, b"\x20").unwrap();
            assert_eq!(decoder.table_bytes(), 0);
        }
    }
}
