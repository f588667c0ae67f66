//! A unit that is data: of a column of a report, or of an axis.

use crate::number::{digits, grouped, round, three};

/// The unit of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Seconds.
    Time,
    /// Bytes, shown in steps of 1024.
    Bytes,
    /// A rate per second.
    Rate,
    /// A count, or a number without a unit.
    Count,
    /// Busy cores.
    Cores,
    /// A fraction, shown in percent.
    Share,
}

const TIMES: [(f64, &str); 4] = [(1e-9, "ns"), (1e-6, "µs"), (1e-3, "ms"), (1.0, "s")];

const BYTES: [(f64, &str); 7] = [
    (1.0, "B"),
    (1024.0, "KiB"),
    (1_048_576.0, "MiB"),
    (1_073_741_824.0, "GiB"),
    (1_099_511_627_776.0, "TiB"),
    (1_125_899_906_842_624.0, "PiB"),
    (1_152_921_504_606_846_976.0, "EiB"),
];

/// Endings of the keys of reports.
const ENDINGS: [(&str, Unit, f64); 10] = [
    ("_ns", Unit::Time, 1e-9),
    ("_us", Unit::Time, 1e-6),
    ("_us_per_request", Unit::Time, 1e-6),
    ("_ms", Unit::Time, 1e-3),
    ("_per_s", Unit::Rate, 1.0),
    ("_s", Unit::Time, 1.0),
    ("_bytes", Unit::Bytes, 1.0),
    ("_bytes_per_connection", Unit::Bytes, 1.0),
    ("_share", Unit::Share, 1.0),
    ("_percent", Unit::Share, 0.01),
];

impl Unit {
    /// The unit that a key of a report ends with, the factor from its value to the unit, and the key before it.
    #[must_use]
    pub fn of_key(key: &str) -> (Self, f64, &str) {
        let known = |(ending, unit, factor)| Some((unit, factor, key.strip_suffix(ending)?));
        ENDINGS.into_iter().find_map(known).unwrap_or((Self::Count, 1.0, key))
    }

    /// A measured value with its unit and three digits: `1.23 ms`, `61,100/s`, `5.44 MiB`.
    #[must_use]
    pub fn text(self, value: f64) -> String {
        match self {
            Self::Rate => format!("{}/s", digits(value)),
            Self::Count => digits(value),
            Self::Share => format!("{} %", digits(value * 100.0)),
            Self::Cores if (value - 1.0).abs() < 1e-9 => "1 core".to_owned(),
            Self::Cores => format!("{} cores", digits(value)),
            Self::Time | Self::Bytes => {
                let (size, name) = self.part(value);
                // There is nothing smaller than a byte, and no clock shows less than a nanosecond.
                let is_smallest = matches!(name, "B" | "ns");
                format!("{} {name}", if is_smallest { grouped(value / size) } else { three(value / size) })
            }
        }
    }

    /// A round value, such as the tick of an axis or a setting: `200 µs`, `10 s`, `32 KiB`, `50,000`.
    #[must_use]
    pub fn tick(self, value: f64) -> String {
        if value == 0.0 {
            return "0".to_owned();
        }
        let (size, name) = self.part(value);
        let number = round(value / size);
        match self {
            Self::Rate | Self::Count => number,
            _ => format!("{number} {name}"),
        }
    }

    /// The unit of an axis that ends at a value: its size, and its name in the title.
    #[must_use]
    pub fn part(self, end: f64) -> (f64, &'static str) {
        match self {
            Self::Time => largest(&TIMES, end),
            Self::Bytes => largest(&BYTES, end),
            Self::Rate => (1.0, "per second"),
            Self::Count => (1.0, ""),
            Self::Cores => (1.0, "cores"),
            Self::Share => (0.01, "%"),
        }
    }
}

/// The largest part that fits at least once, after rounding to three digits.
fn largest(parts: &[(f64, &'static str)], value: f64) -> (f64, &'static str) {
    let fits = parts.iter().rev().find(|(size, _)| value.abs() >= size * 0.9995);
    fits.or(parts.first()).copied().unwrap_or((1.0, ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_has_three_digits_and_the_unit_that_fits() {
        for (unit, value, text) in [
            (Unit::Time, 0.0, "0 ns"),
            (Unit::Time, 1.2345e-3, "1.23 ms"),
            (Unit::Time, 61.26e-6, "61.3 µs"),
            (Unit::Time, 106.0, "106 s"),
            (Unit::Time, 0.04, "40.0 ms"),
            (Unit::Bytes, 32768.0, "32.0 KiB"),
            (Unit::Bytes, 714.3, "714 B"),
            (Unit::Rate, 61_123.0, "61,100/s"),
            (Unit::Count, 35.0, "35"),
            (Unit::Cores, 1.0, "1 core"),
            (Unit::Cores, 0.2564, "0.256 cores"),
            (Unit::Share, 0.125, "12.5 %"),
            (Unit::Share, 0.00412, "0.412 %"),
            (Unit::Count, 1_234_567.0, "1,230,000"),
        ] {
            assert_eq!(unit.text(value), text, "{value}");
        }
    }

    #[test]
    fn a_key_ends_with_its_unit() {
        for (key, value, text) in [
            ("p99_ns", 2e6, "2.00 ms"),
            ("cpu_us_per_request", 9.41, "9.41 µs"),
            ("requests_per_s", 61_123.0, "61,100/s"),
            ("cpu_s", 1.5, "1.50 s"),
            ("private_bytes_per_connection", 920.0, "920 B"),
            ("background_cpu_share", 0.2, "20 %"),
            ("errors", 3.0, "3"),
        ] {
            let (unit, factor, _) = Unit::of_key(key);
            assert_eq!(unit.text(value * factor), text, "{key}");
        }
        assert_eq!(Unit::of_key("max_ns").2, "max");
    }

    #[test]
    fn a_tick_is_as_short_as_it_can_be() {
        for (unit, value, text) in [
            (Unit::Time, 0.0, "0"),
            (Unit::Time, 2e-4, "200 µs"),
            (Unit::Time, 1e-3, "1 ms"),
            (Unit::Time, 100.0, "100 s"),
            (Unit::Bytes, 32768.0, "32 KiB"),
            (Unit::Rate, 50_000.0, "50,000"),
            (Unit::Count, 0.25, "0.25"),
            (Unit::Share, 0.5, "50 %"),
        ] {
            assert_eq!(unit.tick(value), text, "{value}");
        }
    }
}
