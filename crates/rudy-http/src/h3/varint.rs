//! Integers of variable length (RFC 9000 §16): the two highest bits of the first byte say how many bytes there are.

use bytes::{BufMut, BytesMut};

/// The largest integer.
pub(super) const MAX: u64 = (1 << 62) - 1;

/// Removes the integer at the start of `input`. `None` if `input` ends before it does.
#[inline]
pub(super) fn take(input: &mut &[u8]) -> Option<u64> {
    let first = *input.first()?;
    let (bytes, rest) = input.split_at_checked(1 << (first >> 6))?;
    *input = rest;
    Some(bytes[1..].iter().fold(u64::from(first & 0x3f), |value, byte| value << 8 | u64::from(*byte)))
}

/// Returns the integer that `input` consists of.
pub(super) fn only(mut input: &[u8]) -> Option<u64> {
    take(&mut input).filter(|_| input.is_empty())
}

/// Appends an integer, of at most [`MAX`].
#[inline]
pub(super) fn put(value: u64, out: &mut BytesMut) {
    match value {
        0..0x40 => out.put_uint(value, 1),
        0x40..0x4000 => out.put_uint(value | 0x4000, 2),
        0x4000..0x4000_0000 => out.put_uint(value | 0x8000_0000, 4),
        _ => out.put_u64(value | 0xc000_0000_0000_0000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 9000 Appendix A.1.
    #[test]
    fn the_examples_of_the_standard() {
        for (bytes, value) in [
            (&[0xc2, 0x19, 0x7c, 0x5e, 0xff, 0x14, 0xe8, 0x8c][..], 151_288_809_941_952_652),
            (&[0x9d, 0x7f, 0x3e, 0x7d], 494_878_333),
            (&[0x7b, 0xbd], 15_293),
            (&[0x25], 37),
        ] {
            let mut out = BytesMut::new();
            put(value, &mut out);
            assert_eq!((&out[..], only(bytes)), (bytes, Some(value)));
        }
        assert_eq!(only(&[0x40, 0x25]), Some(37), "not the shortest form");
    }

    #[test]
    fn an_integer_is_the_encoded_one_and_needs_all_of_its_bytes() {
        for value in (0..62).flat_map(|bits| [(1 << bits) - 1, 1 << bits]).chain([MAX]) {
            let mut bytes = BytesMut::new();
            put(value, &mut bytes);
            assert_eq!(only(&bytes), Some(value));
            for length in 0..bytes.len() {
                assert_eq!(take(&mut &bytes[..length]), None);
            }
            bytes.put_u8(0);
            assert_eq!(only(&bytes), None);
        }
    }
}
