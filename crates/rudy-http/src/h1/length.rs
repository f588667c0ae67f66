//! How long a body is, and how that is told (RFC 9112 §6).

/// How long a request's body is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyLength {
    /// As many bytes as this; 0 is no body.
    Known(u64),
    /// Until the last chunk says so.
    Chunked,
}

/// How the body of an answer is delimited (RFC 9112 §6.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// There is none on the wire: HEAD, 1xx, 204, 304, and 2xx to CONNECT.
    None,
    /// This many bytes.
    Length(u64),
    /// Chunks.
    Chunked,
    /// The end of the connection, because nobody knows the length beforehand.
    UntilClose,
}

/// The first of `bytes`, as many as are left; they are counted.
pub(super) fn split_up_to<'a>(left: &mut u64, bytes: &'a [u8]) -> &'a [u8] {
    let length = usize::try_from(*left).map_or(bytes.len(), |left| left.min(bytes.len()));
    *left -= length as u64;
    &bytes[..length]
}
