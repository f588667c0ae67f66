//! Excerpts of received bytes, for error messages.

use std::fmt;

/// The first bytes of received data, for error messages.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Excerpt {
    bytes: [u8; Self::LENGTH],
    length: u8,
    is_cut: bool,
}

impl Excerpt {
    /// Long enough to recognise another protocol or the invalid line.
    const LENGTH: usize = 38;

    /// Copies the first bytes of `received`.
    #[must_use]
    pub fn of(received: &[u8]) -> Self {
        let mut bytes = [0; Self::LENGTH];
        let length = received.len().min(Self::LENGTH);
        bytes[..length].copy_from_slice(&received[..length]);
        Self { bytes, length: u8::try_from(length).unwrap_or(u8::MAX), is_cut: received.len() > length }
    }

    /// Returns the unescaped bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

/// Quotes and escapes the bytes: they come from a peer and may contain control sequences for a terminal.
impl fmt::Display for Excerpt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}{}\"", self.as_bytes().escape_ascii(), if self.is_cut { "..." } else { "" })
    }
}

impl fmt::Debug for Excerpt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
