//! The delay after a response that asks for fewer requests.

use std::time::Duration;

use rudy_message::semantics::date::HttpDate;
use rudy_message::syntax::parse_digits_saturating;

/// The delay after the first rejection. It doubles with each consecutive one.
const DELAY_MIN: Duration = Duration::from_secs(1);
/// Maximum delay without `Retry-After`.
const DELAY_MAX: Duration = Duration::from_mins(1);

/// The back-off of one server.
#[derive(Debug, Clone, Copy)]
pub struct BackOff {
    /// Maximum delay with `Retry-After`.
    retry_after_max: Duration,
    /// The number of consecutive rejections.
    rejections: u32,
}

impl BackOff {
    /// No rejection so far. A server can ask for a delay of `retry_after_max` at most.
    #[must_use]
    pub fn new(retry_after_max: Duration) -> Self {
        Self { retry_after_max, rejections: 0 }
    }

    /// The delay before the next request after a response, if any. `now_unix_s` is the current time in seconds since
    /// 1970.
    pub fn delay_after(
        &mut self,
        status: u16,
        retry_after: Option<&[u8]>,
        now_unix_s: u64,
    ) -> Option<Duration> {
        let requested = retry_after.and_then(|value| parse(value, now_unix_s));
        let requested = requested.map(|delay| delay.min(self.retry_after_max));
        // Some sites return 999 to clients that they consider robots.
        if !matches!(status, 429 | 503 | 999) {
            self.rejections = 0;
            return requested;
        }
        let own = DELAY_MIN.saturating_mul(2_u32.saturating_pow(self.rejections)).min(DELAY_MAX);
        self.rejections = self.rejections.saturating_add(1);
        Some(requested.unwrap_or(own))
    }
}

/// Parses `Retry-After`: seconds or a date (RFC 9110 §10.2.3). Ignores other values.
fn parse(value: &[u8], now_unix_s: u64) -> Option<Duration> {
    // A number that overflows exceeds the maximum delay.
    if let Some(seconds) = parse_digits_saturating(value) {
        return Some(Duration::from_secs(seconds));
    }
    let date = HttpDate::parse(value)?;
    Some(Duration::from_secs(date.unix_seconds().saturating_sub(now_unix_s)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 1994-11-06 08:49:37, the date of RFC 9110.
    const NOW: u64 = 784_111_777;

    const HOUR: Duration = Duration::from_hours(1);

    #[test]
    fn each_rejection_doubles_the_delay_until_another_response() {
        let mut back_off = BackOff::new(HOUR);
        let delays = (0..8).map(|_| back_off.delay_after(503, None, NOW).unwrap().as_secs());
        let delays: Vec<_> = delays.collect();
        assert_eq!(delays, [1, 2, 4, 8, 16, 32, 60, 60]);
        assert_eq!(back_off.delay_after(200, None, NOW), None);
        for status in [429, 503, 999] {
            assert_eq!(BackOff::new(HOUR).delay_after(status, None, NOW), Some(DELAY_MIN), "{status}");
        }
        let mut many = BackOff { rejections: u32::MAX, ..BackOff::new(HOUR) };
        assert_eq!(many.delay_after(429, None, NOW), Some(DELAY_MAX));
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        for (value, seconds) in [
            ("0", Some(0)),
            ("120", Some(120)),
            ("99999999999999999999999", Some(3600)),
            ("Sun, 06 Nov 1994 08:49:47 GMT", Some(10)),
            ("Sunday, 06-Nov-94 08:49:47 GMT", Some(10)),
            ("Sun Nov  6 08:49:47 1994", Some(10)),
            ("Mon, 07 Nov 1994 08:49:37 GMT", Some(3600)),
            ("Sun, 06 Nov 1994 08:49:27 GMT", Some(0)),
            ("soon", None),
            ("-1", None),
            ("", None),
        ] {
            let delay = BackOff::new(HOUR).delay_after(301, Some(value.as_bytes()), NOW);
            assert_eq!(delay.map(|delay| delay.as_secs()), seconds, "{value}");
        }
        assert_eq!(BackOff::new(HOUR).delay_after(503, Some(b"soon"), NOW), Some(DELAY_MIN));
    }
}
