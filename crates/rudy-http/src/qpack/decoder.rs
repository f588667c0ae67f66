//! Decodes field sections (RFC 9204 §4.5).

use bytes::BytesMut;

use super::feedback::{put_acknowledgement, put_cancellation};
use super::{DecodeError, static_table};
use crate::hpack::integer;
use crate::hpack::string::{self, LENGTH_PREFIX_BITS};
use crate::hpack::table::{ENTRY_BYTES, Table};

/// The sign of a Base, and the number of its bits after that (§4.5.1.2).
const BASE_SIGN: u8 = 0x80;
const BASE_PREFIX_BITS: u32 = 7;

/// Decodes the field sections of a connection, whose peer fills the dynamic table.
#[derive(Debug)]
pub struct Decoder {
    pub(super) table: Table,
    /// The number of entries that were ever inserted.
    pub(super) inserted: u64,
    /// The largest capacity of the table in our settings.
    pub(super) capacity_max: usize,
    /// The start of an instruction.
    pub(super) partial: Vec<u8>,
}

/// A field section.
#[derive(Debug)]
pub struct Section<'a> {
    decoder: &'a Decoder,
    /// The Required Insert Count: how many entries must have been inserted.
    required: u64,
    base: u64,
    fields: &'a [u8],
}

impl Decoder {
    /// Creates a decoder with an empty table. `capacity_max` is our `SETTINGS_QPACK_MAX_TABLE_CAPACITY`.
    #[must_use]
    pub fn new(capacity_max: u32) -> Self {
        let capacity_max = capacity_max as usize;
        Self { table: Table::new(0), inserted: 0, capacity_max, partial: Vec::new() }
    }

    /// Returns the number of entries that were ever inserted.
    #[must_use]
    pub fn inserted(&self) -> u64 {
        self.inserted
    }

    /// Decodes the prefix of a field section, which is complete.
    ///
    /// # Errors
    ///
    /// The section violates RFC 9204: `QPACK_DECOMPRESSION_FAILED`.
    pub fn section<'a>(&'a self, section: &'a [u8]) -> Result<Section<'a>, DecodeError> {
        let mut fields = section;
        let required = self.required(integer::decode_long(&mut fields, u8::BITS)?)?;
        let is_before = fields.first().is_some_and(|first| first & BASE_SIGN != 0);
        let distance = integer::decode_long(&mut fields, BASE_PREFIX_BITS)?;
        let base = if is_before {
            required.checked_sub(distance + 1).ok_or(DecodeError::NegativeBase)?
        } else {
            required + distance
        };
        Ok(Section { decoder: self, required, base, fields })
    }

    /// Decodes a Required Insert Count (§4.5.1.1).
    fn required(&self, encoded: u64) -> Result<u64, DecodeError> {
        let error = DecodeError::RequiredInsertCount;
        if encoded == 0 {
            return Ok(0);
        }
        let entries_max = (self.capacity_max / ENTRY_BYTES) as u64;
        let range = 2 * entries_max;
        if encoded > range {
            return Err(error);
        }
        let most = self.inserted + entries_max;
        let required = most / range * range + encoded - 1;
        let required = if required > most { required.checked_sub(range).ok_or(error)? } else { required };
        if required == 0 { Err(error) } else { Ok(required) }
    }

    /// Appends a Stream Cancellation, if the table was ever used: the sections of a stream are not decoded, or not all of them (§4.4.2).
    pub fn cancel(&self, stream: u64, out: &mut BytesMut) {
        if self.inserted > 0 {
            put_cancellation(stream, out);
        }
    }

    /// Returns the heap memory in bytes.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        self.table.heap_bytes() + self.partial.capacity()
    }
}

impl<'a> Section<'a> {
    /// Whether entries are needed that have not been inserted: their instructions are in transit (§2.1.2).
    #[must_use]
    pub fn is_blocked(&self) -> bool {
        self.required > self.decoder.inserted
    }

    /// Returns the number of entries that must have been inserted.
    #[must_use]
    pub fn required(&self) -> u64 {
        self.required
    }

    /// Decodes the section, which is not blocked, and calls `field` with the name and the value of each field.
    ///
    /// `scratch` is a buffer for decoded strings; its contents do not matter. Connections can share it.
    ///
    /// # Errors
    ///
    /// The section violates RFC 9204: `QPACK_DECOMPRESSION_FAILED`.
    pub fn decode(
        &self,
        scratch: &mut Vec<u8>,
        field: &mut impl FnMut(&[u8], &[u8]),
    ) -> Result<(), DecodeError> {
        let mut input = self.fields;
        while let Some(&first) = input.first() {
            scratch.clear();
            let name = match first {
                0x80.. => {
                    let (name, value) = self.indexed(&mut input, 6, first & 0x40 != 0)?;
                    field(name, value);
                    continue;
                }
                0x10..0x20 => {
                    let (name, value) = self.after_base(&mut input, 4)?;
                    field(name, value);
                    continue;
                }
                0x40.. => string::Decoded::Borrowed(self.indexed(&mut input, 4, first & 0x10 != 0)?.0),
                0x20.. => string::decode::<3>(&mut input, scratch)?,
                _ => string::Decoded::Borrowed(self.after_base(&mut input, 3)?.0),
            };
            let value = string::decode::<LENGTH_PREFIX_BITS>(&mut input, scratch)?;
            field(name.bytes(scratch), value.bytes(scratch));
        }
        Ok(())
    }

    /// Appends the acknowledgement of the section, which is decoded, if it needs one (§4.4.1).
    pub fn acknowledge(&self, stream: u64, out: &mut BytesMut) {
        if self.required > 0 {
            put_acknowledgement(stream, out);
        }
    }

    /// Decodes an index of the static table, or one of the dynamic table that counts backwards from the Base (§3.2.5).
    #[inline]
    fn indexed(
        &self,
        input: &mut &[u8],
        prefix_bits: u32,
        is_static: bool,
    ) -> Result<(&'a [u8], &'a [u8]), DecodeError> {
        let index = integer::decode(input, prefix_bits)?;
        if is_static {
            return static_table::field(index).ok_or(DecodeError::IndexOutOfRange);
        }
        self.entry(self.base.checked_sub(index as u64 + 1))
    }

    /// Decodes an index of the dynamic table that counts forwards from the Base (§3.2.6).
    fn after_base(&self, input: &mut &[u8], prefix_bits: u32) -> Result<(&'a [u8], &'a [u8]), DecodeError> {
        let index = integer::decode(input, prefix_bits)?;
        self.entry(Some(self.base + index as u64))
    }

    /// Returns the entry with an absolute index.
    fn entry(&self, index: Option<u64>) -> Result<(&'a [u8], &'a [u8]), DecodeError> {
        let index = index.filter(|index| *index < self.required).ok_or(DecodeError::NoEntry)?;
        let age = self.decoder.inserted.checked_sub(index + 1).and_then(|age| usize::try_from(age).ok());
        age.and_then(|age| self.decoder.table.field(age)).ok_or(DecodeError::NoEntry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hpack::DecodeError as Primitive;

    fn decode(section: &[u8]) -> Result<Vec<(String, String)>, DecodeError> {
        decode_with(&Decoder::new(0), section)
    }

    fn decode_with(decoder: &Decoder, section: &[u8]) -> Result<Vec<(String, String)>, DecodeError> {
        let mut fields = Vec::new();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        decoder
            .section(section)?
            .decode(&mut Vec::new(), &mut |name, value| fields.push((text(name), text(value))))?;
        Ok(fields)
    }

    /// A decoder with the entries `a: 0` to `a: 4` of 34 bytes, of which the last `kept` are there.
    fn filled(kept: u8) -> Decoder {
        let (mut decoder, mut instructions) = (Decoder::new(200), BytesMut::new());
        integer::encode(34 * usize::from(kept), 5, 0x20, &mut instructions);
        for number in b'0'..b'5' {
            instructions.extend([0x41, b'a', 1, number]);
        }
        decoder.receive_instructions(&instructions, &mut BytesMut::new()).unwrap();
        assert_eq!((decoder.inserted(), decoder.table.length()), (5, kept.into()));
        decoder
    }

    /// The first example of Appendix B.
    #[test]
    fn a_literal_with_a_name_of_the_static_table() {
        let section = [&[0, 0, 0x51, 0x0b][..], b"/index.html"].concat();
        assert_eq!(decode(&section).unwrap(), [(":path".to_owned(), "/index.html".to_owned())]);
    }

    #[test]
    fn rejects_malformed_sections_with_the_reason() {
        let truncated = DecodeError::from(Primitive::Truncated);
        for (section, error) in [
            (&b""[..], truncated),
            (b"\0", truncated),
            (b"\0\x7f", truncated),
            (b"\x01\0", DecodeError::RequiredInsertCount),
            (b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x0f\0", DecodeError::RequiredInsertCount),
            // A sign, although nothing is before the start of the table.
            (b"\0\x80", DecodeError::NegativeBase),
            (b"\0\xff\x01", DecodeError::NegativeBase),
            // Indexed, after the Base, with a name, and with a name after the Base.
            (b"\0\0\x80", DecodeError::NoEntry),
            (b"\0\x05\x80", DecodeError::NoEntry),
            (b"\0\0\x10", DecodeError::NoEntry),
            (b"\0\0\x40\x01a", DecodeError::NoEntry),
            (b"\0\0\x60\x01a", DecodeError::NoEntry),
            (b"\0\0\x00\x01a", DecodeError::NoEntry),
            (b"\0\0\xff\x24", DecodeError::IndexOutOfRange),
            (b"\0\0\x5f\x54\x01a", DecodeError::IndexOutOfRange),
            (b"\0\0\xff", truncated),
            (b"\0\0\xff\xff\xff\xff\xff\x0f", Primitive::IntegerTooLarge.into()),
            (b"\0\0\x51", truncated),
            (b"\0\0\x51\x02a", truncated),
            (b"\0\0\x22a", truncated),
            (b"\0\0\x21a", truncated),
            (b"\0\0\x29\x00\x00", Primitive::HuffmanPadding.into()),
            (b"\0\0\x51\x84\xff\xff\xff\xff", Primitive::HuffmanEndOfString.into()),
        ] {
            assert_eq!(decode(section), Err(error), "{}", section.escape_ascii());
            assert!(!error.to_string().is_empty());
        }
    }

    #[test]
    fn accepts_fields_that_must_not_be_indexed_and_any_base() {
        let far = b"\0\x7f\xff\xff\xff\xff\xff\xff\xff\xff\x3e\xd1";
        for section in [&b"\0\x7f\x01\x71\x01a"[..], b"\0\x05\x31a\x01b", b"\0\0\xff\x23", far] {
            assert_eq!(decode(section).map(|fields| fields.len()), Ok(1), "{}", section.escape_ascii());
        }
    }

    /// The table has 6 entries at most, so that 12 counts can be told apart.
    #[test]
    fn references_count_from_the_base() {
        for (section, values) in [
            // All five are needed, and the Base is behind them.
            (&b"\x06\0\x80\x81\x84"[..], "430"),
            // The Base is behind the second.
            (b"\x06\x82\x80\x81\x10\x12", "1024"),
            // The Base is far behind.
            (b"\x06\x04\x84\x88", "40"),
            // Names, of which some must never be indexed.
            (b"\x06\x82\x40\x01x\x61\x01y\x00\x01z\x0a\x01w", "xyzw"),
            // Only three are needed.
            (b"\x04\0\x80\x82", "20"),
        ] {
            let fields = decode_with(&filled(5), section).unwrap();
            assert!(fields.iter().all(|(name, _)| name == "a"), "{}", section.escape_ascii());
            let found: String = fields.into_iter().map(|(_, value)| value).collect();
            assert_eq!(found, values, "{}", section.escape_ascii());
        }
    }

    #[test]
    fn references_are_limited_by_the_required_count_and_by_eviction() {
        for (kept, section) in [
            (5, &b"\x06\0\x85"[..]),
            (5, b"\x06\0\x10"),
            (5, b"\x06\x82\x13"),
            (5, b"\x04\x01\x80"),
            (5, b"\x04\x01\x40\x01x"),
            (5, b"\x04\x80\x11"),
            (5, b"\x04\x80\x01\x01x"),
            // Evicted.
            (2, b"\x06\0\x82"),
            (2, b"\x04\0\x80"),
        ] {
            assert_eq!(
                decode_with(&filled(kept), section),
                Err(DecodeError::NoEntry),
                "{}",
                section.escape_ascii()
            );
        }
        assert_eq!(decode_with(&filled(2), b"\x06\0\x81\x80").unwrap().len(), 2);
    }

    #[test]
    fn a_section_is_blocked_until_its_entries_are_there() {
        let decoder = filled(5);
        let required = |encoded: u8| decoder.section(&[encoded, 0]).map(|section| section.required());
        // Up to six more can be in transit. The others are the counts so far.
        let expected = [0, 12, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11].map(Ok);
        for (encoded, expected) in (0..).zip(expected) {
            let expected = if encoded == 1 { Err(DecodeError::RequiredInsertCount) } else { expected };
            assert_eq!(required(encoded), expected, "{encoded}");
        }
        assert_eq!(required(13), Err(DecodeError::RequiredInsertCount));
        assert!(!decoder.section(b"\x06\0").unwrap().is_blocked());
        assert!(decoder.section(b"\x07\0").unwrap().is_blocked());
    }

    #[test]
    fn sections_and_streams_are_acknowledged() {
        let (decoder, mut out) = (filled(5), BytesMut::new());
        decoder.section(b"\0\0").unwrap().acknowledge(4, &mut out);
        Decoder::new(200).cancel(4, &mut out);
        assert!(out.is_empty());
        decoder.section(b"\x06\0").unwrap().acknowledge(4, &mut out);
        decoder.section(b"\x06\0").unwrap().acknowledge(128, &mut out);
        decoder.cancel(8, &mut out);
        decoder.cancel(64, &mut out);
        assert_eq!(out, &b"\x84\xff\x01\x48\x7f\x01"[..]);
    }
}
