//! The `Date` field, formatted once a second and sent with every response.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;

use crate::Compression;
use crate::compression::Compressed;

/// An encoded `Date` field line with its CRLF (RFC 9110 §6.6.1).
#[derive(Debug, Clone)]
pub struct DateLine {
    second: u64,
    line: [u8; DateLine::LENGTH],
    /// The field in other versions of the protocol.
    compressed: Compressed,
}

impl DateLine {
    /// `date: Sun, 06 Nov 1994 08:49:37 GMT` and CRLF.
    const LENGTH: usize = 37;

    /// Formats the line for this time.
    #[must_use]
    pub fn new(time: SystemTime) -> Self {
        let second = seconds(time);
        let mut line = [0; Self::LENGTH];
        // The format ends with the year 9999 (RFC 9110 §5.6.7).
        let last = Duration::from_secs(253_402_300_799);
        let text = httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(second).min(last));
        line[..6].copy_from_slice(b"date: ");
        line[6..35].copy_from_slice(&text.as_bytes()[..29]);
        line[35..].copy_from_slice(b"\r\n");
        Self { second, line, compressed: Compressed::default() }
    }

    /// Formats the line again if the second has changed.
    pub fn update(&mut self, time: SystemTime) {
        if seconds(time) != self.second {
            *self = Self::new(time);
        }
    }

    /// Returns the compressed field, which `encode` makes of the value in the first call.
    #[inline]
    pub fn compressed(&self, compression: Compression, encode: impl FnOnce(&[u8]) -> Bytes) -> &[u8] {
        self.compressed.get(compression, || encode(&self.line[6..35]))
    }

    /// Returns the line with its CRLF.
    #[must_use]
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        &self.line
    }
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(seconds)
    }

    #[test]
    fn the_line_is_a_field_with_its_crlf() {
        assert_eq!(DateLine::new(at(784_111_777)).as_bytes(), b"date: Sun, 06 Nov 1994 08:49:37 GMT\r\n");
    }

    #[test]
    fn times_outside_the_format_are_clamped() {
        assert_eq!(
            DateLine::new(at(u64::from(u32::MAX) * 100)).as_bytes(),
            b"date: Fri, 31 Dec 9999 23:59:59 GMT\r\n"
        );
        let before = UNIX_EPOCH - Duration::from_secs(1);
        assert_eq!(DateLine::new(before).as_bytes(), b"date: Thu, 01 Jan 1970 00:00:00 GMT\r\n");
    }

    #[test]
    fn the_line_changes_with_the_second_even_if_the_clock_goes_back() {
        let mut line = DateLine::new(at(10));
        for seconds in [10, 11, 9] {
            line.update(at(seconds) + Duration::from_millis(999));
            assert_eq!(line.as_bytes(), DateLine::new(at(seconds)).as_bytes());
        }
    }
}
