//! Durations in header fields.

use std::fmt;

use rudy_message::semantics::date::HttpDate;
use rudy_message::syntax::parse_digits_saturating;

/// `delta-seconds` (RFC 9111 §1.2.2): a duration in whole seconds, at most 2³¹.
///
/// A larger number, or the result of an overflow, is 2³¹ seconds, as the section requires. No operation can panic.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Seconds(u32);

impl Seconds {
    /// No time.
    pub const ZERO: Self = Self(0);
    /// 2³¹ seconds, 68 years.
    pub const MAX: Self = Self(1 << 31);

    /// Converts a number of seconds.
    #[must_use]
    pub const fn new(seconds: u64) -> Self {
        #[expect(clippy::cast_possible_truncation, reason = "the number is at most MAX")]
        if seconds < Self::MAX.0 as u64 { Self(seconds as u32) } else { Self::MAX }
    }

    /// Parses `1*DIGIT`.
    #[must_use]
    pub fn parse(digits: &[u8]) -> Option<Self> {
        parse_digits_saturating(digits).map(Self::new)
    }

    /// Returns the time from `start` to `end`, or zero if `end` is earlier.
    #[must_use]
    pub fn between(start: HttpDate, end: HttpDate) -> Self {
        Self::new(end.unix_seconds().saturating_sub(start.unix_seconds()))
    }

    /// Returns the number of seconds.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }

    /// Returns the sum.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self::new(u64::from(self.0) + u64::from(other.0))
    }

    /// Returns the difference, or zero if `other` is longer.
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn section_1_2_2_numbers_that_are_too_large_are_two_to_the_power_of_31() {
        for (digits, expected) in [
            ("0", Some(0)),
            ("007", Some(7)),
            ("2147483647", Some(2_147_483_647)),
            ("2147483648", Some(1 << 31)),
            ("2147483649", Some(1 << 31)),
            ("99999999999999999999", Some(1 << 31)),
            ("-1", None),
            ("1.5", None),
            ("", None),
        ] {
            assert_eq!(Seconds::parse(digits.as_bytes()).map(Seconds::get), expected, "{digits:?}");
        }
        assert_eq!(Seconds::MAX.plus(Seconds::MAX), Seconds::MAX);
        assert_eq!(Seconds::ZERO.minus(Seconds::MAX), Seconds::ZERO);
        let [early, late] = [0, i64::MAX].map(HttpDate::from_unix_seconds);
        assert_eq!(Seconds::between(early, late), Seconds::MAX);
        assert_eq!(Seconds::between(late, early), Seconds::ZERO);
    }
}
