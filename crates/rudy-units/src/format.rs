//! Formats quantities with three significant digits and a space before the unit.

use std::time::Duration;

use crate::Unit;

/// A measured duration: `7 ns`, `61.2 µs`, `640 µs`, `1.53 ms`, `12.0 s`, `125 s`.
#[must_use]
pub fn duration(duration: Duration) -> String {
    Unit::Time.text(duration.as_secs_f64())
}

/// A duration without more precision than an estimate has: `40 s`, `12 min`, `2 h 5 min`.
#[must_use]
pub fn rough(duration: Duration) -> String {
    match duration.as_secs() {
        seconds @ 0..100 => format!("{seconds} s"),
        seconds @ 100..7200 => format!("{} min", (seconds + 30) / 60),
        seconds => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

/// A number of bytes: `714 B`, `1.21 KiB`, `13.6 MiB`.
#[must_use]
pub fn bytes(bytes: u64) -> String {
    Unit::Bytes.text(float(bytes))
}

/// A rate: `4,321/s`, `61,100/s`.
#[must_use]
pub fn rate(per_second: f64) -> String {
    Unit::Rate.text(per_second)
}

/// A fraction in percent: `12.5 %`.
#[must_use]
pub fn share(share: f64) -> String {
    Unit::Share.text(share)
}

/// A fraction in percent, rounded down: only 1 is 100 %.
#[must_use]
pub fn share_down(share: f64, decimals: usize) -> String {
    let scale = 10_f64.powi(i32::try_from(decimals).unwrap_or(0));
    // A fraction such as 0.57 is slightly smaller in binary.
    format!("{:.decimals$} %", (share * 100.0 * scale + 1e-6).floor() / scale)
}

/// The rate per second of a count over a time; 0 without time.
#[must_use]
pub fn per_second(count: u64, duration: Duration) -> f64 {
    if duration.is_zero() { 0.0 } else { float(count) / duration.as_secs_f64() }
}

/// Converts a count. Counts beyond 2^53 lose their last digits, which are never shown.
#[expect(clippy::cast_precision_loss, reason = "shown with three digits or two decimals")]
#[must_use]
pub fn float(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_has_three_digits_and_its_unit() {
        for (nanoseconds, text) in [
            (0, "0 ns"),
            (999, "999 ns"),
            (1_000, "1.00 µs"),
            (61_234, "61.2 µs"),
            (640_000, "640 µs"),
            (999_499, "999 µs"),
            (999_600, "1.00 ms"),
            (9_996_000, "10.0 ms"),
            (12_000_000_000, "12.0 s"),
            (125_000_000_000, "125 s"),
            (7_200_000_000_000, "7,200 s"),
        ] {
            assert_eq!(duration(Duration::from_nanos(nanoseconds)), text, "{nanoseconds}");
        }
    }

    #[test]
    fn a_rough_duration_is_short() {
        let of = |seconds| rough(Duration::from_secs(seconds));
        assert_eq!([of(40), of(720), of(7500)], ["40 s", "12 min", "2 h 5 min"]);
    }

    #[test]
    fn bytes_are_in_steps_of_1024() {
        for (size, text) in [
            (0, "0 B"),
            (1023, "1,023 B"),
            (1024, "1.00 KiB"),
            (1239, "1.21 KiB"),
            (10_235, "10.0 KiB"),
            (102_399, "100 KiB"),
            ((1 << 20) - 1, "1.00 MiB"),
            (336_592_896, "321 MiB"),
            (u64::MAX, "16.0 EiB"),
        ] {
            assert_eq!(bytes(size), text, "{size}");
        }
    }

    #[test]
    fn only_the_whole_is_100_percent() {
        for (share, decimals, text) in [
            (1.0, 1, "100.0 %"),
            (0.99996, 1, "99.9 %"),
            (0.98996, 1, "98.9 %"),
            (0.57, 2, "57.00 %"),
            (0.475, 1, "47.5 %"),
            (0.0, 1, "0.0 %"),
        ] {
            assert_eq!(share_down(share, decimals), text, "{share}");
        }
    }

    #[test]
    fn rates_and_shares_have_three_digits() {
        assert_eq!([rate(0.5), rate(35.0), rate(4321.0)], ["0.500/s", "35/s", "4,321/s"]);
        assert_eq!([rate(61_123.0), share(0.125)], ["61,100/s", "12.5 %"]);
        assert_eq!([share(0.000_133_32), share(0.0005), share(0.0)], ["0.0133 %", "0.05 %", "0 %"]);
    }
}
