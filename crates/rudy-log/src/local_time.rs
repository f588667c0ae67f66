//! Timestamps for logs, in the time zone of this machine.

use std::time::{SystemTime, UNIX_EPOCH};

use jiff::Timestamp;
use jiff::tz::TimeZone;

/// Formats a time in UTC as in RFC 3339, without fractions of a second.
#[must_use]
pub fn utc(time: SystemTime) -> String {
    let time = Timestamp::try_from(time).and_then(|time| Timestamp::from_second(time.as_second()));
    time.map_or_else(|_| "an unknown time".to_owned(), |time| time.to_string())
}

/// Formats timestamps. Caches the text of a second, because a busy log formats thousands of timestamps in one.
#[derive(Debug)]
pub struct LocalClock {
    zone: TimeZone,
    second: Option<i64>,
    combined: String,
    /// The microseconds are those of the last time.
    rfc3339: String,
}

impl Default for LocalClock {
    fn default() -> Self {
        Self::new()
    }
}

impl LocalClock {
    /// Returns a clock in the time zone of this machine: `TZ` if set, else `/etc/localtime`, else UTC.
    #[must_use]
    pub fn new() -> Self {
        Self::in_zone(TimeZone::system())
    }

    /// Returns a clock in `zone`.
    #[must_use]
    pub fn in_zone(zone: TimeZone) -> Self {
        Self { zone, second: None, combined: String::new(), rfc3339: String::new() }
    }

    /// Formats as in the common log format: `21/Nov/2026:04:05:06 +0100`.
    pub fn combined(&mut self, time: SystemTime) -> &str {
        self.update(time);
        &self.combined
    }

    /// Formats as in RFC 3339: `2026-11-21T04:05:06.789012+01:00`.
    pub fn rfc3339(&mut self, time: SystemTime) -> &str {
        self.both(time).1
    }

    /// Formats in both ways.
    pub fn both(&mut self, time: SystemTime) -> (&str, &str) {
        self.update(time);
        (&self.combined, &self.rfc3339)
    }

    /// Updates the texts. Those of a second are cached, except the microseconds.
    fn update(&mut self, time: SystemTime) {
        // A time before 1970 is shown as 1970 instead of a panic.
        let since_epoch = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        let second = i64::try_from(since_epoch.as_secs()).unwrap_or(i64::MAX);
        if self.second != Some(second) {
            let zoned = Timestamp::from_second(second).unwrap_or(Timestamp::MAX).to_zoned(self.zone.clone());
            self.combined = zoned.strftime("%d/%b/%Y:%H:%M:%S %z").to_string();
            self.rfc3339 = zoned.strftime("%Y-%m-%dT%H:%M:%S.000000%:z").to_string();
            self.second = Some(second);
        }
        // With a leading one for the zeros after it.
        let mut digits = itoa::Buffer::new();
        let micros = &digits.format(1_000_000 + since_epoch.subsec_micros())[1..];
        if let Some(dot) = self.rfc3339.find('.') {
            self.rfc3339.replace_range(dot + 1..dot + 1 + micros.len(), micros);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_timestamp_includes_the_offset_of_its_zone() {
        let mut berlin = LocalClock::in_zone(TimeZone::fixed(jiff::tz::offset(1)));
        let time = UNIX_EPOCH + Duration::from_micros(1_795_230_306_000_042);
        assert_eq!(berlin.combined(time), "21/Nov/2026:04:05:06 +0100");
        assert_eq!(berlin.rfc3339(time), "2026-11-21T04:05:06.000042+01:00");
        let later = time + Duration::from_millis(1_500);
        assert_eq!(berlin.rfc3339(later), "2026-11-21T04:05:07.500042+01:00");
        assert_eq!(berlin.combined(later), "21/Nov/2026:04:05:07 +0100");
    }

    #[test]
    fn times_out_of_range_do_not_panic() {
        let mut utc = LocalClock::in_zone(TimeZone::UTC);
        let before = UNIX_EPOCH - Duration::from_secs(1);
        assert_eq!(utc.rfc3339(before), "1970-01-01T00:00:00.000000+00:00");
        let far = UNIX_EPOCH + Duration::from_secs(1 << 60);
        assert!(utc.combined(far).contains("9999"), "{}", utc.combined(far));
    }
}
