//! Chunk extensions (RFC 9112 §7.1.1). Their grammar is checked, because recipients that accept malformed extensions may
//! disagree about the end of the line. Their meaning is ignored: no extension is in use.

use rudy_message::syntax::is_token;

/// The parser state within the extensions of a chunk:
/// `chunk-ext = *( BWS ";" BWS chunk-ext-name [ BWS "=" BWS chunk-ext-val ] )`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Extension {
    /// After the chunk size, or after white space that follows a value.
    BeforeSemicolon,
    /// After a semicolon.
    BeforeName,
    Name,
    /// After white space that follows a name.
    AfterName,
    /// After an equals sign.
    BeforeValue,
    /// In a value that is a token.
    Token,
    /// In a value that is a quoted string (RFC 9110 §5.6.4).
    Quoted,
    /// After a backslash in a quoted string.
    Escape,
    /// After the quotation mark that ends a quoted string.
    AfterQuoted,
}

impl Extension {
    /// Returns the state after `byte`, or `None` if the byte is not allowed here.
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

    /// Whether CRLF may follow. After white space, another extension or a value must follow.
    pub(super) fn may_end(self) -> bool {
        matches!(self, Self::Name | Self::Token | Self::AfterQuoted)
    }
}
