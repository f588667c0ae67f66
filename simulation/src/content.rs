//! The bytes of a response: decided by its name, so that everyone knows what is right.

/// The period of a row of bytes, which is not one of any buffer.
const ROW: u8 = 251;

/// Returns the place of the first byte that is not that of a resource, from this offset on.
#[must_use]
pub(crate) fn first_wrong(resource: u64, offset: usize, bytes: &[u8]) -> Option<usize> {
    let expected = content(resource, offset, bytes.len());
    if expected == bytes {
        return None;
    }
    expected.iter().zip(bytes).position(|(expected, own)| expected != own)
}

/// Returns the bytes of a resource from this offset on: rows of numbers in sequence, of which each begins with a number of its own.
#[must_use]
pub(crate) fn content(resource: u64, offset: usize, length: usize) -> Vec<u8> {
    let row = usize::from(ROW);
    let (first, skipped) = (offset / row, offset % row);
    let mut bytes = Vec::with_capacity(skipped + length + row);
    for number in first.. {
        if bytes.len() >= skipped + length {
            break;
        }
        let mixed = (resource ^ number as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
        let begin = mixed.to_le_bytes()[0];
        bytes.extend((0..ROW).map(|at| begin.wrapping_add(at)));
    }
    bytes.truncate(skipped + length);
    bytes.drain(..skipped);
    bytes
}
