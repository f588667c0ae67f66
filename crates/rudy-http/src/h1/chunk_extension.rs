//! Chunk extensions (RFC 9112 §7.1.1). Their grammar is checked, because a recipient that reads past a mistake in it may end
//! the chunk's line elsewhere than the next one does. Their meaning is ignored: no extension is in use.

use crate::syntax::is_token;

/// How far the extensions of a chunk have come:
/// `chunk-ext = *( BWS ";" BWS chunk-ext-name [ BWS "=" BWS chunk-ext-val ] )`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Extension {
    /// Behind the chunk's size, or behind white space after a value.
    BeforeSemicolon,
    /// Behind a semicolon.
    BeforeName,
    Name,
    /// Behind white space after a name.
    AfterName,
    /// Behind an equals sign.
    BeforeValue,
    /// In a value that is a token.
    Token,
    /// In a value that is a quoted string (RFC 9110 §5.6.4).
    Quoted,
    /// Behind a backslash in one.
    Escape,
    /// Behind the quotation mark that ends one.
    AfterQuoted,
}

impl Extension {
    /// What follows this byte. `None` if it may not stand here.
    pub(super) fn next(self, byte: u8) -> Option<Self> {
        let is_token = is_token(byte);
        Some(match (self, byte) {
            (Self::BeforeName | Self::BeforeValue, b' ' | b'\t') => self,
            (Self::Name | Self::AfterName, b' ' | b'\t') => Self::AfterName,
            (Self::BeforeSemicolon | Self::Token | Self::AfterQuoted, b' ' | b'\t') => Self::BeforeSemicolon,
            (
                Self::BeforeSemicolon | Self::Name | Self::AfterName | Self::Token | Self::AfterQuoted,
                b';',
            ) => Self::BeforeName,
            (Self::BeforeName | Self::Name, _) if is_token => Self::Name,
            (Self::Name | Self::AfterName, b'=') => Self::BeforeValue,
            (Self::BeforeValue | Self::Token, _) if is_token => Self::Token,
            (Self::Quoted, b'"') => Self::AfterQuoted,
            (Self::Quoted, b'\\') => Self::Escape,
            (Self::BeforeValue, b'"') | (Self::Quoted | Self::Escape, b'\t' | b' '..=b'~' | 0x80..) => {
                Self::Quoted
            }
            _ => return None,
        })
    }

    /// Whether CRLF may follow. White space has to be followed by another extension or by a value.
    pub(super) fn may_end(self) -> bool {
        matches!(self, Self::Name | Self::Token | Self::AfterQuoted)
    }
}
