//! The reasons for which a field section or an instruction cannot be decoded.

use crate::hpack;

/// A violation of RFC 9204. The connection must be closed: with `QPACK_DECOMPRESSION_FAILED` for a field section, otherwise with the
/// error of the stream that has the instruction (RFC 9204 §6).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// An integer or a string is invalid; both are those of HPACK (§4.1).
    #[error(transparent)]
    Primitive(#[from] hpack::DecodeError),
    /// An index is beyond the last entry of the static table (§3.1).
    #[error("an index is beyond the last entry of the static table")]
    IndexOutOfRange,
    /// A section or an instruction needs entries of the dynamic table, whose capacity is 0 (§3.2.3).
    #[error("a reference to the dynamic table, whose capacity is 0")]
    NoDynamicTable,
    /// The peer acknowledges entries of a dynamic table that this side does not use (§4.4).
    #[error("an acknowledgement of entries that were never sent")]
    NothingToAcknowledge,
}
