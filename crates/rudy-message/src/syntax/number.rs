//! Decimal numbers in header fields.

/// Parses `1*DIGIT`. Unlike `str::parse` it rejects a plus sign. `None` also if the number does not fit 64 bits.
#[must_use]
#[inline]
pub fn parse_digits(digits: &[u8]) -> Option<u64> {
    let (first, rest) = digits.split_first()?;
    let digit = |byte: &u8| byte.is_ascii_digit().then(|| u64::from(byte - b'0'));
    rest.iter().try_fold(digit(first)?, |number, byte| number.checked_mul(10)?.checked_add(digit(byte)?))
}

/// Parses `1*DIGIT`, and returns `u64::MAX` for a number that does not fit 64 bits.
#[must_use]
#[inline]
pub fn parse_digits_saturating(digits: &[u8]) -> Option<u64> {
    let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    is_number.then(|| parse_digits(digits).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_has_digits_only() {
        for (text, number) in [("0", 0), ("007", 7), ("18446744073709551615", u64::MAX)] {
            assert_eq!(parse_digits(text.as_bytes()), Some(number));
            assert_eq!(parse_digits_saturating(text.as_bytes()), Some(number));
        }
        for text in ["", "+1", "-1", " 1", "1 ", "1.0", "0x1", "\u{661}", "99999999999999999999x"] {
            assert_eq!(parse_digits(text.as_bytes()), None, "{text}");
            assert_eq!(parse_digits_saturating(text.as_bytes()), None, "{text}");
        }
        let too_large = b"18446744073709551616";
        assert_eq!((parse_digits(too_large), parse_digits_saturating(too_large)), (None, Some(u64::MAX)));
    }
}
