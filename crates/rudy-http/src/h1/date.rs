//! The `Date` field, made once a second and sent with every answer.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// `Date: ` and the time with its CRLF, ready to be sent (RFC 9110 §6.6.1).
#[derive(Debug, Clone)]
pub struct DateLine {
    second: u64,
    line: [u8; DateLine::LENGTH],
}

impl DateLine {
    /// `date: Sun, 06 Nov 1994 08:49:37 GMT` and CRLF.
    const LENGTH: usize = 37;

    /// The line for this time.
    #[must_use]
    pub fn new(time: SystemTime) -> Self {
        let second = seconds(time);
        let mut line = [0; Self::LENGTH];
        // The format stops at the year 9999 (RFC 9110 §5.6.7); a clock beyond it is wrong anyway.
        let last = Duration::from_secs(253_402_300_799);
        let text = httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(second).min(last));
        line[..6].copy_from_slice(b"date: ");
        line[6..35].copy_from_slice(&text.as_bytes()[..29]);
        line[35..].copy_from_slice(b"\r\n");
        Self { second, line }
    }

    /// Makes the line anew if another second has begun.
    pub fn update(&mut self, time: SystemTime) {
        if seconds(time) != self.second {
            *self = Self::new(time);
        }
    }

    /// The line, with its CRLF.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.line
    }
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
