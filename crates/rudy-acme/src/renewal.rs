//! When to renew a certificate.

use std::time::{Duration, SystemTime};

use instant_acme::RenewalInfo;

/// The time in which the authority wants a certificate to be renewed (RFC 9773 §4.2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RenewalWindow {
    /// Its start.
    pub start: SystemTime,
    /// Its end.
    pub end: SystemTime,
    /// Why it is unusual: a page of the authority.
    pub explanation: Option<String>,
    /// The time after which to ask again.
    pub valid_for: Duration,
}

/// The limits of the time after which to ask again (RFC 9773 §4.3.2 and §4.3.3).
const ASK_AGAIN: std::ops::RangeInclusive<Duration> = Duration::from_mins(1)..=Duration::from_hours(24);

impl RenewalWindow {
    pub(crate) fn new(info: RenewalInfo, valid_for: Duration) -> Self {
        Self {
            start: info.suggested_window.start.into(),
            end: info.suggested_window.end.into(),
            explanation: info.explanation_url,
            valid_for: valid_for.clamp(*ASK_AGAIN.start(), *ASK_AGAIN.end()),
        }
    }
}

/// Returns when to renew a certificate that is valid from `start` to `end`: at a point of the authority's window, or after two
/// thirds of its validity. `share` from 0 to 1 chooses the point, so that not all servers renew at once.
#[must_use]
pub fn renewal_time(
    start: SystemTime,
    end: SystemTime,
    window: Option<&RenewalWindow>,
    share: f64,
) -> SystemTime {
    let (share, validity) = (share.clamp(0.0, 1.0), end.duration_since(start).unwrap_or_default());
    if let Some(window) = window {
        let length = window.end.duration_since(window.start).unwrap_or_default();
        // A window that ends with the certificate would leave no time for a second attempt.
        return (window.start + length.mul_f64(share)).min(end - validity / 6);
    }
    // Up to a thirtieth earlier: 3 days of 90.
    start + validity * 2 / 3 - (validity / 30).mul_f64(share)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_hours(24);

    #[test]
    fn a_certificate_is_renewed_when_the_authority_says_or_after_two_thirds() {
        let start = SystemTime::UNIX_EPOCH + 20_000 * DAY;
        let end = start + 90 * DAY;
        assert_eq!(renewal_time(start, end, None, 0.0), start + 60 * DAY);
        assert_eq!(renewal_time(start, end, None, 1.0), start + 57 * DAY);
        let window = RenewalWindow {
            start: start + 10 * DAY,
            end: start + 12 * DAY,
            explanation: None,
            valid_for: DAY,
        };
        assert_eq!(renewal_time(start, end, Some(&window), 0.5), start + 11 * DAY);
        // A window at the end does not let the certificate expire.
        let late = RenewalWindow { start: end - DAY, end: end + 2 * DAY, ..window.clone() };
        assert_eq!(renewal_time(start, end, Some(&late), 0.5), end - 15 * DAY);
        let reversed = RenewalWindow { start: window.end, end: window.start, ..window };
        assert_eq!(renewal_time(start, end, Some(&reversed), 0.5), start + 12 * DAY);
    }
}
