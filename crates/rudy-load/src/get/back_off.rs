//! Decides how long to wait when a server asks for fewer requests.

use std::time::Duration;

use rudy_http::semantics::date::HttpDate;
use rudy_http::syntax::parse_digits_saturating;

/// The first wait, which doubles with each consecutive one.
const FIRST: Duration = Duration::from_secs(1);
/// The longest wait without `Retry-After`.
const LONGEST: Duration = Duration::from_mins(1);
/// The longest wait with `Retry-After`.
const LONGEST_ASKED: Duration = Duration::from_hours(1);

/// The consecutive rejections of one server.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct BackOff {
    refusals: u32,
}

impl BackOff {
    /// The time to wait after a response; `None` if it is not retried. `now_unix_s` is the current time in seconds since 1970.
    pub(super) fn after(
        &mut self,
        status: u16,
        retry_after: Option<&[u8]>,
        now_unix_s: u64,
    ) -> Option<Duration> {
        let requested =
            retry_after.and_then(|value| parse(value, now_unix_s)).map(|wait| wait.min(LONGEST_ASKED));
        // Some sites return 999 to clients that they consider robots.
        if !matches!(status, 429 | 503 | 999) {
            self.refusals = 0;
            return requested;
        }
        let ours = FIRST.saturating_mul(2_u32.saturating_pow(self.refusals)).min(LONGEST);
        self.refusals = self.refusals.saturating_add(1);
        Some(requested.unwrap_or(ours))
    }
}

/// Parses `Retry-After`: seconds or a date (RFC 9110 §10.2.3). Ignores other values.
fn parse(value: &[u8], now_unix_s: u64) -> Option<Duration> {
    // A number that overflows exceeds the longest wait.
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

    #[test]
    fn each_refusal_doubles_the_wait_up_to_a_minute_and_an_answer_ends_it() {
        let mut back_off = BackOff::default();
        let waits: Vec<_> = (0..8).map(|_| back_off.after(503, None, NOW).unwrap().as_secs()).collect();
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60]);
        assert_eq!(back_off.after(200, None, NOW), None);
        for status in [429, 503, 999] {
            assert_eq!(BackOff::default().after(status, None, NOW), Some(FIRST), "{status}");
        }
        let mut long = BackOff { refusals: u32::MAX };
        assert_eq!(long.after(429, None, NOW), Some(LONGEST));
    }

    #[test]
    fn what_the_server_asks_for_counts_in_both_forms() {
        for (value, seconds) in [
            ("0", Some(0)),
            ("120", Some(120)),
            ("99999999999999999999999", Some(3600)),
            ("Sun, 06 Nov 1994 08:49:47 GMT", Some(10)),
            ("Sun, 06 Nov 1994 08:49:27 GMT", Some(0)),
            ("soon", None),
            ("-1", None),
            ("", None),
        ] {
            let wait = BackOff::default().after(301, Some(value.as_bytes()), NOW);
            assert_eq!(wait.map(|wait| wait.as_secs()), seconds, "{value}");
        }
        assert_eq!(BackOff::default().after(503, Some(b"soon"), NOW), Some(FIRST));
    }
}
