//! HTTP dates (RFC 9110 §5.6.7).

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::HeaderValue;

/// An HTTP date: whole seconds since 1970, up to the year 9999.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct HttpDate(u64);

impl HttpDate {
    /// The last second of the year 9999.
    const LAST: u64 = 253_402_300_799;

    /// Converts the modification time of a file. A time that an HTTP date cannot express is clamped.
    #[must_use]
    pub fn from_unix_seconds(seconds: i64) -> Self {
        Self(u64::try_from(seconds).unwrap_or(0).min(Self::LAST))
    }

    /// Converts a time of the wall clock, which is clamped in the same way.
    #[must_use]
    pub fn at(time: SystemTime) -> Self {
        Self(time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs().min(Self::LAST))
    }

    /// Parses a date in any of the three formats of RFC 9110 §5.6.7. `None` if it has none of them.
    #[must_use]
    pub fn parse(value: &[u8]) -> Option<Self> {
        let time = httpdate::parse_http_date(std::str::from_utf8(value).ok()?).ok()?;
        Some(Self::at(time))
    }

    /// Parses a date as [`Self::parse`] does, with letters in any case: a cache SHOULD accept that (RFC 9111 §4.2).
    #[must_use]
    pub fn parse_ignoring_case(value: &[u8]) -> Option<Self> {
        let with_case = || {
            let mut text = value.to_ascii_lowercase();
            for word in text.split_mut(|byte| !byte.is_ascii_alphabetic()) {
                let capitals = if word == b"gmt" { word.len() } else { word.len().min(1) };
                word[..capitals].make_ascii_uppercase();
            }
            Self::parse(&text)
        };
        Self::parse(value).or_else(with_case)
    }

    /// Returns the seconds since 1970.
    #[must_use]
    pub fn unix_seconds(self) -> u64 {
        self.0
    }

    /// Returns a field value in the format for senders (RFC 9110 §5.6.7).
    #[must_use]
    pub fn to_value(self) -> HeaderValue {
        HeaderValue::try_from(self.to_string())
            .expect("an HTTP date is ASCII letters, digits, commas and colons")
    }
}

impl std::fmt::Display for HttpDate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let time: SystemTime = UNIX_EPOCH + Duration::from_secs(self.0);
        f.write_str(&httpdate::fmt_http_date(time))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(text: &str) -> Option<u64> {
        HttpDate::parse(text.as_bytes()).map(HttpDate::unix_seconds)
    }

    #[test]
    fn a_date_has_one_of_three_formats() {
        for (text, expected) in [
            ("Sun, 06 Nov 1994 08:49:37 GMT", Some(784_111_777)),
            ("Sunday, 06-Nov-94 08:49:37 GMT", Some(784_111_777)),
            ("Sun Nov  6 08:49:37 1994", Some(784_111_777)),
            ("Thu, 01 Jan 1970 00:00:00 GMT", Some(0)),
            ("Sun, 06 Nov 1994 08:49:37", None),
            ("Sun, 06 Nov 1994 08:49:37 CET", None),
            ("1994-11-06T08:49:37Z", None),
            ("784111777", None),
            ("", None),
        ] {
            assert_eq!(parse(text), expected, "{text:?}");
        }
    }

    #[test]
    fn a_cache_ignores_the_case_of_a_date() {
        for date in
            ["Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"]
        {
            for text in [date.to_owned(), date.to_ascii_lowercase(), date.to_ascii_uppercase()] {
                let parsed = HttpDate::parse_ignoring_case(text.as_bytes());
                assert_eq!(parsed.map(HttpDate::unix_seconds), Some(784_111_777), "{text}");
            }
        }
        assert_eq!(HttpDate::parse_ignoring_case(b"sun, 06 nov 1994 08:49:37 cet"), None);
        assert_eq!(parse("sun, 06 nov 1994 08:49:37 gmt"), None, "RFC 9110 §5.6.7: others do not");
    }

    #[test]
    fn times_out_of_range_are_clamped() {
        for (seconds, expected) in [
            (i64::MIN, "Thu, 01 Jan 1970 00:00:00 GMT"),
            (-1, "Thu, 01 Jan 1970 00:00:00 GMT"),
            (784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT"),
            (i64::MAX, "Fri, 31 Dec 9999 23:59:59 GMT"),
        ] {
            assert_eq!(HttpDate::from_unix_seconds(seconds).to_value(), expected);
        }
    }

    proptest! {
        #[test]
        fn a_formatted_date_parses_back(seconds in 0_i64..=253_402_300_799) {
            let date = HttpDate::from_unix_seconds(seconds);
            prop_assert_eq!(HttpDate::parse(date.to_value().as_bytes()), Some(date));
        }
    }
}
