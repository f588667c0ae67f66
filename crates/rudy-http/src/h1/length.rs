//! The length and the framing of bodies (RFC 9112 §6).

/// The length of a request body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyLength {
    /// The number of bytes; 0 is no body.
    Known(u64),
    /// Unknown: the body is chunked.
    Chunked,
}

/// How the body of a response is delimited (RFC 9112 §6.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// No body on the wire: HEAD, 1xx, 204, 304, and 2xx to CONNECT.
    None,
    /// The number of bytes.
    Length(u64),
    /// Chunks.
    Chunked,
    /// The end of the connection, because the length is unknown.
    UntilClose,
}

/// Returns at most `left` of the first `bytes`, and subtracts their number from `left`.
pub(super) fn split_up_to<'a>(left: &mut u64, bytes: &'a [u8]) -> &'a [u8] {
    let length = usize::try_from(*left).map_or(bytes.len(), |left| left.min(bytes.len()));
    *left -= length as u64;
    &bytes[..length]
}
