//! String literals (RFC 7541 §5.2).

use std::ops::Range;

use bytes::BytesMut;

use super::{DecodeError, huffman, integer};

/// The number of bits in the prefix of a length, if the string is not part of something else.
pub(crate) const LENGTH_PREFIX_BITS: u32 = 7;

/// The location of a decoded string.
pub(crate) enum Decoded<'a> {
    /// The string is in the field block or in the static table.
    Borrowed(&'a [u8]),
    /// The string is in the scratch buffer.
    Scratch(Range<usize>),
}

impl<'a> Decoded<'a> {
    #[inline]
    pub(crate) fn bytes(&self, scratch: &'a [u8]) -> &'a [u8] {
        match self {
            Self::Borrowed(bytes) => bytes,
            Self::Scratch(range) => &scratch[range.clone()],
        }
    }
}

/// Decodes the string at the start of `input` and removes its bytes. Its length has a prefix of `PREFIX_BITS`, after the bit that marks
/// the Huffman code. A Huffman-coded string is appended to `scratch`.
#[inline]
pub(crate) fn decode<'a, const PREFIX_BITS: u32>(
    input: &mut &'a [u8],
    scratch: &mut Vec<u8>,
) -> Result<Decoded<'a>, DecodeError> {
    let is_huffman = input.first().is_some_and(|byte| byte & (1 << PREFIX_BITS) != 0);
    let length = integer::decode(input, PREFIX_BITS)?;
    let Some((bytes, rest)) = input.split_at_checked(length) else { return Err(DecodeError::Truncated) };
    *input = rest;
    if !is_huffman {
        return Ok(Decoded::Borrowed(bytes));
    }
    let start = scratch.len();
    huffman::decode(bytes, scratch)?;
    Ok(Decoded::Scratch(start..scratch.len()))
}

/// Appends a string, with the Huffman code if that is shorter. `PATTERN` has the bits before that of the Huffman code.
pub(crate) fn encode<const PREFIX_BITS: u32, const PATTERN: u8>(text: &[u8], out: &mut BytesMut) {
    let encoded_length = huffman::encoded_length(text);
    if encoded_length < text.len() {
        integer::encode(encoded_length, PREFIX_BITS, PATTERN | 1 << PREFIX_BITS, out);
        let start = out.len();
        out.resize(start + encoded_length, 0);
        huffman::encode(text, &mut out[start..]);
    } else {
        integer::encode(text.len(), PREFIX_BITS, PATTERN, out);
        out.extend_from_slice(text);
    }
}
