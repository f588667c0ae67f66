//! Bodies with a length.

/// Returns at most `left` of the first `bytes`, and subtracts their number from `left`.
pub(super) fn split_up_to<'a>(left: &mut u64, bytes: &'a [u8]) -> &'a [u8] {
    let length = usize::try_from(*left).map_or(bytes.len(), |left| left.min(bytes.len()));
    *left -= length as u64;
    &bytes[..length]
}
