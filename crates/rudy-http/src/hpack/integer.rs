//! Integers with a prefix (RFC 7541 §5.1).

use bytes::{BufMut, BytesMut};

use super::DecodeError;

/// The largest integer that is accepted: more than any index, length or table size that fits the limits of a connection.
const VALUE_MAX: u64 = 1 << 28;

/// The maximum number of bytes after the prefix. Five hold 35 bits; more would be leading zeros only (§5.1).
const CONTINUATION_BYTES_MAX: usize = 5;

/// The largest integer of QPACK (RFC 9204 §4.1.1): a number of a stream, or a distance that has no limit. Nine bytes hold 63 bits.
const LONG_VALUE_MAX: u64 = (1 << 62) - 1;
const LONG_CONTINUATION_BYTES_MAX: usize = 9;

/// Decodes the integer at the start of `input`, whose first byte has `prefix_bits` bits of it, and removes its bytes.
#[inline]
pub(crate) fn decode(input: &mut &[u8], prefix_bits: u32) -> Result<usize, DecodeError> {
    let value = decode_up_to::<CONTINUATION_BYTES_MAX, VALUE_MAX>(input, prefix_bits)?;
    usize::try_from(value).map_err(|_| DecodeError::IntegerTooLarge)
}

/// Decodes an integer of up to 62 bits.
pub(crate) fn decode_long(input: &mut &[u8], prefix_bits: u32) -> Result<u64, DecodeError> {
    decode_up_to::<LONG_CONTINUATION_BYTES_MAX, LONG_VALUE_MAX>(input, prefix_bits)
}

#[inline]
fn decode_up_to<const BYTES_MAX: usize, const VALUE_MAX: u64>(
    input: &mut &[u8],
    prefix_bits: u32,
) -> Result<u64, DecodeError> {
    let Some((&first, rest)) = input.split_first() else { return Err(DecodeError::Truncated) };
    *input = rest;
    let prefix_max = prefix_max(prefix_bits);
    let prefix = first & prefix_max;
    if prefix < prefix_max {
        return Ok(u64::from(prefix));
    }
    decode_continuation::<BYTES_MAX, VALUE_MAX>(input, prefix)
}

/// Appends an integer whose prefix has `prefix_bits` bits. `pattern` has the bits before the prefix.
#[inline]
pub(crate) fn encode(value: usize, prefix_bits: u32, pattern: u8, out: &mut BytesMut) {
    encode_long(value as u64, prefix_bits, pattern, out);
}

/// Appends an integer of up to 62 bits.
#[inline]
pub(crate) fn encode_long(value: u64, prefix_bits: u32, pattern: u8, out: &mut BytesMut) {
    let prefix_max = prefix_max(prefix_bits);
    match u8::try_from(value) {
        Ok(small) if small < prefix_max => out.put_u8(pattern | small),
        _ => {
            out.put_u8(pattern | prefix_max);
            encode_continuation(value - u64::from(prefix_max), out);
        }
    }
}

fn prefix_max(prefix_bits: u32) -> u8 {
    u8::MAX >> (u8::BITS - prefix_bits)
}

fn decode_continuation<const BYTES_MAX: usize, const VALUE_MAX: u64>(
    input: &mut &[u8],
    prefix: u8,
) -> Result<u64, DecodeError> {
    let mut value = u64::from(prefix);
    for index in 0..BYTES_MAX {
        let Some((&byte, rest)) = input.split_first() else { return Err(DecodeError::Truncated) };
        *input = rest;
        value += u64::from(byte & 0x7f) << (7 * index);
        if byte < 0x80 {
            return if value <= VALUE_MAX { Ok(value) } else { Err(DecodeError::IntegerTooLarge) };
        }
    }
    Err(DecodeError::IntegerTooLarge)
}

fn encode_continuation(mut value: u64, out: &mut BytesMut) {
    while value >= 0x80 {
        out.put_u8(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    out.put_u8(value.to_le_bytes()[0]);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(value: usize, prefix_bits: u32, pattern: u8) -> Vec<u8> {
        let mut out = BytesMut::new();
        encode(value, prefix_bits, pattern, &mut out);
        out.to_vec()
    }

    #[test]
    fn integers_of_appendix_c_1() {
        for (value, prefix_bits, pattern, bytes) in [
            (10, 5, 0xe0, &[0b1110_1010][..]),
            (1337, 5, 0, &[0b0001_1111, 0b1001_1010, 0b0000_1010]),
            (42, 8, 0, &[0b0010_1010]),
        ] {
            assert_eq!(encoded(value, prefix_bits, pattern), bytes);
            assert_eq!(decode(&mut &bytes[..], prefix_bits), Ok(value));
        }
    }

    #[test]
    fn a_decoded_integer_is_the_encoded_one() {
        let values = (0..1000).chain((10..=28).flat_map(|bits| [(1 << bits) - 1, 1 << bits]));
        for value in values {
            for prefix_bits in 4..=7 {
                let bytes = [&encoded(value, prefix_bits, 0)[..], b"rest"].concat();
                let mut input = &bytes[..];
                assert_eq!(decode(&mut input, prefix_bits), Ok(value));
                assert_eq!(input, b"rest");
                for length in 0..bytes.len() - 4 {
                    assert_eq!(decode(&mut &bytes[..length], prefix_bits), Err(DecodeError::Truncated));
                }
            }
        }
    }

    #[test]
    fn a_long_integer_has_up_to_62_bits() {
        for value in (0..62).flat_map(|bits| [(1 << bits) - 1, 1 << bits]).chain([LONG_VALUE_MAX]) {
            for prefix_bits in 3..=8 {
                let mut out = BytesMut::new();
                encode_long(value, prefix_bits, 0, &mut out);
                assert_eq!(decode_long(&mut &out[..], prefix_bits), Ok(value));
                assert_eq!(decode_long(&mut &out[..out.len() - 1], prefix_bits), Err(DecodeError::Truncated));
            }
        }
        let mut out = BytesMut::new();
        encode_long(LONG_VALUE_MAX + 1, 7, 0, &mut out);
        for bytes in [&out[..], &[&[0x7f][..], &[0xff; 9], &[0]].concat()] {
            assert_eq!(decode_long(&mut &bytes[..], 7), Err(DecodeError::IntegerTooLarge));
        }
    }

    #[test]
    fn rejects_an_integer_above_2_to_28_and_one_with_six_continuation_bytes() {
        for bytes in [
            &encoded((1 << 28) + 1, 7, 0x80)[..],
            &encoded(usize::MAX, 7, 0x80),
            &[0xff, 0xff, 0xff, 0xff, 0xff, 0x7f],
            &[0xff, 0x80, 0x80, 0x80, 0x80, 0x80, 0x00],
        ] {
            assert_eq!(decode(&mut &bytes[..], 7), Err(DecodeError::IntegerTooLarge), "{bytes:?}");
        }
        assert_eq!(decode(&mut &[0xff, 0x80, 0x80, 0x80, 0x80, 0x00][..], 7), Ok(127));
    }
}
