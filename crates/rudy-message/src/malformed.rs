//! The errors in parts of a message that both roles decode.

/// An error in lines, fields or chunks. A server converts it to a `Rejection`, a client to a `Fault`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Malformed {
    /// A chunk that violates RFC 9112 §7.1, with the reason.
    BadChunk(&'static str),
    /// A line that ends in LF without CR.
    BareLineFeed,
    /// Chunks whose total size exceeds the limit.
    BodyTooLarge,
    /// A field continued on the next line (RFC 9112 §5.2).
    FoldedField,
    /// A field that is not allowed as a trailer (RFC 9110 §6.5.1).
    ForbiddenTrailer,
    /// A field line with invalid characters in its name or value (RFC 9112 §5.1, RFC 9110 §5.5).
    InvalidField,
    /// A head or a trailer section with too many bytes or fields.
    SectionTooLarge,
}
