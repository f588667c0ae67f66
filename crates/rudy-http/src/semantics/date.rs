//! HTTP dates (RFC 9110 §5.6.7).

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::HeaderValue;

/// A moment as HTTP dates know it: whole seconds since 1970, up to the year 9999.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct HttpDate(u64);

impl HttpDate {
    /// The last second that has four digits for its year.
    const LAST: u64 = 253_402_300_799;

    /// The date of a file's modification time. What lies outside of the years an HTTP date can say is moved to the
    /// nearest one: a file may claim any time.
    #[must_use]
    pub fn from_unix_seconds(seconds: i64) -> Self {
        Self(u64::try_from(seconds).unwrap_or(0).min(Self::LAST))
    }

    /// Reads a date in any of the three forms; `None` where it is none of them.
    ///
    /// RFC 9110 §5.6.7: a recipient MUST accept all three formats.
    #[must_use]
    pub fn parse(value: &[u8]) -> Option<Self> {
        let time = httpdate::parse_http_date(std::str::from_utf8(value).ok()?).ok()?;
        let since = time.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        Some(Self(since.as_secs().min(Self::LAST)))
    }

    /// Seconds since 1970.
    #[must_use]
    pub fn unix_seconds(self) -> u64 {
        self.0
    }

    /// As a field value, in the form a sender MUST use (RFC 9110 §5.6.7).
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
    fn reads_all_three_forms_and_nothing_else() {
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
    fn a_file_of_any_age_has_a_date() {
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
        fn a_written_date_reads_back(seconds in 0_i64..=253_402_300_799) {
            let date = HttpDate::from_unix_seconds(seconds);
            prop_assert_eq!(HttpDate::parse(date.to_value().as_bytes()), Some(date));
        }
    }
}
