//! Formats figures for reading.

use std::time::Duration;

/// Formats a duration with three digits and a fitting unit: `7 ns`, `61.2 µs`, `640 µs`, `1.53 ms`, `12.0 s`,
/// `125 s`.
pub(crate) fn time(duration: Duration) -> String {
    let nanoseconds = duration.as_secs_f64() * 1e9;
    let (value, unit) = match nanoseconds {
        n if n < 999.5 => return format!("{n:.0} ns"),
        n if n < 999.5e3 => (n / 1e3, "µs"),
        n if n < 999.5e6 => (n / 1e6, "ms"),
        n => (n / 1e9, "s"),
    };
    let digits = match value {
        v if v < 9.995 => 2,
        v if v < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.digits$} {unit}")
}

/// The rate per second of a count over a time.
pub(crate) fn per_second(count: u64, duration: Duration) -> f64 {
    if duration.is_zero() { 0.0 } else { float(count) / duration.as_secs_f64() }
}

/// Converts a count. Counts beyond 2^53 lose their last digits, which are never shown.
#[expect(clippy::cast_precision_loss, reason = "shown with three digits or two decimals")]
pub(crate) fn float(count: u64) -> f64 {
    count as f64
}

/// The same, with one decimal.
pub(crate) fn rate(count: u64, duration: Duration) -> String {
    format!("{:.1}", per_second(count, duration))
}

/// Formats a fraction in percent, rounded down: only 1 is 100 %.
pub(crate) fn percent(share: f64, decimals: usize) -> String {
    let scale = 10_f64.powi(i32::try_from(decimals).unwrap_or(0));
    // A fraction such as 0.57 is slightly smaller in binary.
    format!("{:.decimals$} %", (share * 100.0 * scale + 1e-6).floor() / scale)
}

/// Formats a number of bytes like wrk: `1.23G`, in steps of 1024; switches to the next unit at 0.85 of it.
pub(crate) fn binary(bytes: f64) -> String {
    let (mut value, mut unit) = (bytes, "");
    for next in ["K", "M", "G", "T"] {
        if value < 1024.0 * 0.85 {
            break;
        }
        (value, unit) = (value / 1024.0, next);
    }
    format!("{value:.2}{unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_three_digits_and_its_unit() {
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
        ] {
            assert_eq!(time(Duration::from_nanos(nanoseconds)), text, "{nanoseconds}");
        }
    }

    #[test]
    fn what_is_not_all_is_not_100_percent() {
        for (share, decimals, text) in [
            (1.0, 1, "100.0 %"),
            (0.99996, 1, "99.9 %"),
            (0.98996, 1, "98.9 %"),
            (0.57, 2, "57.00 %"),
            (0.475, 1, "47.5 %"),
            (0.0, 1, "0.0 %"),
        ] {
            assert_eq!(percent(share, decimals), text, "{share}");
        }
    }

    #[test]
    fn bytes_are_written_as_wrk_writes_them() {
        for (bytes, text) in [
            (0.0, "0.00"),
            (870.0, "870.00"),
            (871.0, "0.85K"),
            (1024.0 * 1024.0, "1.00M"),
            (3.5e9, "3.26G"),
            (1e18, "909494.70T"),
        ] {
            assert_eq!(binary(bytes), text, "{bytes}");
        }
    }
}
