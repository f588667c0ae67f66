//! The ids of traces and spans: random, never zero, and in lowercase hexadecimal digits in text.

use std::fmt;

/// The id of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TraceId(pub(crate) [u8; 16]);

/// The id of a span.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SpanId(pub(crate) [u8; 8]);

impl TraceId {
    /// Makes an id of random bits.
    #[must_use]
    pub fn from_bits([high, low]: [u64; 2]) -> Self {
        // Zero is invalid (Trace Context §3.2.2.3).
        Self(((u128::from(high) << 64) | u128::from(low)).max(1).to_be_bytes())
    }

    /// Returns the id in hexadecimal digits.
    #[must_use]
    pub fn digits(self) -> [u8; 32] {
        let mut digits = [0; 32];
        write_digits(&self.0, &mut digits);
        digits
    }
}

impl SpanId {
    /// Makes an id of random bits.
    #[must_use]
    pub fn from_bits(bits: u64) -> Self {
        // Zero is invalid (Trace Context §3.2.2.4).
        Self(bits.max(1).to_be_bytes())
    }

    /// Returns the id in hexadecimal digits.
    #[must_use]
    pub fn digits(self) -> [u8; 16] {
        let mut digits = [0; 16];
        write_digits(&self.0, &mut digits);
        digits
    }
}

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(std::str::from_utf8(&self.digits()).unwrap_or_default())
    }
}

impl fmt::Display for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(std::str::from_utf8(&self.digits()).unwrap_or_default())
    }
}

/// The two digits of each byte: a request that is passed on has 25 of them.
static PAIRS: [[u8; 2]; 256] = {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let (mut pairs, mut byte) = ([[0; 2]; 256], 0);
    while byte < 256 {
        pairs[byte] = [DIGITS[byte >> 4], DIGITS[byte & 15]];
        byte += 1;
    }
    pairs
};

/// Writes two digits for each byte.
pub(crate) fn write_digits(bytes: &[u8], digits: &mut [u8]) {
    for (byte, pair) in bytes.iter().zip(digits.as_chunks_mut().0) {
        *pair = PAIRS[usize::from(*byte)];
    }
}

/// Reads two lowercase digits for each byte. `None` for anything else.
pub(crate) fn read_digits<const BYTES: usize>(digits: &[u8]) -> Option<[u8; BYTES]> {
    let value = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        // Uppercase digits are invalid (Trace Context §3.2.2).
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    };
    let mut bytes = [0; BYTES];
    if digits.len() != 2 * BYTES {
        return None;
    }
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = value(pair[0])? << 4 | value(pair[1])?;
    }
    Some(bytes)
}
