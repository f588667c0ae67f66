//! Handles the encoder stream of the peer, whose instructions fill the dynamic table (RFC 9204 §4.3).

use bytes::BytesMut;

use super::feedback::put_increment;
use super::{DecodeError, Decoder, static_table};
use crate::hpack::string::{self, Decoded, LENGTH_PREFIX_BITS};
use crate::hpack::table::ENTRY_BYTES;
use crate::hpack::{DecodeError as Primitive, integer};

/// The maximum size of an instruction, in sizes of the table: the Huffman code makes some values larger.
const INSTRUCTION_BYTES_FACTOR: usize = 2;

impl Decoder {
    /// Handles bytes of the encoder stream of the peer. Returns the number of complete instructions. Appends an Insert Count Increment to the
    /// decoder stream if entries were inserted.
    ///
    /// # Errors
    ///
    /// An instruction is invalid: `QPACK_ENCODER_STREAM_ERROR`.
    pub fn receive_instructions(
        &mut self,
        mut input: &[u8],
        out: &mut BytesMut,
    ) -> Result<usize, DecodeError> {
        let (before, mut count, mut strings) = (self.inserted, 0, Vec::new());
        if !self.partial.is_empty() {
            count += usize::from(self.complete(&mut input, &mut strings)?);
        }
        while self.apply(&mut input, &mut strings)? {
            count += 1;
        }
        if !input.is_empty() {
            self.partial = input.to_vec();
        }
        put_increment(self.inserted - before, out);
        Ok(count)
    }

    /// Whether no instruction has begun that has not ended.
    pub(crate) fn is_between_instructions(&self) -> bool {
        self.partial.is_empty()
    }

    /// Handles the instruction whose start is stored. Returns whether it is complete; if not, uses all of the input.
    fn complete(&mut self, input: &mut &[u8], strings: &mut Vec<u8>) -> Result<bool, DecodeError> {
        let mut bytes = std::mem::take(&mut self.partial);
        let known = bytes.len();
        let more = input.len().min(self.instruction_bytes_max() - known);
        bytes.extend_from_slice(&input[..more]);
        let mut rest = &bytes[..];
        let is_complete = self.apply(&mut rest, strings)?;
        if is_complete {
            // More than was known: that was no whole instruction.
            *input = &input[bytes.len() - rest.len() - known..];
        } else {
            *input = &[];
            self.partial = bytes;
        }
        Ok(is_complete)
    }

    fn instruction_bytes_max(&self) -> usize {
        self.capacity_max * INSTRUCTION_BYTES_FACTOR + ENTRY_BYTES
    }

    /// Handles the instruction at the start of `input`, and removes it. Returns false, and changes nothing, if it is not complete.
    fn apply(&mut self, input: &mut &[u8], strings: &mut Vec<u8>) -> Result<bool, DecodeError> {
        let most = self.instruction_bytes_max();
        let given = &input[..input.len().min(most)];
        let mut rest = given;
        match self.try_apply(&mut rest, strings) {
            Ok(()) => {
                *input = &input[given.len() - rest.len()..];
                Ok(true)
            }
            Err(DecodeError::Primitive(Primitive::Truncated)) if given.len() == most => {
                Err(DecodeError::InstructionTooLarge)
            }
            Err(DecodeError::Primitive(Primitive::Truncated)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn try_apply(&mut self, input: &mut &[u8], strings: &mut Vec<u8>) -> Result<(), DecodeError> {
        let Some(&first) = input.first() else { return Err(Primitive::Truncated.into()) };
        strings.clear();
        let name = match first {
            0x80.. => {
                let index = integer::decode(input, 6)?;
                if first & 0x40 != 0 {
                    Decoded::Borrowed(static_table::field(index).ok_or(DecodeError::IndexOutOfRange)?.0)
                } else {
                    // The insertion can evict the entry of the name (§3.2.2).
                    strings.extend_from_slice(self.newest(index)?.0);
                    Decoded::Scratch(0..strings.len())
                }
            }
            0x40.. => string::decode::<5>(input, strings)?,
            0x20.. => {
                let capacity = integer::decode(input, 5)?;
                return self.set_capacity(capacity);
            }
            _ => {
                let index = integer::decode(input, 5)?;
                let (name, value) = self.newest(index)?;
                strings.extend_from_slice(name);
                strings.extend_from_slice(value);
                let (name, value) = strings.split_at(name.len());
                return self.insert(name, value);
            }
        };
        let value = string::decode::<LENGTH_PREFIX_BITS>(input, strings)?;
        self.insert(name.bytes(strings), value.bytes(strings))
    }

    fn set_capacity(&mut self, capacity: usize) -> Result<(), DecodeError> {
        if capacity > self.capacity_max {
            return Err(DecodeError::CapacityTooLarge);
        }
        self.table.set_max_size(capacity);
        Ok(())
    }

    fn insert(&mut self, name: &[u8], value: &[u8]) -> Result<(), DecodeError> {
        if name.len() + value.len() + ENTRY_BYTES > self.table.max_size() {
            return Err(DecodeError::EntryTooLarge);
        }
        self.table.insert(name, value);
        self.inserted += 1;
        Ok(())
    }

    /// Returns the entry with an index that counts backwards from the newest (§3.2.5).
    fn newest(&self, index: usize) -> Result<(&[u8], &[u8]), DecodeError> {
        self.table.field(index).ok_or(DecodeError::NoEntry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Handles instructions whole and byte by byte, which must lead to the same. Returns what is sent, and the entries.
    #[track_caller]
    fn run(input: &[u8]) -> Result<(usize, Vec<String>), DecodeError> {
        let run = |chunk: usize| {
            let (mut decoder, mut out, mut count) = (Decoder::new(220), BytesMut::new(), 0);
            for bytes in input.chunks(chunk) {
                count += decoder.receive_instructions(bytes, &mut out)?;
                assert!(decoder.heap_bytes() <= 2 * 220 + ENTRY_BYTES + 300, "{}", decoder.heap_bytes());
            }
            let entry = |(name, value): (Vec<u8>, Vec<u8>)| {
                format!("{} {}", name.escape_ascii(), value.escape_ascii())
            };
            // Each increment has one byte here.
            let inserted: u64 = out.iter().map(|byte| u64::from(*byte)).sum();
            assert_eq!(inserted, decoder.inserted());
            Ok((count, decoder.table.fields().into_iter().map(entry).collect()))
        };
        let whole = run(input.len().max(1));
        for chunk in [1, 2, 3, 7] {
            assert_eq!(run(chunk), whole, "in pieces of {chunk}");
        }
        whole
    }

    fn entries(entries: &[&str]) -> Vec<String> {
        entries.iter().map(|entry| (*entry).to_owned()).collect()
    }

    /// The examples of Appendix B.2 to B.5, one after another.
    #[test]
    fn the_examples_of_the_standard() {
        let b2 = [&b"\x3f\xbd\x01\xc0\x0f"[..], b"www.example.com", b"\xc1\x0c/sample/path"].concat();
        let b3 = [&b2[..], b"\x4acustom-key\x0ccustom-value"].concat();
        let b4 = [&b3[..], b"\x02"].concat();
        let b5 = [&b4[..], b"\x81\x0dcustom-value2"].concat();
        let authority = ":authority www.example.com";
        let (path, custom) = (":path /sample/path", "custom-key custom-value");
        assert_eq!(run(&b2), Ok((3, entries(&[path, authority]))));
        assert_eq!(run(&b3), Ok((4, entries(&[custom, path, authority]))));
        assert_eq!(run(&b4), Ok((5, entries(&[authority, custom, path, authority]))));
        let last = "custom-key custom-value2";
        assert_eq!(run(&b5), Ok((6, entries(&[last, authority, custom, path]))), "the first is evicted");
    }

    #[test]
    fn rejects_invalid_instructions_with_the_reason() {
        let large = [&b"\x3f\xbd\x01\x41a\x7f\x80\x01"[..], &[b'v'; 300]].concat();
        let many = [&b"\x3f\xbd\x01\x41a\x7f\xff\x7f"[..], &[b'v'; 500]].concat();
        let mut huffman = BytesMut::from(&b"\x3f\xbd\x01"[..]);
        // 140 line breaks have 30 bits each.
        let text = [b'\n'; 140];
        let mut code = vec![0; crate::hpack::huffman::encoded_length(&text)];
        crate::hpack::huffman::encode(&text, &mut code);
        huffman.extend_from_slice(b"\x41a");
        integer::encode(code.len(), 7, 0x80, &mut huffman);
        huffman.extend_from_slice(&code);
        for (input, error) in [
            (&b"\x3f\xbe\x01"[..], DecodeError::CapacityTooLarge),
            (b"\x41a\x01b", DecodeError::EntryTooLarge),
            (b"\x3f\x02\x41a\x01b", DecodeError::EntryTooLarge),
            (&large, DecodeError::EntryTooLarge),
            (&many, DecodeError::InstructionTooLarge),
            // Whole, and of an entry that would fit: 3.75 bytes for each line break.
            (&huffman, DecodeError::InstructionTooLarge),
            (b"\x00", DecodeError::NoEntry),
            (b"\x80", DecodeError::NoEntry),
            (b"\x3f\xbd\x01\x41a\x01b\x01", DecodeError::NoEntry),
            (b"\x3f\xbd\x01\x41a\x01b\x81", DecodeError::NoEntry),
            (b"\x3f\xbd\x01\x41a\x01b\x20\x00", DecodeError::NoEntry),
            (b"\xff\x24", DecodeError::IndexOutOfRange),
            (b"\x3f\xff\xff\xff\xff\xff\xff", Primitive::IntegerTooLarge.into()),
            (b"\x3f\xbd\x01\x61\x00", Primitive::HuffmanPadding.into()),
        ] {
            assert_eq!(run(input), Err(error), "{}", input.escape_ascii());
            assert!(!error.to_string().is_empty());
        }
    }

    /// The entry with the name of the new one is the oldest.
    #[test]
    fn a_name_survives_the_eviction_of_its_entry() {
        let value = [b'v'; 60];
        let first = [&b"\x3f\x45\x44name\x3c"[..], &value].concat();
        let same_name = [&first[..], b"\x80\x3c", &value].concat();
        let entry = format!("name {}", "v".repeat(60));
        assert_eq!(run(&same_name), Ok((3, vec![entry.clone()])));
        assert_eq!(run(&[&first[..], b"\x00"].concat()), Ok((3, vec![entry])), "a duplicate");
    }

    #[test]
    fn strings_may_be_huffman_coded() {
        assert_eq!(run(b"\x3f\xbd\x01\x62\x18\xc7\x82\x18\xc7"), Ok((2, entries(&["aaa aaa"]))));
        assert_eq!(run(b"\x3f\xbd\x01\xc0\x82\x18\xc7"), Ok((2, entries(&[":authority aaa"]))));
    }
}
