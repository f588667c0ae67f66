//! What is encoded once for each compression of fields, and sent repeatedly.

use std::sync::OnceLock;

use bytes::Bytes;

/// A compression of fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// That of HTTP/2 (RFC 7541).
    Hpack,
    /// That of HTTP/3 (RFC 9204).
    Qpack,
}

/// Encoded fields, each once it is needed.
#[derive(Debug, Clone, Default)]
pub(crate) struct Compressed {
    hpack: OnceLock<Bytes>,
    qpack: OnceLock<Bytes>,
}

impl Compressed {
    /// Returns what `encode` makes in the first call for this compression.
    #[inline]
    pub(crate) fn get(&self, compression: Compression, encode: impl FnOnce() -> Bytes) -> &[u8] {
        let encoded = match compression {
            Compression::Hpack => &self.hpack,
            Compression::Qpack => &self.qpack,
        };
        encoded.get_or_init(encode)
    }
}
