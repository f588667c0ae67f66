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
    /// A reference to an entry of the dynamic table that was evicted, was not inserted, or that the section must not need (§2.2.1).
    #[error(
        "a reference to an entry that the dynamic table does not have, or that the section must not need"
    )]
    NoEntry,
    /// The Required Insert Count of a section is impossible with this table (§4.5.1.1).
    #[error("the Required Insert Count of a section is impossible with this table")]
    RequiredInsertCount,
    /// The Base of a section is negative (§4.5.1.2).
    #[error("the Base of a section is negative")]
    NegativeBase,
    /// The capacity of the dynamic table is above the limit in the settings (§4.3.1).
    #[error("the capacity of the dynamic table is above SETTINGS_QPACK_MAX_TABLE_CAPACITY")]
    CapacityTooLarge,
    /// An entry is larger than the dynamic table (§3.2.2).
    #[error("an entry is larger than the dynamic table")]
    EntryTooLarge,
    /// An instruction is larger than an entry can make it.
    #[error("an instruction is larger than an entry can make it")]
    InstructionTooLarge,
    /// The peer acknowledges entries of a dynamic table that this side does not use (§4.4).
    #[error("an acknowledgement of entries that were never sent")]
    NothingToAcknowledge,
}
