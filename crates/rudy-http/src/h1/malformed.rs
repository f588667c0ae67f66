//! What is wrong with bytes that both roles read in the same way.

/// A mistake in lines, fields or chunks. Each role puts it in its own words: a server refuses the request, a client
/// says what is wrong with the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Malformed {
    /// A chunk that breaks RFC 9112 §7.1; the words say how.
    BadChunk(&'static str),
    /// A line that ends in LF alone.
    BareLineFeed,
    /// Chunks that together are larger than the limit.
    BodyTooLarge,
    /// A field continued on the next line (RFC 9112 §5.2).
    FoldedField,
    /// A trailer field that may not be one (RFC 9110 §6.5.1).
    ForbiddenTrailer,
    /// A field line whose name or value has characters it may not have (RFC 9112 §5.1, RFC 9110 §5.5).
    InvalidField,
    /// A head, or a trailer section, with too many bytes or fields.
    SectionTooLarge,
}
