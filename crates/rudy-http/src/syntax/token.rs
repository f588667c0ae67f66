//! Tokens (RFC 9110 §5.6.2): the names of fields, of chunk extensions and more.

/// Whether a token may have this character.
#[must_use]
pub fn is_token(byte: u8) -> bool {
    TOKEN[usize::from(byte)]
}

static TOKEN: [bool; 256] = alphanumeric_and(b"!#$%&'*+-.^_`|~");

/// ASCII letters and digits, and `marks`. A table, because a character of every name in a head is looked up in one.
pub(crate) const fn alphanumeric_and(marks: &[u8]) -> [bool; 256] {
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
