//! One line of a head (RFC 9112 §5), looked at where it lies.

/// `field-name ":" OWS field-value OWS`. `None` if the name is no token or the value has control characters.
pub(super) fn split_field(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let (name, value) = line.split_at(memchr::memchr(b':', line)?);
    let value = &value[1..];
    // A name is a token: no space before the colon (RFC 9112 §5.1), and at least one character.
    let is_name = !name.is_empty() && name.iter().all(|byte| TOKEN[usize::from(*byte)]);
    (is_name && is_text(value)).then(|| (name, value.trim_ascii()))
}

/// Whether there are no control characters but HTAB (RFC 9110 §5.5). Without an early end, so that the compiler takes
/// many bytes at a time.
pub(super) fn is_text(bytes: &[u8]) -> bool {
    let is_control = |byte: u8| (byte < b' ' && byte != b'\t') || byte == 0x7f;
    bytes.iter().fold(0, |found, byte| found | u8::from(is_control(*byte))) == 0
}

/// What a token is made of (RFC 9110 §5.6.2). A table, because it is asked for every character of every name.
static TOKEN: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0_u8;
    while byte < 128 {
        table[byte as usize] = byte.is_ascii_alphanumeric();
        byte += 1;
    }
    let marks = b"!#$%&'*+-.^_`|~";
    let mut index = 0;
    while index < marks.len() {
        table[marks[index] as usize] = true;
        index += 1;
    }
    table
};
