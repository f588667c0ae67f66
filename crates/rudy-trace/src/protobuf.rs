//! The part of the encoding of protocol buffers that OTLP needs: <https://protobuf.dev/programming-guides/encoding/>.

/// The types of fields on the wire.
const VARINT: u64 = 0;
const FIXED64: u64 = 1;
const BYTES: u64 = 2;
const FIXED32: u64 = 5;

/// The bytes that are reserved for the length of a message before it is known: enough for 256 MiB.
const LENGTH_BYTES: usize = 4;

/// Returns the bytes of an integer, and their number: seven bits in each, the lowest first.
pub(crate) fn varint(mut value: u64) -> ([u8; 10], usize) {
    let (mut bytes, mut length) = ([0; 10], 0);
    while value >= 0x80 {
        bytes[length] = value.to_le_bytes()[0] | 0x80;
        value >>= 7;
        length += 1;
    }
    bytes[length] = value.to_le_bytes()[0];
    (bytes, length + 1)
}

/// Appends the fields of a message.
pub(crate) struct Message<'a>(pub(crate) &'a mut Vec<u8>);

impl Message<'_> {
    fn varint(&mut self, value: u64) {
        let (bytes, length) = varint(value);
        self.0.extend_from_slice(&bytes[..length]);
    }

    /// Appends an integer.
    pub(crate) fn number(&mut self, field: u64, value: u64) {
        self.varint(field << 3 | VARINT);
        self.varint(value);
    }

    /// Appends an integer of eight bytes.
    pub(crate) fn fixed64(&mut self, field: u64, value: u64) {
        self.varint(field << 3 | FIXED64);
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    /// Appends an integer of four bytes.
    pub(crate) fn fixed32(&mut self, field: u64, value: u32) {
        self.varint(field << 3 | FIXED32);
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    /// Appends bytes, or a text.
    pub(crate) fn bytes(&mut self, field: u64, value: &[u8]) {
        self.varint(field << 3 | BYTES);
        self.varint(value.len() as u64);
        self.0.extend_from_slice(value);
    }

    /// Appends a pair of a key and a value, which has this field in a message of its own (`KeyValue` and `AnyValue` of OTLP). Most pairs are
    /// short, and there are about twenty in an exchange: their lengths are known, and written at once.
    pub(crate) fn pair(&mut self, field: u64, key: &[u8], tag: u8, value: &[u8], has_length: bool) {
        let header = if has_length { 2 } else { 1 };
        let lengths =
            [6 + key.len() + value.len() + header - 2, value.len() + header, key.len(), value.len()];
        let short = lengths.map(|length| u8::try_from(length).ok().filter(|length| *length < 0x80));
        let [Some(pair), Some(any), Some(key_length), Some(length)] = short else {
            return self.message(field, |pair| {
                pair.bytes(1, key);
                pair.message(2, |any| {
                    any.0.push(tag);
                    if has_length {
                        any.varint(value.len() as u64);
                    }
                    any.0.extend_from_slice(value);
                });
            });
        };
        self.varint(field << 3 | BYTES);
        self.0.reserve(lengths[0] + 1);
        self.0.extend_from_slice(&[pair, 0x0a, key_length]);
        self.0.extend_from_slice(key);
        self.0.extend_from_slice(&[0x12, any, tag, length][..2 + header]);
        self.0.extend_from_slice(value);
    }

    /// Appends a message. Its length is written in a fixed number of bytes, which a decoder accepts: so the message is written once, in its
    /// place.
    pub(crate) fn message(&mut self, field: u64, write: impl FnOnce(&mut Message<'_>)) {
        self.varint(field << 3 | BYTES);
        let start = self.0.len();
        self.0.extend_from_slice(&[0; LENGTH_BYTES]);
        write(self);
        let mut length = self.0.len() - start - LENGTH_BYTES;
        for (index, place) in self.0[start..start + LENGTH_BYTES].iter_mut().enumerate() {
            let is_last = index == LENGTH_BYTES - 1;
            *place = (length & 0x7f).to_le_bytes()[0] | if is_last { 0 } else { 0x80 };
            length >>= 7;
        }
    }
}

/// A field of a received message.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Value<'a> {
    /// An integer of any size.
    Number(u64),
    /// Bytes, a text or a message.
    Bytes(&'a [u8]),
}

/// Reads the fields of a message, with their numbers. It ends at the first error.
pub(crate) struct Fields<'a>(pub(crate) &'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, bytes: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(bytes)?;
        self.0 = rest;
        Some(taken)
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.take(1)?[0];
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    fn little_endian(&mut self, bytes: usize) -> Option<u64> {
        Some(self.take(bytes)?.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)))
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = (u64, Value<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let tag = self.varint()?;
        let value = match tag & 7 {
            VARINT => Value::Number(self.varint()?),
            FIXED64 => Value::Number(self.little_endian(8)?),
            FIXED32 => Value::Number(self.little_endian(4)?),
            BYTES => {
                let length = usize::try_from(self.varint()?).ok()?;
                Value::Bytes(self.take(length)?)
            }
            _ => return None,
        };
        Some((tag >> 3, value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_encoded_as_in_the_documentation() {
        let mut bytes = Vec::new();
        Message(&mut bytes).number(1, 150);
        assert_eq!(bytes, [0x08, 0x96, 0x01]);
        bytes.clear();
        Message(&mut bytes).bytes(2, b"testing");
        assert_eq!(bytes, *b"\x12\x07testing");
    }

    #[test]
    fn a_message_is_decoded_as_it_was_encoded() {
        let mut bytes = Vec::new();
        let mut message = Message(&mut bytes);
        message.number(1, u64::MAX);
        message.fixed64(17, 3);
        message.message(2, |inner| {
            inner.fixed32(1, 7);
            inner.message(2, |_| ());
            inner.bytes(3, &[b'x'; 300]);
        });
        let fields: Vec<_> = Fields(&bytes).collect();
        let [(1, Value::Number(u64::MAX)), (17, Value::Number(3)), (2, Value::Bytes(inner))] = fields[..]
        else {
            panic!("{fields:?}")
        };
        let expected = [(1, Value::Number(7)), (2, Value::Bytes(b"")), (3, Value::Bytes(&[b'x'; 300]))];
        assert_eq!(Fields(inner).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_pair_is_two_messages() {
        for length in [0, 1, 100, 127, 128, 1000] {
            let (value, mut bytes, mut expected) = (vec![b'v'; length], Vec::new(), Vec::new());
            Message(&mut bytes).pair(9, b"key", 0x0a, &value, true);
            Message(&mut expected).message(9, |pair| {
                pair.bytes(1, b"key");
                pair.message(2, |any| any.bytes(1, &value));
            });
            let [pair, same] = [&bytes, &expected].map(|bytes| {
                let Some((9, Value::Bytes(pair))) = Fields(bytes).next() else { panic!("{bytes:?}") };
                let [(1, Value::Bytes(key)), (2, Value::Bytes(any))] = Fields(pair).collect::<Vec<_>>()[..]
                else {
                    panic!("{pair:?}")
                };
                (
                    key.to_vec(),
                    Fields(any).map(|(field, value)| format!("{field} {value:?}")).collect::<Vec<_>>(),
                )
            });
            assert_eq!(pair, same, "{length}");
        }
        let mut bytes = Vec::new();
        Message(&mut bytes).pair(1, b"k", 0x18, &[0x96, 0x01], false);
        assert_eq!(bytes, [0x0a, 8, 0x0a, 1, b'k', 0x12, 3, 0x18, 0x96, 0x01]);
    }

    #[test]
    fn what_is_cut_or_malformed_ends_the_fields() {
        for bytes in [&b"\x08"[..], b"\x08\x80", b"\x12\x05test", b"\x0d\x01\x02\x03", b"\x0b", &[0xff; 12]] {
            assert_eq!(Fields(bytes).next(), None, "{bytes:?}");
        }
    }
}
