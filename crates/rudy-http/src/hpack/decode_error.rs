//! The reasons for which a field block cannot be decoded.

/// A violation of RFC 7541 in a field block. The connection must be closed with `COMPRESSION_ERROR` (RFC 9113 §4.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The block ends within an integer or a string.
    #[error("the field block ends within an integer or a string")]
    Truncated,
    /// An integer is larger than 2^28 or has more than five bytes after its prefix.
    #[error("an integer is larger than 2^28 or has more than five bytes after its prefix")]
    IntegerTooLarge,
    /// A field has the index 0 (§6.1).
    #[error("a field has the index 0; the first index is 1")]
    IndexZero,
    /// An index is beyond the last entry of the dynamic table (§2.3.3).
    #[error("an index is beyond the last entry of the dynamic table")]
    IndexOutOfRange,
    /// A string ends in more than seven bits of padding, in padding other than ones, or within a symbol (§5.2).
    #[error("a Huffman-coded string does not end in at most seven bits of padding, all ones")]
    HuffmanPadding,
    /// A string contains the symbol for its end (§5.2).
    #[error("a Huffman-coded string contains the symbol for its end")]
    HuffmanEndOfString,
    /// A size update follows a field (§4.2).
    #[error("a size update of the dynamic table follows a field; expected before the first")]
    MisplacedSizeUpdate,
    /// A block begins with more than two size updates (§4.2).
    #[error("a field block begins with more than two size updates of the dynamic table")]
    TooManySizeUpdates,
    /// A size update is above the limit in the settings (§6.3).
    #[error("a size update of the dynamic table is above SETTINGS_HEADER_TABLE_SIZE")]
    SizeUpdateTooLarge,
}
