//! The bytes of a response: decided by its name, so that everyone knows what is right.

/// Returns the bytes of a resource from this offset on.
#[must_use]
pub(crate) fn content(resource: u64, offset: usize, length: usize) -> Vec<u8> {
    (offset..offset + length).map(|at| byte(resource, at)).collect()
}

/// Returns the byte of a resource at this place. The period is not one of any buffer.
#[must_use]
#[inline]
pub(crate) fn byte(resource: u64, at: usize) -> u8 {
    let mixed = (resource ^ (at as u64 / 251)).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
    mixed.to_le_bytes()[0].wrapping_add((at % 251).to_le_bytes()[0])
}
