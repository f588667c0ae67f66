//! Tokens (RFC 9110 §5.6.2), such as the names of fields and chunk extensions.

/// Whether the character is allowed in a token.
#[must_use]
#[inline]
pub fn is_token(byte: u8) -> bool {
    TOKEN[usize::from(byte)]
}

static TOKEN: [bool; 256] = alphanumeric_and(b"!#$%&'*+-.^_`|~");

/// Returns a table of ASCII letters, digits and `marks`. A table is the fastest lookup for the names in a head.
#[must_use]
pub const fn alphanumeric_and(marks: &[u8]) -> [bool; 256] {
    let mut table = [false; 256];
    let mut byte = 0_u8;
    while byte < 128 {
        table[byte as usize] = byte.is_ascii_alphanumeric();
        byte += 1;
    }
    let mut index = 0;
    while index < marks.len() {
        table[marks[index] as usize] = true;
        index += 1;
    }
    table
}
