//! Formats numbers and names for users, and times for programs.

use std::time::{SystemTime, UNIX_EPOCH};

/// Escapes control characters in the name of a process or thread, which a terminal would interpret.
pub(crate) fn visible(name: &str) -> String {
    name.chars()
        .map(|c| if c.is_control() { c.escape_default().to_string() } else { c.to_string() })
        .collect()
}

/// Formats bytes with three digits: `999 B`, `1.21 KiB`, `45.6 MiB`.
pub(crate) fn bytes(count: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if count < 1000 {
        return format!("{count} B");
    }
    #[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
    let mut number = count as f64 / 1024.0;
    let mut unit = 0;
    // A value that would round to 1000 uses the next unit.
    while number >= 999.5 && unit + 1 < UNITS.len() {
        number /= 1024.0;
        unit += 1;
    }
    let digits = if number < 9.995 { 2 } else { usize::from(number < 99.95) };
    format!("{number:.digits$} {}", UNITS[unit])
}

/// A count with its limit, as far as known: `87 of 1024`.
pub(crate) fn of_limit(count: Option<u64>, limit: Option<u64>) -> String {
    let count = count.map_or_else(|| "not shown to us".to_owned(), |count| count.to_string());
    match limit {
        Some(limit) => format!("{count} of {limit}"),
        None => count,
    }
}

/// A number with its noun: `1 thread`, `2 threads`.
pub(crate) fn counted(count: usize, noun: &str) -> String {
    let ending = match noun {
        _ if count == 1 => "",
        noun if noun.ends_with('s') => "es",
        _ => "s",
    };
    format!("{count} {noun}{ending}")
}

/// Milliseconds since 1970; 0 for an earlier clock.
pub(crate) fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_three_digits() {
        let cases = [
            (0, "0 B"),
            (999, "999 B"),
            (1000, "0.98 KiB"),
            (1239, "1.21 KiB"),
            (10_235, "10.0 KiB"),
            (102_348, "99.9 KiB"),
            (102_399, "100 KiB"),
            (1_023_487, "999 KiB"),
            (1_023_489, "0.98 MiB"),
            (u64::MAX, "16.0 EiB"),
        ];
        for (count, expected) in cases {
            assert_eq!(bytes(count), expected, "{count}");
        }
    }

    #[test]
    fn a_name_cannot_move_the_cursor() {
        assert_eq!(visible("a\x1b[2Jb\nc\u{e9}"), "a\\u{1b}[2Jb\\nc\u{e9}");
    }

    #[test]
    fn what_is_not_known_is_not_said() {
        assert_eq!(of_limit(Some(87), Some(1024)), "87 of 1024");
        assert_eq!(of_limit(Some(87), None), "87");
        assert_eq!(of_limit(None, Some(1024)), "not shown to us of 1024");
    }
}
