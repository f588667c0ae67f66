//! Decodes field sections (RFC 9204 §4.5).

use super::{DecodeError, static_table};
use crate::hpack::integer;
use crate::hpack::string::{self, LENGTH_PREFIX_BITS};

/// The number of bits of a Base in its first byte, after its sign (§4.5.1.2).
const BASE_PREFIX_BITS: u32 = 7;

/// Set Dynamic Table Capacity, to 0 (§4.3.1).
const CAPACITY_ZERO: u8 = 0x20;

/// Decodes the field sections of a connection.
#[derive(Debug, Default)]
pub struct Decoder {}

impl Decoder {
    /// Decodes one complete field section and calls `field` with the name and the value of each field.
    ///
    /// `scratch` is a buffer for decoded strings; its contents do not matter. Connections can share it.
    ///
    /// # Errors
    ///
    /// The section violates RFC 9204: `QPACK_DECOMPRESSION_FAILED`.
    pub fn decode(
        &mut self,
        section: &[u8],
        scratch: &mut Vec<u8>,
        field: &mut impl FnMut(&[u8], &[u8]),
    ) -> Result<(), DecodeError> {
        let mut input = section;
        if integer::decode(&mut input, u8::BITS)? != 0 {
            return Err(DecodeError::NoDynamicTable);
        }
        // Without references, any Base is valid (§4.5.1.2).
        integer::decode(&mut input, BASE_PREFIX_BITS)?;
        while let Some(first) = input.first() {
            scratch.clear();
            match first {
                0xc0.. => {
                    let (name, value) = indexed(&mut input, 6)?;
                    field(name, value);
                }
                0x50..0x60 | 0x70..0x80 => {
                    let (name, _) = indexed(&mut input, 4)?;
                    let value = string::decode::<LENGTH_PREFIX_BITS>(&mut input, scratch)?;
                    field(name, value.bytes(scratch));
                }
                0x20..0x40 => {
                    let name = string::decode::<3>(&mut input, scratch)?;
                    let value = string::decode::<LENGTH_PREFIX_BITS>(&mut input, scratch)?;
                    field(name.bytes(scratch), value.bytes(scratch));
                }
                _ => return Err(DecodeError::NoDynamicTable),
            }
        }
        Ok(())
    }

    /// Handles bytes of the encoder stream of the peer (§4.3). Returns the number of instructions.
    ///
    /// # Errors
    ///
    /// An instruction is invalid: `QPACK_ENCODER_STREAM_ERROR`.
    pub fn receive_instructions(&mut self, input: &[u8]) -> Result<usize, DecodeError> {
        let is_valid = input.iter().all(|byte| *byte == CAPACITY_ZERO);
        if is_valid { Ok(input.len()) } else { Err(DecodeError::NoDynamicTable) }
    }
}

/// Decodes an index of the static table.
#[inline]
fn indexed(input: &mut &[u8], prefix_bits: u32) -> Result<(&'static [u8], &'static [u8]), DecodeError> {
    let index = integer::decode(input, prefix_bits)?;
    static_table::field(index).ok_or(DecodeError::IndexOutOfRange)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hpack::DecodeError as Primitive;

    fn decode(section: &[u8]) -> Result<Vec<(String, String)>, DecodeError> {
        let mut fields = Vec::new();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Decoder::default()
            .decode(section, &mut Vec::new(), &mut |name, value| fields.push((text(name), text(value))))?;
        Ok(fields)
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
            (b"\x01\0", DecodeError::NoDynamicTable),
            (b"\x02\0\x80", DecodeError::NoDynamicTable),
            // Indexed, after the Base, with a name, and with a name after the Base.
            (b"\0\0\x80", DecodeError::NoDynamicTable),
            (b"\0\0\x10", DecodeError::NoDynamicTable),
            (b"\0\0\x40\x01a", DecodeError::NoDynamicTable),
            (b"\0\0\x60\x01a", DecodeError::NoDynamicTable),
            (b"\0\0\x00\x01a", DecodeError::NoDynamicTable),
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
        for section in [&b"\0\xff\x01\x71\x01a"[..], b"\0\x05\x31a\x01b", b"\0\0\xff\x23"] {
            assert_eq!(decode(section).map(|fields| fields.len()), Ok(1), "{}", section.escape_ascii());
        }
    }

    #[test]
    fn the_only_instruction_is_a_capacity_of_zero() {
        assert_eq!(Decoder::default().receive_instructions(b"\x20\x20"), Ok(2));
        for byte in (0..=u8::MAX).filter(|byte| *byte != CAPACITY_ZERO) {
            assert_eq!(
                Decoder::default().receive_instructions(&[0x20, byte]),
                Err(DecodeError::NoDynamicTable)
            );
        }
    }
}
