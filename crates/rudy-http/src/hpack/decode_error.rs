//! The reasons for which a field block cannot be decoded.

use std::fmt;

/// A violation of RFC 7541 in a field block. The connection must be closed with `COMPRESSION_ERROR` (RFC 9113 §4.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DecodeError {
    /// The block ends within an integer or a string.
    Truncated,
    /// An integer is larger than 2^28 or has more than five bytes after its prefix.
    IntegerTooLarge,
    /// A field has the index 0 (§6.1).
    IndexZero,
    /// An index is beyond the last entry of the dynamic table (§2.3.3).
    IndexOutOfRange,
    /// A string ends in more than seven bits of padding, in padding other than ones, or within a symbol (§5.2).
    HuffmanPadding,
    /// A string contains the symbol for its end (§5.2).
    HuffmanEndOfString,
    /// A size update follows a field (§4.2).
    MisplacedSizeUpdate,
    /// A block begins with more than two size updates (§4.2).
    TooManySizeUpdates,
    /// A size update is above the limit in the settings (§6.3).
    SizeUpdateTooLarge,
}

impl DecodeError {
    fn reason(self) -> &'static str {
        match self {
            Self::Truncated => "the field block ends within an integer or a string",
            Self::IntegerTooLarge => {
                "an integer is larger than 2^28 or has more than five bytes after its prefix"
            }
            Self::IndexZero => "a field has the index 0; the first index is 1",
            Self::IndexOutOfRange => "an index is beyond the last entry of the dynamic table",
            Self::HuffmanPadding => {
                "a Huffman-coded string does not end in at most seven bits of padding, all ones"
            }
            Self::HuffmanEndOfString => "a Huffman-coded string contains the symbol for its end",
            Self::MisplacedSizeUpdate => {
                "a size update of the dynamic table follows a field; expected before the first"
            }
            Self::TooManySizeUpdates => {
                "a field block begins with more than two size updates of the dynamic table"
            }
            Self::SizeUpdateTooLarge => {
                "a size update of the dynamic table is above SETTINGS_HEADER_TABLE_SIZE"
            }
        }
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.reason())
    }
}

impl std::error::Error for DecodeError {}
