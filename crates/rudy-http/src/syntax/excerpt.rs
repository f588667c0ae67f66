//! A few of a stranger's bytes.

use std::fmt;

/// The first bytes of what came, for people.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Excerpt {
    bytes: [u8; Self::LENGTH],
    length: u8,
    is_cut: bool,
}

impl Excerpt {
    /// Enough to know another protocol, or the wrong line, by.
    const LENGTH: usize = 38;

    /// Of these bytes.
    #[must_use]
    pub fn of(came: &[u8]) -> Self {
        let mut bytes = [0; Self::LENGTH];
        let length = came.len().min(Self::LENGTH);
        bytes[..length].copy_from_slice(&came[..length]);
        Self { bytes, length: u8::try_from(length).unwrap_or(u8::MAX), is_cut: came.len() > length }
    }

    /// The bytes as they came.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

/// In quotes, with escapes for what cannot be shown: the bytes are a stranger's, and a terminal obeys some of them.
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
